package hotlog

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

var update = flag.Bool("update", false, "write the golden files of the current formats")

const goldenDir = "testdata/v1"

// writeGolden makes a log that has something in each of its files.
func writeGolden(t *testing.T, dir string) {
	o := testOptions(t)
	o.Dir = dir
	o.Clock = (&clockAt{time.UnixMilli(day)}).clock()
	o.Config.SegmentBytes = 800
	o.Config.IndexIntervalBytes = 100
	l := open(t, o)
	add(t, l, plain(3, 0))
	add(t, l, from(7, 0, 0, 2))
	add(t, l, inTxn(8, 1, 0, 2))
	lz4 := produced(record.BuilderOptions{Codec: record.CodecLZ4}, 20)
	add(t, l, lz4)
	add(t, l, marker(8, 1, record.ControlAbort))
	l.work.Wait()
	require.NoError(t, l.AssignEpoch(4))
	for seq := range int32(6) {
		req := request(t, from(7, 0, 2+seq, 1))
		req.Epoch = 4
		_, err := l.Append(req)
		require.NoError(t, err)
	}
	l.work.Wait()
	require.Len(t, l.Segments(), 2)
	require.NoError(t, l.Close())
}

// TestGoldenDirectory: the formats of version 1 are written byte for byte as they
// were, and read.
func TestGoldenDirectory(t *testing.T) {
	if *update {
		require.NoError(t, os.RemoveAll(goldenDir))
		require.NoError(t, os.MkdirAll(filepath.Dir(goldenDir), 0o755))
		writeGolden(t, goldenDir)
	}
	dir := filepath.Join(t.TempDir(), "p")
	writeGolden(t, dir)
	want, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	got, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	copied := filepath.Join(t.TempDir(), "q")
	require.NoError(t, os.Mkdir(copied, 0o755))
	for i, e := range want {
		require.Equal(t, e.Name(), got[i].Name())
		a, err := os.ReadFile(filepath.Join(goldenDir, e.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.Equal(t, a, b, e.Name())
		require.NoError(t, os.WriteFile(filepath.Join(copied, e.Name()), a, 0o644))
	}
	o := testOptions(t)
	o.Dir = copied
	l := open(t, o)
	require.Zero(t, l.Recovered())
	require.Equal(t, Bounds{LocalStart: 0, End: 34, Flushed: 34, Acked: 34}, l.Bounds())
	require.Equal(t, "0-2 3-4 5-6 7-26 27-27 28-28 29-29 30-30 31-31 32-32 33-33", spans(read(t, l, 0, 34)))
	require.Equal(t, []producer.Aborted{{ProducerID: 8, First: 5, Last: 27, LastStable: 28}}, l.Aborted(0, 34))
	require.Equal(t, []record.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 4, Start: 28}}, l.Epochs().Entries())
	require.True(t, add(t, l, from(7, 0, 7, 1)).Duplicate)
}
