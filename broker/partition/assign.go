package partition

import (
	"net"
	"slices"
	"strconv"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/replication/fetcher"
)

// addresses is where each broker listens, or did before it was taken out, for brokers.
func addresses(im *metadata.Image, listener string) map[catalog.BrokerID]string {
	out := map[catalog.BrokerID]string{}
	for _, b := range im.Registered() {
		i := slices.IndexFunc(b.Listeners, func(l catalog.Listener) bool { return l.Name == listener })
		if i < 0 && len(b.Listeners) > 0 && listener == "" {
			i = 0
		}
		if i >= 0 {
			out[b.ID] = net.JoinHostPort(b.Listeners[i].Host, strconv.Itoa(int(b.Listeners[i].Port)))
		}
	}
	return out
}

// assign tells the fetchers what is followed now. A partition whose leader is gone keeps serving what it knows to be
// committed, and fetches from nobody.
func (s *Set) assign() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	targets := map[catalog.BrokerID]fetcher.Target{}
	for id, p := range s.parts {
		f := p.follows.Load()
		if w, ok := s.want[id]; f == nil || !ok || w.row.Leader != f.leader || w.row.LeaderEpoch != f.epoch {
			continue
		}
		self := catalog.Member{Broker: s.opts.Broker, Incarnation: s.opts.Incarnation}
		t := targets[f.leader]
		t.Addr = s.peers[f.leader]
		cfg := p.cfg.Load()
		t.Parts = append(t.Parts, fetcher.Assignment{
			ID: id, Topic: p.Name, Epoch: f.epoch, Replica: f, CatchingUp: !slices.Contains(s.want[id].row.ISR, self),
			FollowerThrottled: cfg.FollowerThrottled.Has(id.Partition, int32(self.Broker)),
			LeaderThrottled:   cfg.LeaderThrottled.Has(id.Partition, int32(f.leader)),
		})
		targets[f.leader] = t
	}
	s.pool.Assign(targets)
}
