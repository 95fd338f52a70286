package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/broker/metadata"
	"tidemark/broker/topicconfig"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/replication"
)

// settleTime bounds how long an image waits for what it brings; the rest is tried again every second.
const settleTime = 3 * time.Second

// Reconcile makes this broker's partitions what the image says: opens, leads, stops leading, takes over
// settings, closes and removes. What fails is tried again by Run. It is called for each new image, one
// after the other.
func (s *Set) Reconcile(ctx context.Context, im *metadata.Image) {
	want := map[catalog.PartitionID]wanted{}
	for _, t := range im.Topics() {
		for _, row := range t.Partitions {
			if slices.Contains(row.Replicas, s.opts.Broker) {
				want[row.ID] = wanted{row, t}
			}
		}
	}
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	s.mu.Lock()
	due := s.dueLocked(want)
	s.want = want
	s.peers = addresses(im, s.opts.InterBroker)
	first := !s.first
	s.first = true
	s.mu.Unlock()
	if first {
		s.setStraysAside(im)
	}
	s.dropUnwanted(want, im)
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s.settleThese(ctx, due)
}

// dueLocked lists what is not as the new image wants it: partitions of topics in which anything has changed, and those that
// are not open or not well.
func (s *Set) dueLocked(want map[catalog.PartitionID]wanted) []wanted {
	var due []wanted
	for id, w := range want {
		p := s.parts[id]
		if p == nil || s.want[id].topic != w.topic || s.fails[id] != nil || p.failed.Load() {
			due = append(due, w)
		}
	}
	return due
}

// settle tries again what Reconcile could not finish.
func (s *Set) settle(ctx context.Context) {
	s.mu.RLock()
	failing := len(s.fails) > 0
	s.mu.RUnlock()
	if !failing {
		return
	}
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	s.mu.RLock()
	var due []wanted
	for id := range s.fails {
		if w, ok := s.want[id]; ok {
			due = append(due, w)
		}
	}
	s.mu.RUnlock()
	s.settleThese(ctx, due)
}

// settling is how many partitions are opened and led at the same time.
const settling = 8

func (s *Set) settleThese(ctx context.Context, want []wanted) {
	ask := questions{
		lost:  sync.OnceValues(func() (map[catalog.PartitionID]bool, error) { return s.askLost(ctx) }),
		stand: sync.OnceValues(func() (map[catalog.PartitionID]catalog.Standing, error) { return s.askStandings(ctx, want) }),
	}
	var next atomic.Int64
	var g sync.WaitGroup
	for range min(settling, len(want)) {
		g.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(want)); i = next.Add(1) - 1 {
				s.note(want[i], s.settleOne(ctx, want[i], ask))
			}
		})
	}
	g.Wait()
	s.mu.Lock()
	s.tellWaitingLocked()
	s.publishLocked()
	s.mu.Unlock()
	s.assign()
}

// tellWaitingLocked logs once how many partitions wait for the catalog, until none does.
func (s *Set) tellWaitingLocked() {
	waiting := 0
	var last error
	for _, err := range s.fails {
		if catalog.Unavailable(err) {
			waiting, last = waiting+1, err
		}
	}
	if waiting > 0 && !s.waiting {
		s.opts.Log.Warn("partitions are offline until the catalog answers; trying again", "partitions", waiting, "error", last)
	}
	s.waiting = waiting > 0
}

// errNoLeader: the catalog names no leader at present.
var errNoLeader = errors.New("the partition has no leader")

// note keeps the reason why a partition is offline, and logs it once.
func (s *Set) note(w wanted, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.fails[w.row.ID]
	if err == nil {
		delete(s.fails, w.row.ID)
		return
	}
	s.fails[w.row.ID] = err
	switch {
	case errors.Is(err, errNoLeader): // an election follows; readiness tells if none does
	case catalog.Unavailable(err): // settleThese tells of all of them
	case old == nil || old.Error() != err.Error():
		s.opts.Log.Warn("partition is offline; trying again", "topic", w.topic.Name, "partition", w.row.ID.Partition, "error", err)
	}
}

// settleOne opens a partition and begins or ends its leadership.
func (s *Set) settleOne(ctx context.Context, w wanted, ask questions) error {
	p, opened, err := s.openOne(ctx, w)
	if err != nil {
		return err
	}
	if !opened {
		p.setConfig(w.topic.Effective, w.topic.Version)
	}
	if w.row.Leader == s.opts.Broker {
		old := p.follows.Load()
		if err := s.lead(ctx, p, w, ask); err != nil {
			return err
		}
		if old != nil {
			s.tell(old.leader, notice{w.topic.Name, w.row.ID.Partition, w.row.LeaderEpoch})
		}
		return nil
	}
	self := catalog.Member{Broker: s.opts.Broker, Incarnation: s.opts.Incarnation}
	p.eligible.Store(slices.Contains(w.row.ISR, self) || slices.Contains(w.row.ELR, self))
	if err := p.resigned(); err != nil {
		return err
	}
	if w.row.Leader != catalog.NoBroker {
		p.Follow(w.row)
		return nil
	}
	p.Unlead()
	if len(w.row.Replicas) == 1 {
		return fmt.Errorf("%w: %s-%d", errNoLeader, w.topic.Name, w.row.ID.Partition)
	}
	return nil // another replica may lead
}

// agrees reports whether the log is known to agree with the tier where it is elected by the row: it led or was cut for
// the epoch before; or it was in the ISR or ELR, and the election was not an unclean one; or nobody else could have
// written (R18).
func (s *Set) agrees(p *Partition, w wanted) bool {
	switch aligned := record.Epoch(p.aligned.Load()); {
	case aligned >= 0 && aligned >= w.row.LeaderEpoch-1:
		return true
	case len(w.row.Replicas) == 1:
		return s.opts.Kept || aligned >= 0
	}
	return p.eligible.Load() && !w.topic.Effective.UncleanLeaderElectionEnable
}

func (s *Set) openOne(ctx context.Context, w wanted) (p *Partition, opened bool, err error) {
	if p, err := s.Get(w.row.ID); err == nil {
		return p, false, nil
	}
	out := s.opts.Log.With("topic", w.topic.Name, "partition", w.row.ID.Partition)
	if err := s.bringBack(w.row.ID); err != nil {
		return nil, false, fmt.Errorf("open the local log: %w", err)
	}
	l, err := s.opts.Data.OpenLog(ctx, w.row.ID.Topic, w.row.ID.Partition, hotlog.Options{
		Config: s.logConfig(w.topic.Effective),
		Clock:  hotlog.Clock{Wall: s.env.wall, Mono: s.env.mono},
		Logger: out, Files: s.opts.Files,
	})
	if err != nil {
		return nil, false, fmt.Errorf("open the local log: %w", err)
	}
	p = newPartition(w.row.ID, w.topic.Name, w.topic.Effective, l, s.env, out)
	p.cfgVersion.Store(int64(w.topic.Version))
	p.logConfig = s.logConfig
	p.observe(w.row.Bounds)
	raise(&p.hw, min(s.savedHW[w.row.ID], l.Bounds().End))
	raise(&p.hw, max(w.row.Start, w.row.Tiered))
	s.mu.Lock()
	s.parts[w.row.ID] = p
	s.mu.Unlock()
	return p, true, nil
}

// flushNever is a flush.ms from which on it counts as "never".
const flushNever = 365 * 24 * time.Hour

// logConfig maps a topic's settings to its logs'.
func (s *Set) logConfig(t topicconfig.Topic) hotlog.Config {
	c := hotlog.DefaultConfig()
	c.SegmentBytes = min(t.SegmentBytes, 1<<31-1)
	c.SegmentIndexBytes = int(t.SegmentIndexBytes)
	c.IndexIntervalBytes = int(t.IndexIntervalBytes)
	c.FlushMessages = t.FlushMessages
	switch d := t.FlushMs.Duration(); {
	case t.FlushMs == 0: // at once
		c.FlushMessages = 1
	case d < flushNever:
		c.FlushInterval = d
	}
	if c.FlushMessages == math.MaxInt64 {
		c.FlushMessages = 0
	}
	c.MaxProducers = s.opts.MaxProducers
	c.ProducerExpiry = s.opts.ProducerExpiry
	return c
}

// setConfig takes over changed settings of a version of the topic.
func (p *Partition) setConfig(t topicconfig.Topic, version catalog.Version) {
	defer p.cfgVersion.Store(int64(version))
	old := p.cfg.Load()
	if *old == t {
		return
	}
	p.cfg.Store(&t)
	if err := p.log.SetConfig(p.logConfig(t)); err != nil {
		p.out.Warn("settings of the local log", "error", err)
	}
	if l := p.role.Load(); l != nil && old.MinInsyncReplicas != t.MinInsyncReplicas {
		p.changeInSync(l, func(f *replication.Followers) { f.SetMinISR(t.MinInsyncReplicas) })
	}
	if old.RemoteStorageEnable != t.RemoteStorageEnable {
		p.tierOnOff(nil)
	}
	p.mu.Lock()
	p.expireNow = true
	p.mu.Unlock()
	p.moved()
	p.env.tier.Wake(p.ID)
	p.touch()
	p.env.poke()
}

// dropUnwanted closes partitions that the image does not give to this broker any more. Their local files are deleted if
// their topic has a tombstone or another broker holds them now, else kept: the catalog may have lost the topic.
func (s *Set) dropUnwanted(want map[catalog.PartitionID]wanted, im *metadata.Image) {
	var gone []*Partition
	for _, p := range s.All() {
		if _, ok := want[p.ID]; !ok {
			gone = append(gone, p)
		}
	}
	var g errgroup.Group
	g.SetLimit(8)
	for _, p := range gone {
		g.Go(func() error {
			p.Unlead()
			p.Unfollow()
			return nil
		})
	}
	_ = g.Wait()
	s.mu.Lock()
	for _, p := range gone {
		delete(s.parts, p.ID)
	}
	for id := range s.fails {
		if _, ok := want[id]; !ok {
			delete(s.fails, id)
		}
	}
	if len(gone) > 0 {
		s.publishLocked()
	}
	s.mu.Unlock()
	for _, p := range gone {
		p.moved()
		s.env.tier.Forget(p.ID, math.MaxInt64)
	}
	s.discard(gone, im)
}
