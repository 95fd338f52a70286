package producer

import (
	"cmp"
	"slices"

	"tidemark/record"
)

// Active is one remembered producer, for people and tools.
type Active struct {
	ID    int64
	Epoch int16
	// LastSequence is of its last batch, -1 if only a marker of it is known.
	LastSequence int32
	// LastTimestamp is the largest timestamp of its last batch, ms; record.NoTimestamp if there is none.
	LastTimestamp int64
	// CoordinatorEpoch is of its last marker, -1 if there was none.
	CoordinatorEpoch int32
	// TxnFirst is the first offset of its open transaction, record.NoOffset if none is open.
	TxnFirst record.Offset
}

// Active lists the remembered producers by id.
func (s *State) Active() []Active {
	out := make([]Active, 0, len(s.byID))
	for id, i := range s.byID {
		e := &s.entries[i]
		a := Active{
			ID: id, Epoch: e.epoch, LastSequence: -1, LastTimestamp: record.NoTimestamp,
			CoordinatorEpoch: e.coordinator, TxnFirst: record.NoOffset,
		}
		if e.count > 0 {
			a.LastSequence, a.LastTimestamp = e.last().lastSeq, e.last().timestamp
		}
		if e.txnFirst != noTxn {
			a.TxnFirst = e.txnFirst
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Active) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
