package tiering

import (
	"testing"

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
