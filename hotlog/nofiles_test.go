package hotlog

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
)

// A flush that finds no descriptor, for the directory or for one of the small files, is no failure of the log: the next one
// makes durable what it left.
func TestH28_AFlushWithoutDescriptorsIsTriedAgain(t *testing.T) {
	for _, fault := range []disktest.Fault{
		{Op: "syncdir"}, {Op: "create", Name: pointFile}, {Op: "create", Name: epochsFile},
	} {
		t.Run(fault.Op+fault.Name, func(t *testing.T) {
			o := testOptions(t)
			files := disktest.New(o.Dir)
			o.FS = files
			l := open(t, o)
			fill(t, l, 3)
			fault.Times, fault.Err = 1, &fs.PathError{Op: "open", Path: fault.Name, Err: syscall.EMFILE}
			files.Fail(fault)
			_, err := l.Flush()
			require.ErrorIs(t, err, ErrNoFiles)
			require.NoError(t, l.Failed())
			require.Equal(t, fault.Op == "syncdir", l.newNames && l.newDir, "what is left to the next one")
			flushed, err := l.Flush()
			require.NoError(t, err)
			require.Equal(t, l.Bounds().End, flushed)
		})
	}
}
