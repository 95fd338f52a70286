package tiering

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/tiering/objstore"
)

// trim makes garbage of all rows below an offset.
func (r *rig) trim(n int32, o record.Offset) {
	r.t.Helper()
	_, _, err := r.cat.MoveStart(r.ctx, r.p(n), r.guard(n), o)
	require.NoError(r.t, err)
	r.tier.Forget(r.p(n), o)
}

// TestD13_OneBadKeyStopsNobody: a DELETE that is refused for ever is retried; all others are done.
func TestD13_OneBadKeyStopsNobody(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(10) })
	r.tiered(0, 100)
	bad := r.rows(0)[0].Key
	r.store.set(func(op, key string, done bool) error {
		if op == "delete" && key == bad {
			return &objstore.Error{Op: op, Key: key, Err: objstore.ErrDenied}
		}
		return nil
	})
	r.trim(0, 90)
	r.stop()
	r.opts.RowTTL, r.opts.Grace, r.opts.Again = 1, 2, 1
	r.start()
	r.until(func() bool {
		_, err := r.tier.Collect(r.ctx)
		if err != nil {
			require.ErrorContains(t, err, bad)
			require.ErrorIs(t, err, objstore.ErrDenied)
		}
		n, err := r.cat.CountGarbage(r.ctx)
		return err == nil && n == 1
	}, func() string { return "others are left" })
	require.Len(t, r.keys(), 2)
	r.store.set(nil)
	r.until(func() bool { _, _ = r.tier.Collect(r.ctx); return len(r.keys()) == 1 }, func() string { return "the bad key is left" })
}

// TestD16_TwoCollectors do the same work at once and both end well.
func TestD16_TwoCollectors(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(20) })
	r.tiered(0, 200)
	r.trim(0, 150)
	r.stop()
	r.opts.RowTTL, r.opts.Grace, r.opts.Again = 1, 2, 1
	r.start()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			r.until(func() bool {
				_, err := r.tier.Collect(r.ctx)
				require.NoError(t, err)
				n, err := r.cat.CountGarbage(r.ctx)
				return err == nil && n == 0
			}, func() string { return "garbage is left" })
		})
	}
	wg.Wait()
	r.bucketIsCatalog(0)
}

// TestD4_NothingIsDeletedBeforeTheGrace is over: a reader with an old pointer still gets its data.
func TestD4_NothingIsDeletedBeforeTheGrace(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	_, _, err := r.cat.MoveStart(r.ctx, r.p(0), r.guard(0), 10)
	require.NoError(t, err)
	n, err := r.tier.Collect(r.ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	r.consume(0, l, 0, 20)
	r.tier.Forget(r.p(0), 10)
	_, err = r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), Bound: 20, MaxBytes: 1})
	require.ErrorIs(t, err, ErrBelowStart)
}

// TestH22_DeletedTwice: a PUT that lands after the first DELETE is removed by the second.
func TestH22_DeletedTwice(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	key := r.rows(0)[0].Key
	var once sync.Once
	r.store.set(func(op, k string, done bool) error {
		if op == "delete" && done && k == key {
			once.Do(func() {
				require.NoError(t, r.store.Store.Put(r.ctx, key, objstore.Bytes([]byte("late")), objstore.PutOptions{}))
			})
		}
		return nil
	})
	r.trim(0, 10)
	r.collectAll()
	r.bucketIsCatalog(0)
	for _, k := range r.keys() {
		require.True(t, strings.HasPrefix(k, "segments/"))
	}
}

// TestH2_CollectionWaitsForPermission while the catalog is known to have gone back.
func TestH2_CollectionWaitsForPermission(t *testing.T) {
	may := make(chan bool, 100)
	r := newRig(t, func(o *Options) {
		o.RowTTL, o.Grace, o.Again, o.CollectEvery = 1, 2, 1, 1
		o.MayCollect = func() bool {
			select {
			case may <- false:
			default:
			}
			return false
		}
	})
	r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.trim(0, 10)
	for range 5 {
		<-may
	}
	require.Len(t, r.keys(), 2)
}
