package partition

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
)

// A broker that has lost the catalog alone does not see that another leads. The new leader tells it, by
// OffsetForLeaderEpoch with its epoch; from then on the old one answers NOT_LEADER_OR_FOLLOWER until it has read the
// catalog (H17).

// refreshTime bounds one look at the catalog, refreshPause is the pause between two.
const (
	refreshTime  = 2 * time.Second
	refreshPause = 250 * time.Millisecond
	// noticeTime bounds telling an old leader; it may be dead.
	noticeTime = 2 * time.Second
)

func (l *leadership) doubted() bool { return l.doubts.Load() > 0 }

// HeardOf takes a leader epoch that another replica goes by. One above the epoch that this broker leads puts the
// leadership in doubt.
func (p *Partition) HeardOf(epoch record.Epoch) {
	l := p.role.Load()
	if l == nil || epoch <= l.guard.Epoch {
		return
	}
	if l.doubts.Add(1) == 1 {
		p.out.Warn("another broker leads a higher epoch; asking the catalog", "epoch", l.guard.Epoch, "heard_of", epoch)
	}
	p.moved()
	p.env.doubt()
}

func (s *Set) doubt() {
	s.inDoubt.Store(true)
	select {
	case s.doubts <- struct{}{}:
	default:
	}
}

// runDoubts asks the catalog who leads, whenever a leadership is in doubt, until it has answered.
func (s *Set) runDoubts(ctx context.Context) error {
	if s.opts.Refresh == nil {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.doubts:
		}
		for !s.settleDoubts(ctx) {
			pause := time.NewTimer(refreshPause)
			select {
			case <-ctx.Done():
				pause.Stop()
				return nil
			case <-pause.C:
			}
		}
	}
}

// settleDoubts reads the catalog and ends the doubts that there were before; a leadership that has ended is gone by
// then.
func (s *Set) settleDoubts(ctx context.Context) bool {
	before := map[*leadership]int32{}
	for _, p := range s.All() {
		if l := p.role.Load(); l != nil && l.doubted() {
			before[l] = l.doubts.Load()
		}
	}
	call, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	if err := s.opts.Refresh(call); err != nil {
		return false
	}
	for l, n := range before {
		l.doubts.CompareAndSwap(n, 0) // more doubts since: they have woken this loop again
	}
	s.inDoubt.Store(false)
	for _, p := range s.All() {
		if l := p.role.Load(); l != nil && l.doubted() {
			s.inDoubt.Store(true)
		}
	}
	return true
}

// notice tells an old leader of the epoch of a new one.
type notice struct {
	topic string
	part  int32
	epoch record.Epoch
}

// notices wait to be told, by whom they are for.
type notices struct {
	wake chan struct{}
	mu   sync.Mutex // guards queue; a leaf
	to   map[catalog.BrokerID][]notice
}

func (s *Set) tell(b catalog.BrokerID, n notice) {
	s.notices.mu.Lock()
	if s.notices.to == nil {
		s.notices.to = map[catalog.BrokerID][]notice{}
	}
	s.notices.to[b] = append(s.notices.to[b], n)
	s.notices.mu.Unlock()
	select {
	case s.notices.wake <- struct{}{}:
	default:
	}
}

// runNotices tells old leaders, once each: one that cannot be reached cannot be reached by many clients either, and
// the followers' fetches tell it too.
func (s *Set) runNotices(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.notices.wake:
		}
		s.notices.mu.Lock()
		to := s.notices.to
		s.notices.to = nil
		s.notices.mu.Unlock()
		var g errgroup.Group
		for b, ns := range to {
			s.mu.RLock()
			addr := s.peers[b]
			s.mu.RUnlock()
			if addr == "" {
				continue
			}
			g.Go(func() error {
				if err := s.notify(ctx, addr, ns); err != nil {
					s.opts.Log.Debug("the old leader is not told", "broker", b, "error", err)
				}
				return nil
			})
		}
		_ = g.Wait() // each is told by itself
	}
}

func (s *Set) notify(ctx context.Context, addr string, ns []notice) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	c, err := s.pool.Connect(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.SetVersion(4)
	req.ReplicaID = int32(s.opts.Broker)
	for _, n := range ns {
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = n.topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = n.part, int32(n.epoch), int32(n.epoch)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return c.Do(ctx, req, kmsg.NewPtrOffsetForLeaderEpochResponse(), noticeTime)
}
