package partition_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/metadata"
	"tidemark/broker/partition"
)

// A topic that is not there any more without having been deleted may be one that the catalog has lost: its records are kept,
// and are back with it.
func TestH2_TheFilesOfALostTopicAreKeptAndComeBack(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	one := w.nodes[1]
	one.write("v0", "v1")
	one.set.Reconcile(t.Context(), &metadata.Image{})
	_, err := one.set.Get(w.id())
	require.ErrorIs(t, err, partition.ErrUnknown)
	kept, err := os.ReadDir(filepath.Join(one.dir, "stray"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	one.set.Reconcile(t.Context(), one.pulled.Image())
	require.Equal(t, numbered(0, []string{"v0", "v1"}), one.consume(0))
	kept, err = os.ReadDir(filepath.Join(one.dir, "stray"))
	require.NoError(t, err)
	require.Empty(t, kept)
}
