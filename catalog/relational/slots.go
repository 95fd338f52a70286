package relational

import (
	"context"
	"errors"
	"slices"

	"tidemark/catalog"
)

type storedSlot struct {
	Slot        int32 `json:"slot"`
	Broker      int32 `json:"broker"`
	Incarnation int64 `json:"incarnation"`
}

// queueSlots writes new holders; each slot's epoch rises.
func (s *Store) queueSlots(tx Tx, gs []catalog.SlotGuard) {
	if len(gs) == 0 {
		return
	}
	rows := make([]storedSlot, len(gs))
	for i, g := range gs {
		rows[i] = storedSlot{g.Slot, int32(g.Broker), int64(g.Incarnation)}
	}
	tx.Queue(Stmt{SQL: s.sql.setSlots, Args: []any{encode(rows)}})
}

// lockAllSlots locks every slot, in order.
func lockAllSlots(into *[]catalog.SlotGuard) Stmt {
	return Stmt{SQL: slotColumns + ` ORDER BY slot`, Lock: "FOR UPDATE", Row: appendSlot(into)}
}

// moved is the slots after those moves whose epoch has not moved and whose target is live.
func moved(held []catalog.SlotGuard, moves []catalog.SlotMove, brokers []catalog.Broker) []catalog.SlotGuard {
	byNumber := bySlot(held)
	var out []catalog.SlotGuard
	for _, m := range moves {
		g, ok := byNumber[m.Slot]
		if !ok || g.Epoch != m.IfEpoch {
			continue
		}
		next := catalog.SlotGuard{Slot: m.Slot, Broker: catalog.NoBroker, Epoch: g.Epoch + 1}
		if m.To != catalog.NoBroker {
			i := slices.IndexFunc(brokers, func(b catalog.Broker) bool { return b.ID == m.To && b.Live })
			if i < 0 {
				continue
			}
			next.Broker, next.Incarnation = m.To, brokers[i].Incarnation
		}
		byNumber[m.Slot] = next
		out = append(out, next)
	}
	return out
}

// AssignSlots moves slots as the controller says.
func (s *Store) AssignSlots(ctx context.Context, c catalog.Controller, moves []catalog.SlotMove) ([]catalog.SlotGuard, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	var out []catalog.SlotGuard
	err := s.write(ctx, func(tx Tx) error {
		out = nil
		var row catalog.Controller
		var live []catalog.Broker
		var held []catalog.SlotGuard
		var rewound bool
		if err := tx.Read(readController("FOR SHARE", &row), unlessRewound(&rewound), lockLive(&live), lockAllSlots(&held)); err != nil {
			return err
		}
		if err := errors.Join(refuseRewound(rewound), holdsController(c, row)); err != nil {
			return err
		}
		if out = moved(held, moves, live); len(out) == 0 {
			return ErrDone
		}
		s.bump(tx)
		s.queueSlots(tx, out)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
