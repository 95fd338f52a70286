package fetcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidemark/catalog"
	"tidemark/replication"
)

// Waits between attempts; none is longer than longPause.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 250 * time.Millisecond
)

// phase is what a partition needs next.
type phase int

const (
	begin      phase = iota // look at the log
	restarting              // Restart runs, on a goroutine of its own
	diverging               // ask the leader where the logs part
	fetching
	stale // until it is assigned anew
)

// part is one partition of a fetcher.
type part struct {
	Assignment
	phase  phase
	trunc  *replication.Truncation
	cancel context.CancelFunc // of a Restart
	gone   bool               // it is not followed any more, or as another part

	// The agenda's.
	listed  bool
	wanted  bool      // as judge found it last
	isOff   bool      // it is put off
	retryAt time.Time // until when
}

// fetcher follows one leader.
type fetcher struct {
	pool   *Pool
	leader catalog.BrokerID
	wake   chan struct{}
	events chan restarted

	mu   sync.Mutex // guards want and news; a leaf
	want Target
	news bool

	ctx      context.Context // of run
	addr     string
	parts    map[catalog.PartitionID]*part
	catching []*part // those of parts that are catching up
	agenda
	conn     *Conn
	session  session
	pause    time.Duration
	restarts sync.WaitGroup
	away     bool // the last attempt failed; logged once
	// heldUntil is how long the leader wants to be left alone with throttled partitions, by its last answer.
	heldUntil time.Time
}

// restarted is the outcome of a Restart.
type restarted struct {
	p   *part
	err error
}

func newFetcher(p *Pool, leader catalog.BrokerID) *fetcher {
	return &fetcher{
		pool: p, leader: leader, wake: make(chan struct{}, 1), events: make(chan restarted),
		parts: map[catalog.PartitionID]*part{}, session: newSession(),
	}
}

// assign replaces what is followed; the goroutine takes it over at its next step.
func (f *fetcher) assign(t Target) {
	f.mu.Lock()
	f.want, f.news = t, true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// adopt takes over what was assigned.
func (f *fetcher) adopt() {
	f.mu.Lock()
	t, news := f.want, f.news
	f.news = false
	f.mu.Unlock()
	if !news {
		return
	}
	if t.Addr != f.addr {
		f.disconnect()
		f.addr = t.Addr
	}
	kept := make(map[catalog.PartitionID]*part, len(t.Parts))
	f.catching = nil
	for _, a := range t.Parts {
		p := f.parts[a.ID]
		if p != nil && p.Epoch == a.Epoch && p.Replica == a.Replica {
			p.CatchingUp, p.FollowerThrottled, p.LeaderThrottled = a.CatchingUp, a.FollowerThrottled, a.LeaderThrottled
		} else {
			p = &part{Assignment: a}
			f.list(p)
		}
		kept[a.ID] = p
		if p.CatchingUp {
			f.catching = append(f.catching, p)
		}
	}
	for id, old := range f.parts {
		if kept[id] == old {
			continue
		}
		old.gone = true
		f.list(old)
		if old.cancel != nil {
			old.cancel()
		}
	}
	f.parts = kept
	if len(kept) == 0 {
		f.disconnect()
	}
}

func (f *fetcher) disconnect() {
	f.session, f.heldUntil = newSession(), time.Time{}
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn = nil
	}
}

// run works until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	f.ctx = ctx
	defer f.restarts.Wait()
	defer f.disconnect()
	for ctx.Err() == nil {
		f.adopt()
		wait, err := f.round(ctx)
		if err != nil && ctx.Err() == nil {
			wait = f.failed(err)
		}
		if wait != 0 {
			f.rest(ctx, wait)
		}
	}
}

// failed closes the connection and says how long to wait for the next.
func (f *fetcher) failed(err error) time.Duration {
	f.disconnect()
	f.pool.metrics.failures.Inc()
	if !f.away {
		f.away = true
		f.pool.o.Log.Warn("no replication from a leader; trying again", "leader", f.leader, "addr", f.addr, "error", err)
	}
	f.pause = min(max(2*f.pause, shortPause/2), longPause)
	return f.pause
}

// rest waits for time, an assignment or the end of a Restart; forever if wait is negative.
func (f *fetcher) rest(ctx context.Context, wait time.Duration) {
	var timer <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-f.wake:
	case e := <-f.events:
		f.ended(e)
	}
}

// round takes every partition on the agenda a step further. wait says how long nothing is to do: 0 go on, -1 until
// something is assigned. An error is of the connection.
func (f *fetcher) round(ctx context.Context) (wait time.Duration, err error) {
	f.drain()
	now := time.Now()
	f.due(now)
	f.throttle(now)
	ask := f.plan()
	if len(ask) == 0 && f.wanted == 0 {
		return f.wait(), nil
	}
	if f.conn == nil {
		if err := f.connect(ctx); err != nil {
			return 0, err
		}
	}
	if len(ask) > 0 {
		return 0, f.askEpochs(ctx, ask)
	}
	return 0, f.fetch(ctx)
}

// plan looks at what is on the agenda and returns what has a question to ask before it is fetched. What is neither to be
// asked for nor in the session is done with.
func (f *fetcher) plan() (ask []*part) {
	f.sift(func(p *part) bool {
		if p.phase == begin && !p.gone && !p.isOff {
			f.begin(p)
		}
		f.judge(p)
		switch {
		case p.gone && f.parts[p.ID] != nil:
			return false // another part speaks for the partition
		case p.phase == diverging && !p.gone && !p.isOff:
			ask = append(ask, p)
			return true
		}
		return p.wanted || f.session.holds(p.ID)
	})
	return ask
}

// throttle puts off what catches up and may not be asked for now, for at most longPause, so that it is looked at again:
// limits change, and what comes into sync is not held up any more.
func (f *fetcher) throttle(now time.Time) {
	if len(f.catching) == 0 {
		return
	}
	all, followers, leader := f.pool.catchUp.Pause(now), f.pool.o.Throttle.Pause(now), f.heldUntil.Sub(now)
	if max(all, followers, leader) <= 0 {
		return
	}
	for _, p := range f.catching {
		if p.phase != fetching || p.isOff {
			continue
		}
		pause := all
		if p.FollowerThrottled {
			pause = max(pause, followers)
		}
		if p.LeaderThrottled {
			pause = max(pause, leader)
		}
		if pause > 0 {
			f.putOff(p, now.Add(min(pause, longPause)))
		}
	}
}

// copied notes bytes of a partition.
func (f *fetcher) copied(p *part, n int) {
	f.pool.metrics.bytes.Add(float64(n))
	if !p.CatchingUp {
		return
	}
	now := time.Now()
	f.pool.catchUp.Spend(n, now)
	if p.FollowerThrottled {
		f.pool.o.Throttle.Spend(n, now)
	}
}

// drain takes the outcomes that are there.
func (f *fetcher) drain() {
	for {
		select {
		case e := <-f.events:
			f.ended(e)
		default:
			return
		}
	}
}

func (f *fetcher) connect(ctx context.Context) error {
	if f.addr == "" {
		return fmt.Errorf("broker %d advertises no listener for brokers", f.leader)
	}
	c, err := f.pool.Connect(ctx, f.addr)
	f.conn, f.session = c, newSession()
	return err
}

// begin looks at a log: it goes on from its end, or has to begin anew.
func (f *fetcher) begin(p *part) {
	l, restart := p.Replica.Log()
	if restart {
		f.restart(p)
		return
	}
	t := replication.NewTruncation(l.Epochs, l.End)
	p.trunc = &t
	f.enter(p, diverging)
}

// restart lets the log begin at the tier's end, beside the others' fetches.
func (f *fetcher) restart(p *part) {
	ctx, cancel := context.WithCancel(f.ctx)
	p.cancel = cancel
	f.enter(p, restarting)
	f.pool.metrics.restarts.Inc()
	f.restarts.Go(func() {
		err := p.Replica.Restart(ctx)
		select {
		case f.events <- restarted{p, err}:
		case <-ctx.Done():
		}
	})
}

func (f *fetcher) ended(e restarted) {
	if e.p.gone {
		return
	}
	e.p.cancel()
	e.p.cancel = nil
	switch {
	case errors.Is(e.err, ErrStale):
		f.enter(e.p, stale)
		return
	case e.err != nil:
		f.later(e.p, e.err, longPause)
	}
	f.enter(e.p, begin)
}

// later puts a partition off.
func (f *fetcher) later(p *part, err error, pause time.Duration) {
	f.putOff(p, time.Now().Add(pause))
	f.pool.o.Log.Debug("following is put off", "topic", p.Topic, "partition", p.ID.Partition, "leader", f.leader, "epoch", p.Epoch, "error", err)
}
