package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/replication"
)

// A lease is a number that its holder raises every renewEvery; who has seen it stand still for
// leaseLength on the own clock, while the catalog answered, may take it over (R13).
const (
	leaseLength = 2500 * time.Millisecond
	renewEvery  = 500 * time.Millisecond
	watchEvery  = 250 * time.Millisecond
)

// leaseStore is what a member does with leases.
type leaseStore interface {
	Leases(ctx context.Context) (catalog.Leases, error)
	Renew(ctx context.Context, id catalog.BrokerID, inc catalog.Incarnation) (int64, error)
	RenewController(ctx context.Context, c catalog.Controller) (catalog.Controller, error)
}

// member keeps this broker's leases, its own and the controller's while it has that role, and watches
// everybody's. Watching begins before the broker has an id, so that the waits for the id's holder, for
// the controller and for the catalog's first answers run at the same time (DESIGN §6).
type member struct {
	store leaseStore
	probe func(context.Context) error // a small synced write to the data directory (H28)
	log   *slog.Logger
	began time.Time
	seen  chan struct{} // an answer has come; of capacity 1

	mu         sync.Mutex // guards what follows; a leaf
	watch      *replication.Watch
	rewound    time.Duration // when the catalog was first seen to be marked as rewound; 0: it is not
	self       catalog.Member
	registered chan struct{} // closed when self is set
	term       catalog.Controller
	termUntil  time.Duration // by the own clock, from before the last renewal was sent
	kept       time.Duration // the same for the own lease

	stop   context.CancelFunc
	loops  errgroup.Group
	failed chan struct{} // closed when a loop has ended with an error
}

func newMember(s leaseStore, probe func(context.Context) error, log *slog.Logger) *member {
	m := &member{
		store: s, probe: probe, log: log, began: time.Now(), seen: make(chan struct{}, 1),
		watch: replication.NewWatch(leaseLength), registered: make(chan struct{}), failed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.loops.Go(func() error { return m.watchLeases(ctx) })
	m.loops.Go(func() error {
		err := m.keepLeases(ctx)
		if err != nil {
			close(m.failed)
		}
		return err
	})
	return m
}

// close ends the loops and returns what they failed with. It is idempotent.
func (m *member) close() error {
	m.stop()
	return m.loops.Wait()
}

func (m *member) now() time.Duration { return time.Since(m.began) }

// join begins to keep the lease of a registration.
func (m *member) join(self catalog.Member) {
	m.mu.Lock()
	m.self = self
	m.kept = m.now() + leaseLength/2 // the registration is that old at most
	m.mu.Unlock()
	close(m.registered)
}

// watchLeases asks for all leases, often enough to see one stand still as soon as it has.
func (m *member) watchLeases(ctx context.Context) error {
	for {
		asked := m.now()
		if err := m.look(ctx); err == nil {
			select {
			case m.seen <- struct{}{}:
			default:
			}
		}
		m.mu.Lock()
		wait := m.watch.Next(asked, watchEvery) - m.now()
		m.mu.Unlock()
		if !rest(ctx, max(wait, 5*time.Millisecond)) {
			return nil
		}
	}
}

// look asks for all leases once.
func (m *member) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseLength/2)
	defer cancel()
	asked := m.now()
	ls, err := m.store.Leases(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch.Observe(asked, m.now(), ls)
	switch {
	case !ls.Rewound:
		m.rewound = 0
	case m.rewound == 0:
		m.rewound = m.now()
	}
	return nil
}

// keepLeases raises the own lease, and the controller's while this broker has the role, only while a
// small synced write to the data directory completes (H28). It ends with ErrFenced when the broker is
// not the holder any more.
func (m *member) keepLeases(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.registered:
	}
	for rest(ctx, renewEvery) {
		call, cancel := context.WithTimeout(ctx, leaseLength)
		err := m.renew(call)
		cancel()
		switch {
		case errors.Is(err, catalog.ErrFenced) && ctx.Err() == nil:
			return fmt.Errorf("%w: %w", ErrFenced, err)
		case err != nil && ctx.Err() == nil:
			m.log.Debug("lease not renewed", "error", err)
		}
	}
	return nil
}

func (m *member) renew(ctx context.Context) error {
	if err := m.probe(ctx); err != nil {
		return err
	}
	sent := m.now()
	if _, err := m.store.Renew(ctx, m.self.Broker, m.self.Incarnation); err != nil {
		return err
	}
	m.mu.Lock()
	m.kept = sent + leaseLength
	term := m.term
	m.mu.Unlock()
	if term.Broker == catalog.NoBroker || term.Epoch == 0 {
		return nil
	}
	sent = m.now()
	next, err := m.store.RenewController(ctx, term)
	switch {
	case errors.Is(err, catalog.ErrFenced):
		m.log.Info("another broker is the controller now")
		m.setTerm(catalog.Controller{}, 0)
	case err == nil:
		m.setTerm(next, sent)
	default:
		m.log.Debug("the controller's lease is not renewed", "error", err)
	}
	return nil
}

// setTerm notes that this broker has the role of the controller, renewed by a call sent at sent; the
// zero Controller takes it away.
func (m *member) setTerm(c catalog.Controller, sent time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term, m.termUntil = c, sent+leaseLength
}

// controls says whether this broker is the controller by its own clock.
func (m *member) controls() (catalog.Controller, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.term.Epoch > 0 && m.now() < m.termUntil
}

// keeps says whether this broker still holds its lease by its own clock, which is never the last to say that it does not:
// who watches counts from a later moment.
func (m *member) keeps() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now() < m.kept
}

// controller is the controller's row as last seen and whether the role may be taken.
func (m *member) controller() (catalog.Controller, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watch.Controller(m.now())
}

// dead lists the brokers whose lease has stood still; quiet says that nobody may act on anything.
func (m *member) dead() (dead []catalog.BrokerLease, quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.watch.Dead(m.now()) {
		if b.ID != m.self.Broker {
			dead = append(dead, b)
		}
	}
	return dead, m.watch.Quiet(m.now())
}

// marked is for how long the catalog has been marked as rewound; 0: it is not.
func (m *member) marked() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rewound == 0 {
		return 0
	}
	return m.now() - m.rewound + 1
}

// quiet says that nobody may shrink a set at present (H7).
func (m *member) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watch.Quiet(m.now())
}

// holder is the lease of an id as last seen, and whether the id may be taken over.
func (m *member) holder(id catalog.BrokerID) (catalog.BrokerLease, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watch.Holder(id)
}

// rest waits for d; false if ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
