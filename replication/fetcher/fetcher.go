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
	phase   phase
	retryAt time.Time // not before
	trunc   *replication.Truncation
	cancel  context.CancelFunc // of a Restart
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
	for _, a := range t.Parts {
		if old := f.parts[a.ID]; old != nil && old.Epoch == a.Epoch && old.Replica == a.Replica {
			old.CatchingUp, old.FollowerThrottled, old.LeaderThrottled = a.CatchingUp, a.FollowerThrottled, a.LeaderThrottled
			kept[a.ID] = old
			continue
		}
		kept[a.ID] = &part{Assignment: a}
	}
	for id, old := range f.parts {
		if kept[id] != old && old.cancel != nil {
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

// round takes every partition a step further. wait says how long nothing is to do: 0 go on, -1 until something is
// assigned. An error is of the connection.
func (f *fetcher) round(ctx context.Context) (wait time.Duration, err error) {
	f.drain()
	var ask, fetch []*part
	now, next := time.Now(), time.Time{}
	for _, p := range f.parts {
		if p.phase == stale || p.phase == restarting {
			continue
		}
		if p.retryAt.After(now) {
			if next.IsZero() || p.retryAt.Before(next) {
				next = p.retryAt
			}
			continue
		}
		if p.phase == begin {
			f.begin(p)
		}
		switch p.phase {
		case diverging:
			ask = append(ask, p)
		case fetching:
			if pause := f.throttled(p, now); pause > 0 {
				p.retryAt = now.Add(pause)
				if next.IsZero() || p.retryAt.Before(next) {
					next = p.retryAt
				}
				continue
			}
			fetch = append(fetch, p)
		}
	}
	if len(ask) == 0 && len(fetch) == 0 {
		if next.IsZero() {
			return -1, nil
		}
		return max(time.Until(next), time.Millisecond), nil
	}
	if f.conn == nil {
		if err := f.connect(ctx); err != nil {
			return 0, err
		}
	}
	if len(ask) > 0 {
		return 0, f.askEpochs(ctx, ask)
	}
	return 0, f.fetch(ctx, fetch)
}

// throttled is how long a partition may not be asked for, at most longPause, so that it is looked at again: limits change,
// and what comes into sync is not held up any more.
func (f *fetcher) throttled(p *part, now time.Time) time.Duration {
	if !p.CatchingUp {
		return 0
	}
	pause := f.pool.catchUp.Pause(now)
	if p.FollowerThrottled {
		pause = max(pause, f.pool.o.Throttle.Pause(now))
	}
	if p.LeaderThrottled {
		pause = max(pause, f.heldUntil.Sub(now))
	}
	return min(pause, longPause)
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
	p.trunc, p.phase = &t, diverging
}

// restart lets the log begin at the tier's end, beside the others' fetches.
func (f *fetcher) restart(p *part) {
	ctx, cancel := context.WithCancel(f.ctx)
	p.phase, p.cancel = restarting, cancel
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
	if f.parts[e.p.ID] != e.p {
		return
	}
	e.p.cancel()
	e.p.cancel, e.p.phase = nil, begin
	switch {
	case errors.Is(e.err, ErrStale):
		e.p.phase = stale
	case e.err != nil:
		f.later(e.p, e.err, longPause)
	}
}

// later puts a partition off.
func (f *fetcher) later(p *part, err error, pause time.Duration) {
	p.retryAt = time.Now().Add(pause)
	f.pool.o.Log.Debug("following is put off", "topic", p.Topic, "partition", p.ID.Partition, "leader", f.leader, "epoch", p.Epoch, "error", err)
}
