package partition

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
)

// A broker that has lost the catalog cannot know whether it is away for all, and leaders go on, or for itself alone, and
// others lead by now. Its peers know: where they have the catalog, the controller has taken this broker out, and they say
// so. From then on it answers NOT_LEADER_OR_FOLLOWER for everything that it leads and leaves itself out of what it
// tells clients, until it has read the catalog (H17).

const (
	// aloneRound is how often peers are asked, aloneTime what each is given, aloneAsks how many of them are asked.
	aloneRound = time.Second
	aloneTime  = time.Second
	aloneAsks  = 3
)

// InDoubt says that other brokers may lead what this one leads, and that it has to read the catalog before it counts
// itself among those who serve (H17).
func (s *Set) InDoubt() bool { return s.inDoubt.Load() }

// runAlone asks peers while the catalog does not answer, until ctx ends.
func (s *Set) runAlone(ctx context.Context) error {
	if s.opts.CatalogAge == nil || s.opts.Refresh == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(aloneRound)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if s.opts.CatalogAge() > awayLong && !s.InDoubt() && s.takenOut(ctx) {
			s.doubtAll()
		}
	}
}

// takenOut asks some peers, drawn anew each time, whether they count this broker among the live ones.
func (s *Set) takenOut(ctx context.Context) bool {
	s.mu.RLock()
	var addrs []string
	for b, addr := range s.peers {
		if b != s.opts.Broker && addr != "" {
			addrs = append(addrs, addr)
		}
	}
	s.mu.RUnlock()
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	ctx, cancel := context.WithTimeout(ctx, aloneTime)
	defer cancel()
	var out atomic.Bool
	var g errgroup.Group
	for _, addr := range addrs[:min(len(addrs), aloneAsks)] {
		g.Go(func() error {
			fenced, err := s.askWhoLives(ctx, addr)
			if err != nil {
				s.opts.Log.Debug("a peer does not say who is live", "address", addr, "error", err)
			}
			if fenced {
				out.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // each is logged by itself
	return out.Load()
}

// askWhoLives reports whether a peer knows this broker as one that is not live.
func (s *Set) askWhoLives(ctx context.Context, addr string) (fenced bool, err error) {
	c, err := s.pool.Connect(ctx, addr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.SetVersion(2)
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp := kmsg.NewPtrDescribeClusterResponse()
	if err := c.Do(ctx, req, resp, aloneTime); err != nil {
		return false, err
	}
	for _, b := range resp.Brokers {
		if catalog.BrokerID(b.NodeID) == s.opts.Broker {
			return b.IsFenced, nil
		}
	}
	return false, nil
}

// doubtAll puts every leadership in doubt until the catalog has been read.
func (s *Set) doubtAll() {
	s.opts.Log.Warn("the catalog does not answer this broker, and another one knows that it was taken out: it serves nothing until it has read the catalog")
	s.doubt()
	for _, p := range s.All() {
		if l := p.role.Load(); l != nil {
			l.doubts.Add(1)
			p.waiters.wake()
			p.tail.wake()
		}
	}
	s.doubt() // a look at the catalog that ended meanwhile has not seen all of them
}
