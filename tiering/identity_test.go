package tiering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/tiering/objstore"
)

func (r *rig) identity() string {
	r.t.Helper()
	info, err := r.store.Store.Stat(r.ctx, identityKey)
	require.NoError(r.t, err)
	raw := make([]byte, info.Size)
	require.NoError(r.t, r.store.Store.ReadRange(r.ctx, identityKey, 0, raw))
	return string(raw)
}

func TestH2_TheGenerationOfTheBucketOnlyRises(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Generation = 3 })
	require.Contains(t, r.identity(), `"generation":3`)
	r.stop()
	r.opts.Generation = 5
	r.start()
	require.Contains(t, r.identity(), `"generation":5`)
	require.NoError(t, r.tier.SetGeneration(t.Context(), 6))
	require.NoError(t, r.tier.SetGeneration(t.Context(), 4))
	require.Contains(t, r.identity(), `"generation":6`)
	r.stop()

	o := r.opts // of a catalog that was restored from a backup
	o.Store, o.Catalog, o.Cache, o.Generation = r.store, r.cat, r.cache, 5
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ErrNewerBucket)
	require.ErrorContains(t, err, "generation 6, the catalog 5")
	require.NoError(t, r.store.Store.Put(t.Context(), identityKey, objstore.Bytes([]byte(`{"cluster":"00"}`)), objstore.PutOptions{}))
	_, err = Open(t.Context(), o)
	require.ErrorIs(t, err, ErrOtherCluster)
}

// A bucket that is empty although the catalog names objects in it is the wrong one, or its disk is not mounted: nothing is
// written to it, nothing read from it is lost, and tiering begins when the right one is there.
func TestH22_AnEmptyBucketOfACatalogWithObjectsIsWaitedFor(t *testing.T) {
	r := newRig(t, nil)
	right := r.identity()
	r.stop()
	require.NoError(t, r.store.Store.Delete(t.Context(), identityKey))
	r.opts.Holds = true
	r.start()
	require.False(t, r.tier.Ready())
	require.ErrorIs(t, r.tier.Trouble(), errEmptyBucket)
	_, err := r.store.Store.Stat(t.Context(), identityKey)
	require.ErrorIs(t, err, objstore.ErrNotFound)
	_, err = r.tier.Read(t.Context(), ReadRequest{Partition: r.p(0), Bound: 10, MaxBytes: 1})
	require.ErrorIs(t, err, ErrStorage)

	require.NoError(t, r.store.Store.Put(t.Context(), identityKey, objstore.Bytes([]byte(right)), objstore.PutOptions{}))
	require.Eventually(t, r.tier.Ready, time.Minute, 10*time.Millisecond)
}
