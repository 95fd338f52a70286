package relational

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/catalog"
)

// Elect applies the elections whose row has not moved and whose members are who they say.
func (s *Store) Elect(ctx context.Context, c catalog.Controller, es []catalog.Election) ([]catalog.Partition, error) {
	wanted := make(map[catalog.PartitionID]catalog.Election, len(es))
	var ids []catalog.PartitionID
	var brokers []catalog.BrokerID
	for _, e := range es {
		if err := checkElection(e); err != nil {
			return nil, err
		}
		if _, twice := wanted[e.ID]; !twice {
			wanted[e.ID] = e
			ids = append(ids, e.ID)
		}
		for _, m := range slices.Concat(e.ISR, e.ELR) {
			brokers = append(brokers, m.Broker)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(brokers)
	brokers = slices.Compact(brokers)

	var changed []partitionRow
	var version catalog.Version
	err := s.write(ctx, func(tx Tx) error {
		changed = nil
		var rows []partitionRow
		known := map[catalog.BrokerID]brokerRow{}
		topics := map[catalog.TopicID]catalog.Version{}
		var controller catalog.Controller
		var rewound bool
		err := tx.Read(readController("FOR SHARE", &controller), unlessRewound(&rewound),
			Stmt{SQL: s.sql.registered, Args: []any{encode(brokers)}, Lock: "FOR KEY SHARE", Row: appendRegistered(known)},
			Stmt{SQL: s.sql.electing, Args: []any{namePartitions(ids)}, Lock: "FOR UPDATE OF p", Row: appendPartition(&rows)},
			s.topicVersions(ids, topics))
		if err != nil {
			return err
		}
		if err := errors.Join(refuseRewound(rewound), holdsController(c, controller)); err != nil {
			return err
		}
		for _, p := range rows {
			if next, ok := elect(p, byTopic(wanted[p.ID], p, topics[p.ID.Topic]), known); ok {
				changed = append(changed, next)
			}
		}
		if len(changed) == 0 {
			return ErrDone
		}
		s.bump(tx)
		s.queuePartitions(tx, changed)
		tx.Queue(versionInto(&version))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]catalog.Partition, len(changed))
	for i, p := range changed {
		p.Version = version
		out[i] = p.Partition
	}
	return out, nil
}

func appendRegistered(known map[catalog.BrokerID]brokerRow) func(Row) error {
	return func(r Row) error {
		b := brokerRow{found: true}
		var id catalog.BrokerID
		err := r.Scan((*int32)(&id), (*int64)(&b.incarnation), &b.live)
		known[id] = b
		return err
	}
}

func checkElection(e catalog.Election) error {
	if len(e.ISR) == 0 {
		return fmt.Errorf("%w: partition %s would have no ISR", catalog.ErrInvalid, e.ID)
	}
	leads := func(m catalog.Member) bool { return m.Broker == e.Leader }
	if e.Leader != catalog.NoBroker && !slices.ContainsFunc(e.ISR, leads) {
		return fmt.Errorf("%w: broker %d would lead %s without being in its ISR", catalog.ErrInvalid, e.Leader, e.ID)
	}
	return nil
}

// byTopic leaves nobody eligible by an election that was decided on another version of the topic than now, whose
// min.insync.replicas may be another one (H6). One that leaves both sets as they are decides nothing about it.
func byTopic(e catalog.Election, p partitionRow, now catalog.Version) catalog.Election {
	if e.IfTopic != now && !(sameMembers(e.ISR, p.ISR) && sameMembers(e.ELR, p.ELR)) {
		e.ELR = nil
	}
	return e
}

// topicVersions reads the versions of the partitions' topics. It comes after the partitions' locks: a change of
// min.insync.replicas takes them all, so it is seen here, or it sees what this transaction writes.
func (s *Store) topicVersions(ids []catalog.PartitionID, into map[catalog.TopicID]catalog.Version) Stmt {
	seen := map[catalog.TopicID]bool{}
	var hex []string
	for _, id := range ids {
		if !seen[id.Topic] {
			seen[id.Topic] = true
			hex = append(hex, id.Topic.Hex())
		}
	}
	return Stmt{SQL: s.sql.topicVersions, Args: []any{encode(hex)}, Row: func(r Row) error {
		var text string
		var v int64
		if err := r.Scan(&text, &v); err != nil {
			return err
		}
		id, err := topicID(text)
		into[id] = catalog.Version(v)
		return err
	}}
}

// elect is one entry's outcome: the new row, or false if the entry is skipped.
func elect(p partitionRow, e catalog.Election, known map[catalog.BrokerID]brokerRow) (partitionRow, bool) {
	if p.Version != e.IfVersion {
		return p, false
	}
	for _, m := range slices.Concat(e.ISR, e.ELR) {
		// Only a partition without leader may keep a member that is gone for good (H5).
		kept := e.Leader == catalog.NoBroker && slices.Contains(p.ISR, m)
		if known[m.Broker].incarnation != m.Incarnation && !kept {
			return p, false
		}
	}
	p.incarnation = 0
	if e.Leader != catalog.NoBroker {
		b := known[e.Leader]
		if !b.live || !slices.Contains(e.ISR, catalog.Member{Broker: e.Leader, Incarnation: b.incarnation}) {
			return p, false
		}
		p.incarnation = b.incarnation
	}
	p.Leader, p.ISR, p.ELR = e.Leader, e.ISR, e.ELR
	if e.Replicas != nil {
		p.Replicas, p.Adding, p.Removing = slices.Clone(e.Replicas), nil, nil
	}
	p.LeaderEpoch++
	return p, true
}
