package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/relational"
	"tidemark/integration/pgproxy"
	"tidemark/internal/testenv"
)

// behind is a database with two stores: one through a proxy that breaks things, one straight to the server.
type behind struct {
	*catalogtest.World // the direct one
	proxy              *pgproxy.Proxy
	faulty             *Store
	dsn                string
}

func startBehind(t *testing.T, opts Options) *behind {
	dsn := testenv.Postgres(t)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	return newBehind(t, dsn, u.Host, opts)
}

func newBehind(t *testing.T, dsn, addr string, opts Options) *behind {
	proxy := pgproxy.Start(t, addr)
	b := &behind{World: catalogtest.NewWorld(t, openTest(t, dsn, Options{})), proxy: proxy, dsn: dsn}
	b.faulty = openTest(t, proxy.Through(t, dsn), opts)
	return b
}

// raw runs a statement on a connection of its own.
func (b *behind) raw(sql string, args ...any) {
	b.T.Helper()
	conn, err := pgx.Connect(b.Ctx, b.dsn)
	require.NoError(b.T, err)
	defer func() { require.NoError(b.T, conn.Close(b.Ctx)) }()
	_, err = conn.Exec(b.Ctx, sql, args...)
	require.NoError(b.T, err)
}

// text reads one value on a connection of its own.
func (b *behind) text(sql string) (out string) {
	b.T.Helper()
	conn, err := pgx.Connect(b.Ctx, b.dsn)
	require.NoError(b.T, err)
	defer func() { require.NoError(b.T, conn.Close(b.Ctx)) }()
	require.NoError(b.T, conn.QueryRow(b.Ctx, sql).Scan(&out))
	return out
}

// within waits until cond holds.
func within(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !cond(); {
		require.True(t, time.Now().Before(end), "after %v: still not %s", d, what)
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
	}
}

// tier is what the catalog says of a partition's tier.
func tier(p *catalogtest.Partition) func() string {
	return func() string { return fmt.Sprint(p.Row().Bounds, p.Ranges(), p.Attempts(), p.Garbage()) }
}

func (b *behind) everything() string {
	ch, err := b.S.Pull(b.Ctx, catalog.Position{})
	require.NoError(b.T, err)
	return fmt.Sprintf("%+v", ch)
}

func TestK5_ACommitWhoseAnswerIsLostIsAnsweredRightTheNextTime(t *testing.T) {
	for _, tx := range transactions() {
		t.Run(tx.name, func(t *testing.T) {
			b := startBehind(t, Options{})
			write, state := tx.make(b)
			before := state()
			commits := b.proxy.Commits()

			b.proxy.LoseRequests(1)
			err := write(b.faulty)
			require.True(t, catalog.Unavailable(err), "%v", err)
			require.Equal(t, before, state(), "the server never had the COMMIT")

			b.proxy.LoseReplies(1)
			err = write(b.faulty)
			require.True(t, catalog.Unavailable(err), "%v", err)
			after := state()
			require.NotEqual(t, before, after, "the server carried it out")

			require.NoError(t, write(b.faulty))
			require.Equal(t, after, state(), "and did so once")
			require.GreaterOrEqual(t, b.proxy.Commits(), commits+2)
		})
	}
}

func TestA16_AnUnclearPublishIsFoundAndNeverBecomesGarbage(t *testing.T) {
	b := startBehind(t, Options{})
	p := b.OnePartition()
	for range 20 {
		o := p.Row().Tiered
		seg := p.Announce(p.Segment(o, o+10))
		b.proxy.LoseReplies(1)
		_, err := b.faulty.Publish(b.Ctx, p.Guard, seg)
		require.True(t, catalog.Unavailable(err))
		require.ErrorIs(t, b.faulty.GiveUp(b.Ctx, p.Guard, seg.Attempt), catalog.ErrIntentGone)
		got, err := b.faulty.Publish(b.Ctx, p.Guard, seg)
		require.NoError(t, err)
		require.Equal(t, o+10, got.Tiered)
	}
	require.Empty(t, b.Garbage())
	require.EqualValues(t, 2000, p.Row().TierBytes)
}

func TestK3_CallsEndByTheirDeadlineAndTheStoreRecovers(t *testing.T) {
	pg := testenv.StartPostgres(t)
	b := newBehind(t, pg.DSN(t), pg.Addr(), Options{CallTimeout: time.Second})
	b.Register(1)

	t.Run("frozen", func(t *testing.T) {
		b.proxy.Freeze()
		defer b.proxy.Thaw()
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				began := time.Now()
				_, err := b.faulty.Brokers(b.Ctx)
				if !catalog.Unavailable(err) || time.Since(began) > time.Minute {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		}
		wg.Wait()
		_, err := b.faulty.Renew(b.Ctx, 1, b.Inc[1])
		require.True(t, catalog.Unavailable(err))
	})
	b.recovers(t)

	// Every connection of both pools is in use or idle when the way breaks.
	b.crowd(8)
	b.proxy.Strand()
	b.recovers(t)
	b.proxy.Reset()

	t.Run("killed and started again", func(t *testing.T) {
		pg.Kill(t)
		within(t, time.Minute, "gone", func() bool {
			_, err := b.faulty.Brokers(b.Ctx)
			return catalog.Unavailable(err)
		})
		pg.Start(t)
	})
	b.recovers(t)
	stat := b.faulty.db.pools[relational.Work].Stat()
	require.Zero(t, stat.AcquiredConns(), "no connection is left out")
}

// crowd makes n calls at once, so that the pool has as many connections.
func (b *behind) crowd(n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := b.retry(func() error { _, err := b.faulty.Pull(b.Ctx, catalog.Position{}); return err })
			if err != nil {
				b.T.Errorf("pull: %v", err)
			}
		})
	}
	wg.Wait()
}

func (b *behind) recovers(t *testing.T) {
	t.Helper()
	within(t, time.Minute, "recovered", func() bool {
		_, err := b.faulty.Renew(b.Ctx, 1, b.Inc[1])
		if err == nil {
			_, err = b.faulty.ProducerIDs(b.Ctx, 1, 10)
		}
		require.True(t, err == nil || catalog.Unavailable(err), "%v", err)
		return err == nil
	})
}

func TestK7_ALeaseOutlivesItsConnectionsAndNeverGoesBack(t *testing.T) {
	b := startBehind(t, Options{})
	b.Register(1)
	last := int64(0)
	for range 10 {
		b.raw(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		within(t, time.Minute, "renewed", func() bool {
			lease, err := b.faulty.Renew(b.Ctx, 1, b.Inc[1])
			require.True(t, err == nil || catalog.Unavailable(err), "%v", err)
			if err == nil {
				require.Greater(t, lease, last)
				last = lease
			}
			return err == nil
		})
	}
	// One that was replaced while it was away changes nothing, whatever connection it comes back on.
	old := b.Inc[1]
	require.NoError(t, b.retry(func() error { return b.S.Release(b.Ctx, 1, old, nil) }))
	b.Register(1)
	_, err := b.faulty.Renew(b.Ctx, 1, old)
	require.ErrorIs(t, err, catalog.ErrFenced)
}

// retry calls until the store answers.
func (b *behind) retry(call func() error) error {
	var err error
	within(b.T, time.Minute, "answered", func() bool {
		err = call()
		return !catalog.Unavailable(err)
	})
	return err
}

func TestK8_AServerThatBecameReadOnlyIsLeft(t *testing.T) {
	pg := testenv.StartPostgres(t)
	b := newBehind(t, pg.DSN(t), pg.Addr(), Options{CallTimeout: time.Second})
	b.Register(1)
	require.NoError(t, b.retry(func() error { _, err := b.faulty.ProducerIDs(b.Ctx, 1, 10); return err }))
	b.raw(`ALTER SYSTEM SET default_transaction_read_only = on`)
	b.raw(`SELECT pg_reload_conf()`)
	within(t, time.Minute, "refused", func() bool {
		_, err := b.faulty.ProducerIDs(b.Ctx, 1, 10)
		require.True(t, err == nil || catalog.Unavailable(err), "%v", err)
		return err != nil && !errors.Is(err, context.DeadlineExceeded) // which a busy machine may do too
	})
	_, err := b.faulty.Brokers(b.Ctx)
	require.True(t, catalog.Unavailable(err), "a new connection is not made to a server that takes no writes: %v", err)
	b.raw(`ALTER SYSTEM RESET default_transaction_read_only`)
	b.raw(`SELECT pg_reload_conf()`)
	b.recovers(t)
}

func TestH13_AClientPausedInATransactionHoldsOthersUpForTwoSecondsAtMost(t *testing.T) {
	b := startBehind(t, Options{})
	p := b.OnePartition()
	seg := p.Announce(p.Segment(0, 10))

	// The placement stands in the middle of the transaction: topic and brokers are locked there.
	paused, resume := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(goOn)
	var places atomic.Int32
	result := make(chan error, 1)
	go func() {
		result <- b.faulty.AddPartitions(b.Ctx, p.ID.Topic, 2, func(live []catalog.Broker) ([][]catalog.BrokerID, error) {
			if places.Add(1) == 1 {
				close(paused)
				<-resume
			}
			return [][]catalog.BrokerID{{1}}, nil
		})
	}()
	<-paused

	// The counter, leases and other rows are free; the topic's row is once the server has ended the
	// transaction. Each call would fail at its own time-out if it were not.
	b.OnePartition()
	_, err := b.S.Renew(b.Ctx, 1, b.Inc[1])
	require.NoError(t, err)
	p.Elect(1, 1)
	q := b.Led(catalog.Topic{ID: p.ID.Topic}, 0)
	q.Publish(seg)

	goOn()
	require.NoError(t, <-result, "the paused one finds its transaction ended and does it again")
	require.EqualValues(t, 2, places.Load())
}

func TestK2_ASmallPoolDoesNotLockItselfUp(t *testing.T) {
	s := openTest(t, testenv.Postgres(t), Options{MaxConns: 2, CallTimeout: time.Minute})
	w := catalogtest.NewWorld(t, s)
	w.Register(1)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			id := catalog.NewUUID()
			_, err := s.CreateTopic(w.Ctx, catalog.NewTopic{ID: id, Name: id.Hex(), Place: catalogtest.On(2, 1)})
			if err == nil {
				_, err = s.Pull(w.Ctx, catalog.Position{})
			}
			if err == nil {
				_, err = s.PurgeStep(w.Ctx, 10)
			}
			if err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
}

func TestACallThatIsCancelledSaysSo(t *testing.T) {
	s := openTest(t, testenv.Postgres(t), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Brokers(ctx)
	require.True(t, catalog.Unavailable(err))
	require.ErrorIs(t, err, context.Canceled)
}
