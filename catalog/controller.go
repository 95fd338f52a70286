package catalog

import "context"

// Controller is the controller's row: who decides for the cluster, in which term, and the number that it
// raises (R13). As a guard, all of it but Lease counts.
type Controller struct {
	Broker      BrokerID // NoBroker: nobody
	Incarnation Incarnation
	// Epoch rises whenever the role is taken.
	Epoch int64
	Lease int64
}

// SameTerm says whether both are the same holder in the same term.
func (c Controller) SameTerm(o Controller) bool {
	c.Lease, o.Lease = 0, 0
	return c == o
}

// BrokerLease is a broker's lease as somebody saw it.
type BrokerLease struct {
	ID   BrokerID
	Live bool
	SeenLease
}

// Leases is all leases at one moment.
type Leases struct {
	Brokers    []BrokerLease
	Controller Controller
	// Rewound says that the catalog has lost commits and waits to be repaired (H2).
	Rewound bool
	// Server tells database servers apart: another number is another server, or one that was started
	// again, which may have lost what the last one had.
	Server int64
}

// SlotMove gives a coordinator slot to a broker, or to nobody.
type SlotMove struct {
	Slot int32
	To   BrokerID
	// IfEpoch is the slot's epoch that the decision was made on; another one skips the move.
	IfEpoch int64
}

// Left is what brokers leave behind, as the catalog holds it under its locks.
type Left struct {
	Leaving []BrokerID
	// Partitions are those that a leaving broker leads or is a member of.
	Partitions []Partition
	// Slots are all slots, whoever holds them.
	Slots []SlotGuard
	// Brokers are all that are registered; the leaving ones are not live any more.
	Brokers []Broker
}

// Given is what becomes of what was left. An election that names the row's present leader changes its
// sets only and keeps the epoch; a partition without an election is left as it is, save that a leaving
// broker leads nothing. A slot that a leaving broker held and that no move names is nobody's.
type Given struct {
	Elections []Election
	Slots     []SlotMove
}

// Departure decides what becomes of what was left. It is pure: a transaction that is tried again asks
// it again. nil gives nothing to anybody.
type Departure func(Left) Given

// Controllers is what only the controller does. Each write is guarded by its term (R10, K7) and is
// refused with ErrFenced once another has taken the role.
type Controllers interface {
	// Leases reads all leases, on the connections that leases have for themselves.
	Leases(ctx context.Context) (Leases, error)
	// TakeController gives the role to a live broker if nobody or the same incarnation holds it, or if
	// the row is exactly seen, which says that the caller has watched it stand still. The epoch
	// rises. ErrHeld; ErrFenced if the caller is not live.
	TakeController(ctx context.Context, b BrokerID, inc Incarnation, seen Controller) (Controller, error)
	// RenewController raises the lease.
	RenewController(ctx context.Context, c Controller) (Controller, error)
	// TakeOut ends brokers whose lease is still as the caller has watched it stand still: they are not
	// live any more, lead nothing, hold no slot, and what they were in is decided by decide, all in one
	// transaction and one version. It returns those that were ended; one whose lease has moved is not.
	TakeOut(ctx context.Context, c Controller, dead []BrokerLease, decide Departure) ([]BrokerID, error)
	// Elect applies elections in one transaction, partitions locked in order, the counter last; each
	// raises the leader epoch by one. It returns the rows that changed; entries whose version has
	// moved, that name a member which is not the registered incarnation (a partition that is left
	// without leader may keep such a one in its ISR), or a leader that is not live, are skipped. An ISR
	// that is empty or lacks the leader is ErrInvalid (it is never emptied, H5).
	Elect(ctx context.Context, c Controller, es []Election) ([]Partition, error)
	// AssignSlots moves slots; each one's epoch rises, and the move is committed when it returns, so a
	// load that follows reads what was committed before (H20). A move to a broker that is not live, or
	// on another epoch, is skipped. It returns the slots that moved.
	AssignSlots(ctx context.Context, c Controller, moves []SlotMove) ([]SlotGuard, error)
}
