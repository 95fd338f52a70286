package tiering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/internal/testenv"
	"tidemark/record"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// rig is a tier over a real catalog and a folder, both with faults, and one topic led by broker 1.
type rig struct {
	t     testing.TB
	ctx   context.Context
	cat   *faultyCatalog
	store *faultyStore
	cache *cache.Cache
	opts  Options
	tier  *Tier
	topic catalog.TopicID
	inc   catalog.Incarnation
	stop  func()
}

const partitions = 60

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	cat, err := sqlite.Open(context.Background(), filepath.Join(dir, "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	st, err := file.Open(context.Background(), &url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")})
	require.NoError(t, err)
	return newRigOn(t, cat, st, change)
}

// newRigOn is newRig over other stores.
func newRigOn(t testing.TB, cat catalog.Store, st objstore.Store, change func(*Options)) *rig {
	t.Helper()
	ctx := context.Background()
	r := &rig{t: t, ctx: ctx, cat: &faultyCatalog{Store: cat}, store: &faultyStore{Store: st}, topic: catalog.NewUUID()}
	reg, err := cat.Register(ctx, catalog.Registration{ID: 1})
	require.NoError(t, err)
	r.inc = reg.Incarnation
	_, err = cat.CreateTopic(ctx, catalog.NewTopic{ID: r.topic, Name: "events", Place: func([]catalog.Broker) ([][]catalog.BrokerID, error) {
		out := make([][]catalog.BrokerID, partitions)
		for i := range out {
			out[i] = []catalog.BrokerID{1}
		}
		return out, nil
	}})
	require.NoError(t, err)
	row, err := cat.Cluster(ctx)
	require.NoError(t, err)
	r.opts = Options{
		Cluster: row.ID, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, Poll: 20 * time.Millisecond,
		RowTTL: time.Minute, Grace: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	cacheOpts := cache.Options{Dir: filepath.Join(t.TempDir(), "cache")}
	if change != nil {
		change(&r.opts)
	}
	if testCacheBytes[t.Name()] != 0 {
		cacheOpts.MaxBytes = testCacheBytes[t.Name()]
	}
	r.cache, err = cache.Open(cacheOpts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.cache.Close()) })
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// testCacheBytes are the tests that want a small cache.
var testCacheBytes = map[string]int64{"TestB9_CacheSmallerThanTheWorkingSet": 600 << 10}

// start opens and runs a tier; stop ends it as a clean stop would.
func (r *rig) start() {
	r.t.Helper()
	o := r.opts
	o.Store, o.Catalog, o.Cache = r.store, r.cat, r.cache
	tier, err := Open(r.ctx, o)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- tier.Run(ctx) }()
	r.tier = tier
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-done)
		require.NoError(r.t, tier.Close())
	})
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// freshCache goes on with a new tier and an empty cache.
func (r *rig) freshCache() {
	r.t.Helper()
	r.stop()
	require.NoError(r.t, r.cache.Close())
	var err error
	r.cache, err = cache.Open(cache.Options{Dir: filepath.Join(r.t.TempDir(), "cache")})
	require.NoError(r.t, err)
	r.start()
}

func (r *rig) p(n int32) catalog.PartitionID {
	return catalog.PartitionID{Topic: r.topic, Partition: n}
}

// guard is the present leadership of a partition.
func (r *rig) guard(n int32) catalog.Guard {
	row, err := r.cat.Store.Partition(r.ctx, r.p(n))
	require.NoError(r.t, err)
	return catalog.Guard{Broker: row.Leader, Incarnation: r.inc, Epoch: row.LeaderEpoch}
}

// elect gives the partition to broker 1 again, under the next epoch.
func (r *rig) elect(n int32) catalog.Guard {
	r.t.Helper()
	row, err := r.cat.Store.Partition(r.ctx, r.p(n))
	require.NoError(r.t, err)
	controller, err := r.cat.TakeController(r.ctx, 1, r.inc, catalog.Controller{})
	require.NoError(r.t, err)
	rows, err := r.cat.Elect(r.ctx, controller, []catalog.Election{{ID: row.ID, Leader: 1, ISR: row.ISR, IfVersion: row.Version}})
	require.NoError(r.t, err)
	require.Len(r.t, rows, 1)
	return r.guard(n)
}

func (r *rig) bounds(n int32) catalog.Bounds {
	r.t.Helper()
	row, err := r.cat.Store.Partition(r.ctx, r.p(n))
	require.NoError(r.t, err)
	return row.Bounds
}

// rows are the live rows of a partition.
func (r *rig) rows(n int32) []catalog.Segment {
	r.t.Helper()
	rows, err := r.cat.Store.ListSegments(r.ctx, r.p(n), r.bounds(n).Start, 1000)
	require.NoError(r.t, err)
	return rows
}

// keys are the segment objects in the bucket.
func (r *rig) keys() []string {
	r.t.Helper()
	infos, err := r.store.Store.List(r.ctx, "segments/", "", 10_000)
	require.NoError(r.t, err)
	var keys []string
	for _, i := range infos {
		keys = append(keys, i.Key)
	}
	return keys
}

// lead makes a log for the partition, told by build, and starts its uploads.
func (r *rig) lead(n int32, build func(*memLog)) *memLog {
	r.t.Helper()
	l := newMemLog(r.guard(n))
	build(l)
	r.tier.Lead(r.p(n), l, nil)
	return l
}

// tiered waits until the partition's tier reaches an offset, and checks that its rows are contiguous.
func (r *rig) tiered(n int32, want record.Offset) {
	r.t.Helper()
	r.until(func() bool { return r.bounds(n).Tiered >= want }, func() string {
		st, _ := r.tier.Status(r.p(n))
		return fmt.Sprintf("tiered %+v, want %d; status %+v", r.bounds(n), want, st)
	})
	require.Equal(r.t, want, r.bounds(n).Tiered)
	r.contiguous(n)
}

func (r *rig) contiguous(n int32) {
	r.t.Helper()
	b, at := r.bounds(n), record.NoOffset
	for _, s := range r.rows(n) {
		if at >= 0 {
			require.Equal(r.t, at, s.Base)
		} else {
			require.LessOrEqual(r.t, s.Base, b.Start)
		}
		at = s.Next
	}
	if at >= 0 {
		require.Equal(r.t, b.Tiered, at)
	}
}

// until waits for a condition.
func (r *rig) until(cond func() bool, why func() string) {
	r.t.Helper()
	until(r.t, cond, why)
}

func until(t testing.TB, cond func() bool, why func() string) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("waited too long: " + why())
		}
	}
}

// consume reads [from, to) and holds it against the log; it returns the number of reads.
func (r *rig) consume(n int32, l *memLog, from, to record.Offset) (reads int) {
	r.t.Helper()
	for at := from; at < to; reads++ {
		c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(n), From: at, Bound: to, MaxBytes: 64 << 10, AtLeastOne: true})
		require.NoError(r.t, err, "read at %d", at)
		r.same(l, c, at)
		require.Greater(r.t, c.Next, at)
		at = c.Next
		c.Release()
	}
	return reads
}

// same holds a chunk against the log: the batches from the one that reaches at up to Next.
func (r *rig) same(l *memLog, c *Chunk, at record.Offset) {
	r.t.Helper()
	got, err := c.Bytes()
	require.NoError(r.t, err)
	require.Equal(r.t, l.between(at, c.Next), got, "batches from %d to %d", at, c.Next)
}

// collectAll lets removal finish: every DELETE done twice.
func (r *rig) collectAll() {
	r.t.Helper()
	r.stop()
	o := r.opts
	r.opts.RowTTL, r.opts.Grace, r.opts.Again, r.opts.CollectEvery = 1, 2, 1, time.Hour
	r.start()
	r.opts = o
	r.until(func() bool {
		_, _ = r.tier.Collect(r.ctx)
		n, err := r.cat.Store.CountGarbage(r.ctx)
		return err == nil && n == 0
	}, func() string { return "garbage is left" })
}

// bucketIsCatalog wants exactly the live rows' objects in the bucket.
func (r *rig) bucketIsCatalog(ns ...int32) {
	r.t.Helper()
	var want []string
	for _, n := range ns {
		for _, s := range r.rows(n) {
			want = append(want, s.Key)
		}
	}
	require.ElementsMatch(r.t, want, r.keys())
}

var errInjected = errors.New("injected")

// faultyStore asks a hook before and after each operation.
type faultyStore struct {
	objstore.Store
	mu   sync.Mutex
	hook func(op, key string, done bool) error
	gets []string
	puts []string
	read int64
}

func (s *faultyStore) set(hook func(op, key string, done bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *faultyStore) counts() (gets, puts []string, read int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets, s.puts, s.read
}

func (s *faultyStore) forgetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets, s.puts, s.read = nil, nil, 0
}

func (s *faultyStore) around(op, key string, f func() error) error {
	s.mu.Lock()
	hook := s.hook
	switch op {
	case "get":
		s.gets = append(s.gets, key)
	case "put":
		s.puts = append(s.puts, key)
	}
	s.mu.Unlock()
	if hook != nil {
		if err := hook(op, key, false); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	if hook != nil {
		return hook(op, key, true)
	}
	return nil
}

func (s *faultyStore) Put(ctx context.Context, key string, src objstore.Source, o objstore.PutOptions) error {
	return s.around("put", key, func() error { return s.Store.Put(ctx, key, src, o) })
}

func (s *faultyStore) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	s.mu.Lock()
	s.read += int64(len(dst))
	s.mu.Unlock()
	return s.around("get", key, func() error { return s.Store.ReadRange(ctx, key, off, dst) })
}

func (s *faultyStore) Stat(ctx context.Context, key string) (i objstore.Info, err error) {
	err = s.around("stat", key, func() error { i, err = s.Store.Stat(ctx, key); return err })
	return i, err
}

func (s *faultyStore) Delete(ctx context.Context, key string, uploads ...string) error {
	return s.around("delete", key, func() error { return s.Store.Delete(ctx, key, uploads...) })
}

// faultyCatalog does the same for the calls that the tier makes.
type faultyCatalog struct {
	catalog.Store
	mu   sync.Mutex
	hook func(op string, done bool) error
}

func (c *faultyCatalog) set(hook func(op string, done bool) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = hook
}

func (c *faultyCatalog) around(op string, f func() error) error {
	c.mu.Lock()
	hook := c.hook
	c.mu.Unlock()
	if hook != nil {
		if err := hook(op, false); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	if hook != nil {
		return hook(op, true)
	}
	return nil
}

func (c *faultyCatalog) PutIntent(ctx context.Context, in catalog.Intent) error {
	return c.around("intent", func() error { return c.Store.PutIntent(ctx, in) })
}

func (c *faultyCatalog) Publish(ctx context.Context, g catalog.Guard, s catalog.Segment) (b catalog.Bounds, err error) {
	err = c.around("publish", func() error { b, err = c.Store.Publish(ctx, g, s); return err })
	return b, err
}

func (c *faultyCatalog) SwapLost(ctx context.Context, g catalog.Guard, old []catalog.SegmentID, s catalog.Segment) (b catalog.Bounds, err error) {
	err = c.around("swaplost", func() error { b, err = c.Store.SwapLost(ctx, g, old, s); return err })
	return b, err
}

func (c *faultyCatalog) GiveUp(ctx context.Context, g catalog.Guard, attempt string) error {
	return c.around("giveup", func() error { return c.Store.GiveUp(ctx, g, attempt) })
}

func (c *faultyCatalog) Partition(ctx context.Context, p catalog.PartitionID) (row catalog.Partition, err error) {
	err = c.around("partition", func() error { row, err = c.Store.Partition(ctx, p); return err })
	return row, err
}

func (c *faultyCatalog) SegmentAt(ctx context.Context, p catalog.PartitionID, o record.Offset) (s catalog.Segment, err error) {
	err = c.around("segment", func() error { s, err = c.Store.SegmentAt(ctx, p, o); return err })
	return s, err
}

func (c *faultyCatalog) Deleted(ctx context.Context, key string) error {
	return c.around("deleted", func() error { return c.Store.Deleted(ctx, key) })
}

func isSegment(key string) bool { return strings.HasPrefix(key, "segments/") }
