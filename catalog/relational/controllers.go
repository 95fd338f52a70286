package relational

import (
	"context"
	"fmt"

	"tidemark/catalog"
)

const controllerColumns = `SELECT broker, incarnation, epoch, lease FROM controller`

func readController(lock string, into *catalog.Controller) Stmt {
	return Stmt{SQL: controllerColumns, Lock: lock, Row: scanController(into)}
}

func scanController(into *catalog.Controller) func(Row) error {
	return func(r Row) error {
		return r.Scan((*int32)(&into.Broker), (*int64)(&into.Incarnation), &into.Epoch, &into.Lease)
	}
}

// holdsController judges a controller's guard by the row, which is locked.
func holdsController(guard, row catalog.Controller) error {
	if guard.Broker == catalog.NoBroker || !guard.SameTerm(row) {
		return fmt.Errorf("%w: broker %d was controller in term %d; term %d is broker %d's", catalog.ErrFenced,
			guard.Broker, guard.Epoch, row.Epoch, row.Broker)
	}
	return nil
}

// Leases reads the leases of all brokers and the controller's.
func (s *Store) Leases(ctx context.Context) (catalog.Leases, error) {
	var out catalog.Leases
	err := s.db.Read(ctx, Stmt{SQL: s.sql.leases, Row: func(r Row) error {
		c := &out.Controller
		return r.Scan((*int32)(&c.Broker), (*int64)(&c.Incarnation), &c.Epoch, &c.Lease, &out.Rewound, &out.Server)
	}},
		Stmt{SQL: `SELECT id, incarnation, lease, live FROM brokers ORDER BY id`, Row: func(r Row) error {
			var b catalog.BrokerLease
			err := r.Scan((*int32)(&b.ID), (*int64)(&b.Incarnation), &b.Lease, &b.Live)
			out.Brokers = append(out.Brokers, b)
			return err
		}})
	return out, err
}

// TakeController gives the role of the controller to a live broker.
func (s *Store) TakeController(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, seen catalog.Controller) (catalog.Controller, error) {
	var out catalog.Controller
	err := s.db.Write(ctx, Leases, func(tx Tx) error {
		var row catalog.Controller
		var broker brokerRow
		if err := tx.Read(readController("FOR UPDATE", &row), lockBroker(b, "FOR KEY SHARE", &broker)); err != nil {
			return err
		}
		if !broker.live || broker.incarnation != inc {
			return fmt.Errorf("%w: broker %d is not incarnation %d any more", catalog.ErrFenced, b, inc)
		}
		own := row.Broker == b && row.Incarnation == inc
		if row.Broker != catalog.NoBroker && !own && row != seen {
			return fmt.Errorf("%w: broker %d is the controller, term %d at lease %d", catalog.ErrHeld, row.Broker, row.Epoch, row.Lease)
		}
		out = catalog.Controller{Broker: b, Incarnation: inc, Epoch: row.Epoch + 1, Lease: row.Lease + 1}
		tx.Queue(setController(out))
		return nil
	})
	if err != nil {
		return catalog.Controller{}, err
	}
	return out, nil
}

func setController(c catalog.Controller) Stmt {
	return Stmt{
		SQL:  `UPDATE controller SET broker = $1, incarnation = $2, epoch = $3, lease = $4`,
		Args: []any{int32(c.Broker), int64(c.Incarnation), c.Epoch, c.Lease},
	}
}

// RenewController raises the lease in one statement.
func (s *Store) RenewController(ctx context.Context, c catalog.Controller) (catalog.Controller, error) {
	held := false
	err := s.db.Write(ctx, Leases, func(tx Tx) error {
		tx.Queue(Stmt{
			SQL: `UPDATE controller SET lease = lease + 1 WHERE broker = $1 AND incarnation = $2 AND epoch = $3
				RETURNING broker, incarnation, epoch, lease`,
			Args: []any{int32(c.Broker), int64(c.Incarnation), c.Epoch},
			Row: func(r Row) error {
				held = true
				return scanController(&c)(r)
			},
		})
		return nil
	})
	if err == nil && !held {
		err = fmt.Errorf("%w: broker %d is not the controller of term %d any more", catalog.ErrFenced, c.Broker, c.Epoch)
	}
	return c, err
}

// giveUpController frees the role if the broker holds it; row is the controller's, under its lock.
func giveUpController(tx Tx, row catalog.Controller, id catalog.BrokerID) {
	if row.Broker == id {
		row.Broker, row.Incarnation = catalog.NoBroker, 0
		tx.Queue(setController(row))
	}
}
