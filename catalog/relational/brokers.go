package relational

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"tidemark/catalog"
)

// brokerRow is a broker's row as registration sees it under its lock.
type brokerRow struct {
	found       bool
	incarnation catalog.Incarnation
	lease       int64
	live        bool
	attempt     string
}

func lockBroker(id catalog.BrokerID, lock string, into *brokerRow) Stmt {
	*into = brokerRow{}
	return Stmt{
		SQL:  `SELECT incarnation, lease, live, attempt FROM brokers WHERE id = $1`,
		Args: []any{int32(id)},
		Lock: lock,
		Row: func(r Row) error {
			into.found = true
			return r.Scan((*int64)(&into.incarnation), &into.lease, &into.live, &into.attempt)
		},
	}
}

// judge says which incarnation a registration gets (H4, H27).
func (b brokerRow) judge(r catalog.Registration) (catalog.Incarnation, error) {
	switch {
	case b.found && r.Keep != 0 && r.Keep == b.incarnation:
		return r.Keep, nil
	case b.found && r.Attempt != "" && r.Attempt == b.attempt && b.live:
		return b.incarnation, nil
	case b.found && b.live && (r.Seen != catalog.SeenLease{Incarnation: b.incarnation, Lease: b.lease}):
		return 0, fmt.Errorf("%w: broker %d, incarnation %d at lease %d", catalog.ErrHeld, r.ID, b.incarnation, b.lease)
	}
	return catalog.Incarnation(random()), nil
}

// Register gives the id to the caller and ends what the id led before.
func (s *Store) Register(ctx context.Context, r catalog.Registration) (catalog.Registered, error) {
	if r.ID < 0 {
		return catalog.Registered{}, fmt.Errorf("%w: broker id %d", catalog.ErrInvalid, r.ID)
	}
	var out catalog.Registered
	err := s.write(ctx, func(tx Tx) error {
		var d departure
		if err := d.read(s, tx, []catalog.BrokerID{r.ID}, "FOR UPDATE"); err != nil {
			return err
		}
		row := d.brokers[r.ID]
		inc, err := row.judge(r)
		if err != nil {
			return err
		}
		out = catalog.Registered{Incarnation: inc, Lease: row.lease + 1}
		s.bump(tx)
		s.queuePartitions(tx, leave(d.parts, r.ID, !row.found || inc != row.incarnation))
		s.queueSlots(tx, d.freed(r.ID))
		if d.controller.Incarnation != inc {
			giveUpController(tx, d.controller, r.ID)
		}
		tx.Queue(Stmt{
			SQL: `INSERT INTO brokers (id, incarnation, rack, listeners, live, lease, attempt, version)
				VALUES ($1, $2, $3, $4::text::jsonb, TRUE, $5, $6, ` + currentVersion + `)
				ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, rack = excluded.rack, listeners = excluded.listeners,
					live = TRUE, lease = excluded.lease, attempt = excluded.attempt, version = excluded.version`,
			Args: []any{int32(r.ID), int64(inc), r.Rack, encode(r.Listeners), out.Lease, r.Attempt},
		})
		return nil
	})
	if err != nil {
		return catalog.Registered{}, err
	}
	return out, nil
}

// leave takes a broker out of what it led and, if its log may have lost something, out of every ISR
// and ELR, except an ISR that would be empty then (H4, H5).
func leave(parts []partitionRow, id catalog.BrokerID, everywhere bool) []partitionRow {
	var changed []partitionRow
	not := func(ms []catalog.Member) []catalog.Member {
		return slices.DeleteFunc(slices.Clone(ms), func(m catalog.Member) bool { return m.Broker == id })
	}
	for _, p := range parts {
		was := p
		if p.Leader == id {
			p.Leader, p.incarnation = catalog.NoBroker, 0
		}
		if everywhere {
			if isr := not(p.ISR); len(isr) > 0 {
				p.ISR = isr
			}
			p.ELR = not(p.ELR)
		}
		if p.Leader != was.Leader || len(p.ISR) != len(was.ISR) || len(p.ELR) != len(was.ELR) {
			changed = append(changed, p)
		}
	}
	return changed
}

// Renew raises the lease, in one statement on the connections of the leases.
func (s *Store) Renew(ctx context.Context, id catalog.BrokerID, inc catalog.Incarnation) (int64, error) {
	lease := int64(-1)
	err := s.db.Write(ctx, Leases, func(tx Tx) error {
		tx.Queue(Stmt{
			SQL:  `UPDATE brokers SET lease = lease + 1 WHERE id = $1 AND incarnation = $2 AND live RETURNING lease`,
			Args: []any{int32(id), int64(inc)},
			Row:  func(r Row) error { return r.Scan(&lease) },
		})
		return nil
	})
	if err == nil && lease < 0 {
		err = fmt.Errorf("%w: broker %d is not incarnation %d any more", catalog.ErrFenced, id, inc)
	}
	return lease, err
}

const brokerColumns = `SELECT id, incarnation, rack, listeners::text, live, leaving, lease, version FROM brokers`

// Brokers lists the registered brokers by id.
func (s *Store) Brokers(ctx context.Context) ([]catalog.Broker, error) {
	var out []catalog.Broker
	err := s.db.Read(ctx, readBrokers(` ORDER BY id`, nil, "", &out))
	return out, err
}

func readBrokers(where string, args []any, lock string, into *[]catalog.Broker) Stmt {
	*into = nil
	return Stmt{SQL: brokerColumns + where, Args: args, Lock: lock, Row: func(r Row) error {
		var b catalog.Broker
		var listeners string
		err := r.Scan((*int32)(&b.ID), (*int64)(&b.Incarnation), &b.Rack, &listeners, &b.Live, &b.Leaving, &b.Lease, (*int64)(&b.Version))
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(listeners), &b.Listeners); err != nil {
			return fmt.Errorf("listeners of broker %d: %w", b.ID, err)
		}
		*into = append(*into, b)
		return nil
	}}
}

// lockLive reads the live brokers so that none can be registered anew or released before COMMIT.
func lockLive(into *[]catalog.Broker) Stmt {
	return readBrokers(` WHERE live ORDER BY id`, nil, "FOR KEY SHARE", into)
}

// lockPlaceable reads the brokers that may get replicas, live or not, in the same way.
func lockPlaceable(into *[]catalog.Broker) Stmt {
	return readBrokers(` WHERE NOT leaving ORDER BY id`, nil, "FOR KEY SHARE", into)
}

// SetLeaving says whether a broker is being decommissioned. The lock keeps it from happening while replicas are placed.
func (s *Store) SetLeaving(ctx context.Context, id catalog.BrokerID, leaving bool) error {
	return s.write(ctx, func(tx Tx) error {
		var rows []catalog.Broker
		if err := tx.Read(readBrokers(` WHERE id = $1`, []any{int32(id)}, "FOR UPDATE", &rows)); err != nil {
			return err
		}
		switch {
		case len(rows) == 0:
			return fmt.Errorf("%w: broker %d", catalog.ErrNotFound, id)
		case rows[0].Leaving == leaving:
			return ErrDone
		}
		s.bump(tx)
		tx.Queue(Stmt{SQL: `UPDATE brokers SET leaving = $2, version = ` + currentVersion + ` WHERE id = $1`, Args: []any{int32(id), leaving}})
		return nil
	})
}
