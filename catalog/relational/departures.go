package relational

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/catalog"
)

// departure is a transaction in which brokers go: what it has read under its locks.
type departure struct {
	controller catalog.Controller
	rewound    bool
	brokers    map[catalog.BrokerID]brokerRow // of those who are to leave
	registered []catalog.Broker               // all of them
	parts      []partitionRow
	slots      []catalog.SlotGuard
}

// read locks everything that the departure of ids may touch, in the order of the house.
func (d *departure) read(s *Store, tx Tx, ids []catalog.BrokerID, lockController string) error {
	*d = departure{brokers: make(map[catalog.BrokerID]brokerRow, len(ids))}
	return tx.Read(readController(lockController, &d.controller), unlessRewound(&d.rewound),
		Stmt{SQL: s.sql.leaving, Args: []any{encode(ids)}, Lock: "FOR UPDATE", Row: func(r Row) error {
			b := brokerRow{found: true}
			var id catalog.BrokerID
			err := r.Scan((*int32)(&id), (*int64)(&b.incarnation), &b.lease, &b.live, &b.attempt)
			d.brokers[id] = b
			return err
		}},
		readBrokers(` ORDER BY id`, nil, "FOR KEY SHARE", &d.registered), s.lockInvolved(ids, &d.parts), lockAllSlots(&d.slots))
}

// lockInvolved locks every partition that one of the brokers leads or is a member of, in order.
func (s *Store) lockInvolved(ids []catalog.BrokerID, into *[]partitionRow) Stmt {
	var involved []string
	var args []any
	for i, id := range ids {
		involved = append(involved, s.sql.involved("$"+strconv.Itoa(i+1)))
		args = append(args, int32(id))
	}
	return Stmt{
		SQL: `SELECT ` + partitionColumns + `, p.leader_incarnation FROM partitions p
			WHERE ` + strings.Join(involved, " OR ") + ` ORDER BY p.topic, p.partition`,
		Args: args, Lock: "FOR UPDATE OF p", Row: appendPartition(into),
	}
}

// queue writes what becomes of what the leaving brokers leave behind.
func (d *departure) queue(s *Store, tx Tx, leaving []catalog.BrokerID, decide catalog.Departure) error {
	left := catalog.Left{Leaving: leaving, Slots: d.slots}
	for _, b := range d.registered {
		b.Live = b.Live && !slices.Contains(leaving, b.ID)
		left.Brokers = append(left.Brokers, b)
	}
	for _, p := range d.parts {
		left.Partitions = append(left.Partitions, p.Partition)
	}
	var given catalog.Given
	if decide != nil {
		given = decide(left)
	}
	topics := map[catalog.TopicID]catalog.Version{}
	if ids := eligibleIn(given.Elections); len(ids) > 0 {
		if err := tx.Read(s.topicVersions(ids, topics)); err != nil {
			return err
		}
	}
	changed, err := d.decided(left, given.Elections, topics)
	if err != nil {
		return err
	}
	slots := moved(d.slots, given.Slots, left.Brokers)
	for _, id := range leaving {
		for _, g := range d.freed(id) {
			if !slices.ContainsFunc(slots, func(m catalog.SlotGuard) bool { return m.Slot == g.Slot }) {
				slots = append(slots, g)
			}
		}
	}
	s.bump(tx)
	s.queuePartitions(tx, changed)
	s.queueSlots(tx, slots)
	return nil
}

// eligibleIn is the partitions of elections that leave somebody eligible.
func eligibleIn(es []catalog.Election) []catalog.PartitionID {
	var ids []catalog.PartitionID
	for _, e := range es {
		if len(e.ELR) > 0 {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// decided is the rows that change: as elected, and without a leader where a leaving one led.
func (d *departure) decided(left catalog.Left, es []catalog.Election, topics map[catalog.TopicID]catalog.Version) ([]partitionRow, error) {
	known := map[catalog.BrokerID]brokerRow{}
	for _, b := range left.Brokers {
		known[b.ID] = brokerRow{found: true, incarnation: b.Incarnation, live: b.Live}
	}
	wanted := make(map[catalog.PartitionID]catalog.Election, len(es))
	for _, e := range es {
		if err := checkElection(e); err != nil {
			return nil, err
		}
		wanted[e.ID] = e
	}
	var changed []partitionRow
	for _, p := range d.parts {
		next := p
		if e, ok := wanted[p.ID]; ok {
			e.IfVersion = p.Version
			if elected, ok := elect(p, byTopic(e, p, topics[p.ID.Topic]), known); ok {
				next = elected
			}
			if next.Leader == p.Leader && next.incarnation == p.incarnation {
				next.LeaderEpoch = p.LeaderEpoch
			}
		}
		if slices.Contains(left.Leaving, next.Leader) {
			next.Leader, next.incarnation = catalog.NoBroker, 0
		}
		if next.Leader != p.Leader || next.LeaderEpoch != p.LeaderEpoch || !sameMembers(next.ISR, p.ISR) || !sameMembers(next.ELR, p.ELR) {
			changed = append(changed, next)
		}
	}
	return changed, nil
}

// freed is the slots of a broker without a holder.
func (d *departure) freed(id catalog.BrokerID) []catalog.SlotGuard {
	var moves []catalog.SlotMove
	for _, g := range d.slots {
		if g.Broker == id {
			moves = append(moves, catalog.SlotMove{Slot: g.Slot, To: catalog.NoBroker, IfEpoch: g.Epoch})
		}
	}
	return moved(d.slots, moves, nil)
}

// TakeOut ends brokers whose lease still stands where the controller has watched it stand still.
func (s *Store) TakeOut(ctx context.Context, c catalog.Controller, dead []catalog.BrokerLease, decide catalog.Departure) ([]catalog.BrokerID, error) {
	ids := make([]catalog.BrokerID, len(dead))
	for i, b := range dead {
		ids[i] = b.ID
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var gone []catalog.BrokerID
	err := s.write(ctx, func(tx Tx) error {
		var d departure
		if err := d.read(s, tx, ids, "FOR SHARE"); err != nil {
			return err
		}
		if err := errors.Join(refuseRewound(d.rewound), holdsController(c, d.controller)); err != nil {
			return err
		}
		gone = nil
		for _, b := range dead {
			row := d.brokers[b.ID]
			if row.live && b.SeenLease == (catalog.SeenLease{Incarnation: row.incarnation, Lease: row.lease}) && b.ID != c.Broker {
				gone = append(gone, b.ID)
			}
		}
		if len(gone) == 0 {
			return ErrDone
		}
		if err := d.queue(s, tx, gone, decide); err != nil {
			return err
		}
		tx.Queue(s.endBrokers(gone))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

func (s *Store) endBrokers(ids []catalog.BrokerID) Stmt {
	return Stmt{SQL: s.sql.endBrokers, Args: []any{encode(ids)}}
}

// Release ends the lease of a broker that stops cleanly, and what it led, held and was a member of.
func (s *Store) Release(ctx context.Context, id catalog.BrokerID, inc catalog.Incarnation, decide catalog.Departure) error {
	ids := []catalog.BrokerID{id}
	return s.write(ctx, func(tx Tx) error {
		var d departure
		if err := d.read(s, tx, ids, "FOR UPDATE"); err != nil {
			return err
		}
		row := d.brokers[id]
		if !row.found || row.incarnation != inc {
			return fmt.Errorf("%w: broker %d is not incarnation %d any more", catalog.ErrFenced, id, inc)
		}
		if !row.live {
			return ErrDone
		}
		if d.rewound {
			decide = nil // what the rows say of sets is not to be relied on
		}
		if err := d.queue(s, tx, ids, decide); err != nil {
			return err
		}
		giveUpController(tx, d.controller, id)
		tx.Queue(s.endBrokers(ids))
		return nil
	})
}
