package partition

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

// leadership is one leader epoch of this broker on one partition.
type leadership struct {
	guard catalog.Guard
	began record.Offset // the log's end when the epoch began
	// doubts counts that a higher epoch was heard of since the catalog was read: while it is above 0 this
	// broker answers as if it did not lead (H17).
	doubts atomic.Int32

	// What the followers mean for produce and the high watermark; written under mu.
	inSync, minISR atomic.Int32
	reach          atomic.Int64 // what the in-sync followers have; replication.Unbounded if there are none
	alone          atomic.Bool  // there are no others, and no change is pending: the rounds of planISR pass by

	mu        sync.Mutex // guards followers; after roleMu, a leaf
	followers *replication.Followers
}

func newLeadership(g catalog.Guard, o replication.FollowersOptions) *leadership {
	l := &leadership{guard: g, began: o.Began, followers: replication.NewFollowers(o)}
	l.publishLocked()
	return l
}

// publishLocked shows the followers' state to those who take no lock.
func (l *leadership) publishLocked() {
	l.inSync.Store(int32(l.followers.InSync()))
	l.minISR.Store(int32(l.followers.MinISR()))
	l.reach.Store(int64(l.followers.Reach()))
	l.alone.Store(l.followers.Alone())
}

// enough reports whether acks=all can be met.
func (l *leadership) enough() bool { return l.inSync.Load() >= l.minISR.Load() }

// changeInSync changes what is known of the in-sync set. No append and no fetch moves the high watermark by the
// old one once it has returned.
func (p *Partition) changeInSync(l *leadership, change func(f *replication.Followers)) {
	p.roleMu.Lock()
	l.mu.Lock()
	before := l.followers.ISR()
	change(l.followers)
	p.env.metrics.inSyncChanged(before, l.followers.ISR())
	l.publishLocked()
	l.mu.Unlock()
	if p.role.Load() == l {
		p.advance(l)
	}
	p.roleMu.Unlock()
	p.moved()
}

// ReplicaFetch says whose fetch it is, and what it proves.
type ReplicaFetch struct {
	// Member's incarnation is known to be the registered one.
	Member catalog.Member
	// From is what it asks for, LeaderEpoch the epoch that it has cut its log for.
	From        record.Offset
	LeaderEpoch record.Epoch
}

// NoteReplica takes over what a replica's fetch proves. Whoever waits for a high watermark that it lifts hears of it when
// lifted is announced. It is called once a fetch, before FetchReplica, for all partitions before any is read: what a fetch
// proves is not to wait for what it reads. Errors: ErrNotLeader, ErrFencedEpoch, ErrUnknownEpoch, ErrOutOfRange,
// ErrMovedToTier.
func (p *Partition) NoteReplica(r ReplicaFetch, lifted *Arrivals) error {
	p.roleMu.RLock()
	defer p.roleMu.RUnlock()
	lead, end, err := p.admitReplica(r.From, r.LeaderEpoch)
	if err != nil {
		return err
	}
	m := r.Member
	lead.mu.Lock()
	defer lead.mu.Unlock()
	if !lead.followers.IsReplica(m.Broker) {
		return fmt.Errorf("%w: broker %d is no replica of %s-%d here", ErrNotLeader, m.Broker, p.Name, p.ID.Partition)
	}
	lead.followers.Fetched(m, r.From, end, p.env.mono())
	lead.publishLocked()
	if _, moved := p.lift(lead); moved {
		lifted.at = append(lifted.at, p)
	}
	if !lead.followers.Pending() && lead.followers.Joins(m.Broker, record.Offset(p.hw.Load())) {
		p.env.pokeISR()
	}
	return nil
}

// FetchReplica reads for a replica whose fetch has been noted: up to the log's end, from this disk only. Errors: as
// Fetch, and ErrMovedToTier.
func (p *Partition) FetchReplica(req FetchRequest) (Fetched, error) {
	f := Fetched{HW: -1, Stable: -1, Start: record.Offset(p.start.Load())}
	p.roleMu.RLock()
	_, end, err := p.admitReplica(req.From, req.LeaderEpoch)
	p.roleMu.RUnlock()
	if err != nil {
		return f, err
	}
	f.HW = record.Offset(p.hw.Load())
	f.Stable = f.HW
	if req.From >= end {
		f.AtEnd = true
		return f, nil
	}
	// Should the leadership end from here on, and other records be written where these stood, the replica
	// sees by their epochs that they are not what it asked for.
	req.Committed, req.replica = false, true
	return f, p.fetchHot(&f, req, end)
}

// admitReplica judges a replica's fetch, and returns the log's end. The caller holds roleMu in read mode.
func (p *Partition) admitReplica(from record.Offset, epoch record.Epoch) (*leadership, record.Offset, error) {
	lead, err := p.leading()
	if err != nil {
		return nil, 0, err
	}
	if epoch < 0 {
		return nil, 0, fmt.Errorf("%w: a replica's fetch names its epoch", ErrFencedEpoch)
	}
	if err := lead.checkEpoch(epoch); err != nil {
		p.HeardOf(epoch)
		return nil, 0, err
	}
	b := p.log.Bounds()
	if from > b.End {
		return nil, 0, fmt.Errorf("%w: a replica is at %d, the log ends at %d", ErrOutOfRange, from, b.End)
	}
	if from < b.LocalStart {
		return nil, 0, fmt.Errorf("%w: a replica is at %d, the log begins at %d", ErrMovedToTier, from, b.LocalStart)
	}
	return lead, b.End, nil
}

// StayReplica says that each coming of the replica's session, as with shows, stands for a fetch from the offset that was
// noted last, until the next NoteReplica or LeaveReplica. The caller has the tail's moves told, and has read since that the
// offset is the log's end.
func (p *Partition) StayReplica(b catalog.BrokerID, with *replication.Presence) {
	if l := p.role.Load(); l != nil {
		l.mu.Lock()
		l.followers.Stays(b, with)
		l.mu.Unlock()
	}
}

// LeaveReplica says that the replica's session does not ask for the partition any more, or was refused it.
func (p *Partition) LeaveReplica(b catalog.BrokerID) {
	if l := p.role.Load(); l != nil {
		l.mu.Lock()
		l.followers.Leaves(b)
		l.mu.Unlock()
	}
}

// NearReplica picks an in-sync follower for a consumer that reads at from and wants a replica for which near holds
// (KIP-392); false if the leader itself is near or nobody is.
func (p *Partition) NearReplica(from record.Offset, near func(catalog.BrokerID) bool) (catalog.BrokerID, bool) {
	l, err := p.leading()
	if err != nil || near(l.guard.Broker) {
		return catalog.NoBroker, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	best, reach := catalog.NoBroker, record.Offset(-1)
	for _, m := range l.followers.ISR() {
		if end := l.followers.EndOf(m.Broker); m.Broker != l.guard.Broker && end >= from && end > reach && near(m.Broker) {
			best, reach = m.Broker, end
		}
	}
	return best, best != catalog.NoBroker
}

// planISR asks the partition whether its in-sync set should be another one.
func (p *Partition) planISR(now time.Duration, mayShrink bool) (*leadership, replication.Change, bool) {
	l := p.role.Load()
	if l == nil || l.alone.Load() || l.doubted() {
		return nil, replication.Change{}, false
	}
	l.mu.Lock()
	wants := l.followers.Wants(record.Offset(p.hw.Load()), p.log.Bounds().End, now, mayShrink)
	l.mu.Unlock()
	if !wants {
		return nil, replication.Change{}, false
	}
	p.roleMu.Lock() // no append moves hw by the old set from here on
	defer p.roleMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.role.Load() != l {
		return nil, replication.Change{}, false
	}
	c, ok := l.followers.Plan(record.Offset(p.hw.Load()), p.log.Bounds().End, now, mayShrink)
	l.publishLocked()
	return l, c, ok
}

// answerISR takes the catalog's answer to what planISR asked for; nil means that there was none, and that the change
// may still happen until the given time.
func (p *Partition) answerISR(l *leadership, row *catalog.Partition, now, until time.Duration) {
	if row != nil && (row.Leader != l.guard.Broker || row.LeaderEpoch != l.guard.Epoch) {
		p.HeardOf(row.LeaderEpoch)
		return
	}
	p.changeInSync(l, func(f *replication.Followers) {
		if row == nil {
			f.Unknown(until)
			return
		}
		f.Answered(*row, now)
	})
}
