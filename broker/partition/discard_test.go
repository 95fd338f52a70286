package partition_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/partition"
)

// A topic that is deleted and made again under the same name, while the old one's files are still there, has a log of its
// own at once; the old files go by themselves.
func TestD18_ATopicIsMadeAgainBeforeItsOldFilesAreGone(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	one := w.nodes[1]
	one.write("old 0", "old 1")
	old := w.id()
	require.NoError(t, w.store.DeleteTopic(t.Context(), old.Topic))
	w.create(nil)
	_, err := one.set.Get(old)
	require.ErrorIs(t, err, partition.ErrUnknown)
	require.NoDirExists(t, one.data.Path(old.Topic, 0))
	one.write("new 0")
	require.Equal(t, numbered(0, []string{"new 0"}), one.consume(0))
	w.until(func() bool {
		left, err := os.ReadDir(filepath.Join(one.dir, "trash"))
		return err == nil && len(left) == 0
	}, "the old files are gone")
}
