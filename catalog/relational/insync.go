package relational

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/catalog"
	"tidemark/record"
)

// isrWrite is what AlterISR was asked for.
type isrWrite struct {
	broker      catalog.BrokerID
	incarnation catalog.Incarnation
	epochs      []record.Epoch
	changes     []catalog.ISRChange
}

// check refuses what no row could make right.
func (w isrWrite) check() error {
	if len(w.epochs) != len(w.changes) {
		return fmt.Errorf("%w: %d epochs for %d changes of in-sync sets", catalog.ErrInvalid, len(w.epochs), len(w.changes))
	}
	self := catalog.Member{Broker: w.broker, Incarnation: w.incarnation}
	for _, c := range w.changes {
		if !slices.Contains(c.ISR, self) {
			return fmt.Errorf("%w: the ISR of %s would lack its leader, broker %d", catalog.ErrInvalid, c.ID, w.broker)
		}
	}
	return nil
}

// AlterISR applies a leader's changes whose row has not moved and whose members are who they say.
func (s *Store) AlterISR(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, epochs []record.Epoch, cs []catalog.ISRChange) ([]catalog.Partition, error) {
	w := isrWrite{b, inc, epochs, cs}
	if err := w.check(); err != nil || len(cs) == 0 {
		return nil, err
	}
	brokers := []catalog.BrokerID{b}
	ids := make([]catalog.PartitionID, len(cs))
	for i, c := range cs {
		ids[i] = c.ID
		for _, m := range c.ISR {
			brokers = append(brokers, m.Broker)
		}
	}
	slices.Sort(brokers)
	brokers = slices.Compact(brokers)

	var rows []partitionRow
	var changed []int
	var version catalog.Version
	err := s.write(ctx, func(tx Tx) error {
		known := map[catalog.BrokerID]brokerRow{}
		topics := map[catalog.TopicID]catalog.Version{}
		var rewound bool
		err := tx.Read(unlessRewound(&rewound),
			Stmt{SQL: s.sql.registered, Args: []any{encode(brokers)}, Lock: "FOR KEY SHARE", Row: appendRegistered(known)},
			Stmt{SQL: s.sql.electing, Args: []any{namePartitions(ids)}, Lock: "FOR UPDATE OF p", Row: appendPartition(&rows)},
			s.topicVersions(ids, topics))
		if err := errors.Join(err, refuseRewound(rewound)); err != nil {
			return err
		}
		changed = w.apply(rows, known, topics)
		if len(changed) == 0 {
			return ErrDone
		}
		out := make([]partitionRow, len(changed))
		for i, at := range changed {
			out[i] = rows[at]
		}
		s.bump(tx)
		s.queuePartitions(tx, out)
		tx.Queue(versionInto(&version))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, at := range changed {
		rows[at].Version = version
	}
	return inOrder(ids, rows), nil
}

// apply changes rows and says which of them it changed.
func (w isrWrite) apply(rows []partitionRow, known map[catalog.BrokerID]brokerRow, topics map[catalog.TopicID]catalog.Version) (changed []int) {
	byID := make(map[catalog.PartitionID]int, len(rows))
	for i, p := range rows {
		byID[p.ID] = i
	}
	current := func(m catalog.Member) bool {
		return m.Incarnation != 0 && known[m.Broker].incarnation == m.Incarnation
	}
	live := func(m catalog.Member) bool { return known[m.Broker].live }
	for i, c := range w.changes {
		at, ok := byID[c.ID]
		if !ok || slices.Contains(changed, at) {
			continue
		}
		p := &rows[at]
		guard := catalog.Guard{Broker: w.broker, Incarnation: w.incarnation, Epoch: w.epochs[i]}
		held := catalog.Guard{Broker: p.Leader, Incarnation: p.incarnation, Epoch: p.LeaderEpoch}
		if catalog.CheckGuard(guard, held) != nil || catalog.CheckISR(p.Partition, c, current, live) != nil {
			continue
		}
		elr := catalog.NextELR(p.Partition, c.ISR, c.MinISR, func(m catalog.Member) bool {
			// A member that leaves now may be of a broker whose row was not read: it is then judged by
			// the set that it stands in, which a registration would have taken it out of (H4).
			b, read := known[m.Broker]
			return !read || b.incarnation == m.Incarnation
		})
		if topics[c.ID.Topic] != c.IfTopic {
			elr = nil
		}
		if sameMembers(p.ISR, c.ISR) && sameMembers(p.ELR, elr) {
			continue
		}
		p.ELR = elr
		p.ISR = slices.Clone(c.ISR)
		changed = append(changed, at)
	}
	return changed
}

func sameMembers(a, b []catalog.Member) bool {
	if len(a) != len(b) {
		return false
	}
	for _, m := range a {
		if !slices.Contains(b, m) {
			return false
		}
	}
	return true
}

// inOrder is the rows in the order of ids, those without a row left out.
func inOrder(ids []catalog.PartitionID, rows []partitionRow) []catalog.Partition {
	byID := make(map[catalog.PartitionID]catalog.Partition, len(rows))
	for _, p := range rows {
		byID[p.ID] = p.Partition
	}
	var out []catalog.Partition
	for _, id := range ids {
		if p, ok := byID[id]; ok {
			out = append(out, p)
		}
	}
	return out
}
