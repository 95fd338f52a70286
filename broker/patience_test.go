package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/record"
)

// shaky is a catalog whose first and third call of each kind that a start makes fail as those of a database that cannot be
// reached: before the call is carried out or, with late, after it.
type shaky struct {
	catalog.Store
	late bool

	mu    sync.Mutex // guards calls
	calls map[string]int
}

func (s *shaky) around(op string, call func() error) error {
	s.mu.Lock()
	s.calls[op]++
	fails := s.calls[op] == 1 || s.calls[op] == 3
	s.mu.Unlock()
	away := catalog.MarkUnavailable(errors.New("connection reset by peer"))
	if fails && !s.late {
		return away
	}
	if err := call(); err != nil || !fails {
		return err
	}
	return away
}

func (s *shaky) made(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

func (s *shaky) Cluster(ctx context.Context) (out catalog.ClusterRow, err error) {
	err = s.around("Cluster", func() error { out, err = s.Store.Cluster(ctx); return err })
	return out, err
}

func (s *shaky) Restoring(ctx context.Context) (out bool, err error) {
	err = s.around("Restoring", func() error { out, err = s.Store.Restoring(ctx); return err })
	return out, err
}

func (s *shaky) Pull(ctx context.Context, since catalog.Position) (out catalog.Changes, err error) {
	err = s.around("Pull", func() error { out, err = s.Store.Pull(ctx, since); return err })
	return out, err
}

func (s *shaky) Register(ctx context.Context, r catalog.Registration) (out catalog.Registered, err error) {
	err = s.around("Register", func() error { out, err = s.Store.Register(ctx, r); return err })
	return out, err
}

func (s *shaky) ReportLost(ctx context.Context, rows []catalog.Publication) (out int, err error) {
	err = s.around("ReportLost", func() error { out, err = s.Store.ReportLost(ctx, rows); return err })
	return out, err
}

func (s *shaky) Leases(ctx context.Context) (out catalog.Leases, err error) {
	err = s.around("Leases", func() error { out, err = s.Store.Leases(ctx); return err })
	return out, err
}

func (s *shaky) TakeController(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, seen catalog.Controller) (out catalog.Controller, err error) {
	err = s.around("TakeController", func() error { out, err = s.Store.TakeController(ctx, b, inc, seen); return err })
	return out, err
}

func (s *shaky) Elect(ctx context.Context, c catalog.Controller, es []catalog.Election) (out []catalog.Partition, err error) {
	err = s.around("Elect", func() error { out, err = s.Store.Elect(ctx, c, es); return err })
	return out, err
}

func (s *shaky) AssignSlots(ctx context.Context, c catalog.Controller, ms []catalog.SlotMove) (out []catalog.SlotGuard, err error) {
	err = s.around("AssignSlots", func() error { out, err = s.Store.AssignSlots(ctx, c, ms); return err })
	return out, err
}

// A call to the catalog that is lost while a broker starts does not end it, whichever it is, carried out or not.
func TestAStartMakesEachCallToTheCatalogAgain(t *testing.T) {
	for name, late := range map[string]bool{"not carried out": false, "carried out, the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			n := brokertest.Start(t, brokertest.Options{Dir: dir})
			c := dial(t, n)
			topic := catalog.PartitionID{Topic: c.create("t", 2, map[string]string{"segment.bytes": "1048576"})}
			for range 3 {
				require.Zero(t, c.produce("t", 0, batchOf(1, record.CodecNone, string(make([]byte, 600_000)))).ErrorCode)
			}
			require.Eventually(t, func() bool { // its record then has what the next start holds against the catalog
				row, err := n.Catalog.Partition(t.Context(), topic)
				return err == nil && row.Tiered > 0
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, n.Stop())

			var s *shaky
			patience := catalog.NewPatience(time.Hour, slog.New(slog.NewTextHandler(t.Output(), nil)), func(error) string { return "wait" })
			n = brokertest.Start(t, brokertest.Options{Dir: dir, Patience: patience, WrapCatalog: func(c catalog.Store) catalog.Store {
				s = &shaky{Store: c, late: late, calls: map[string]int{}}
				return s
			}})
			for _, op := range []string{"Cluster", "Restoring", "Pull", "Register", "ReportLost", "Leases", "TakeController", "Elect", "AssignSlots"} {
				require.Positive(t, s.made(op), "a start does not make this call any more: %s", op)
			}
			all, err := n.Catalog.Pull(t.Context(), catalog.Position{})
			require.NoError(t, err)
			for _, p := range all.Partitions {
				require.EqualValues(t, 1, p.Leader, "who is alone leads before it serves")
			}
		})
	}
}
