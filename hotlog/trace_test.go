package hotlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// golden compares the order of changes with a text whose lines may be indented and
// whose segment names are short.
func golden(t *testing.T, got, want string) {
	t.Helper()
	got = strings.ReplaceAll(got, "00112233445566778899aabbccddeeff-0", "p")
	got = strings.ReplaceAll(got, "000000000000000000", "")
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(want)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	require.Equal(t, strings.Join(lines, "\n"), got)
}

// TestI1_OrderOfChanges: what is called flushed or stored depends on nothing that
// was not synced before; an append is one write; one directory sync a roll.
func TestI1_OrderOfChanges(t *testing.T) {
	o := small(testOptions(t))
	o.Config.IndexIntervalBytes = 300
	l, fs, o := faulty(t, o)
	golden(t, fs.Trace(), "")

	add(t, l, plain(1, 0), plain(1, 1), plain(1, 2))
	golden(t, fs.Trace(), `
		mkdir p
		create p/00.log
		write p/00.log 228 at 0`)

	fill(t, l, 10)
	fs.Trace()
	l.flushTurn <- struct{}{} // the background flush waits until the append is done
	add(t, l, from(7, 0, 0, 1))
	<-l.flushTurn
	l.work.Wait()
	golden(t, fs.Trace(), `
		create p/10.log
		write p/10.log 78 at 0
		sync p/00.log
		sync p/10.log
		syncdir p
		syncdir .
		create p/00.index
		write p/00.index 16 at 0
		sync p/00.index
		create p/00.timeindex
		write p/00.timeindex 36 at 0
		sync p/00.timeindex
		create p/10.snapshot.tmp
		write p/10.snapshot.tmp 29 at 0
		sync p/10.snapshot.tmp
		rename p/10.snapshot.tmp to p/10.snapshot
		create p/leader-epoch-checkpoint.tmp
		write p/leader-epoch-checkpoint.tmp 32 at 0
		sync p/leader-epoch-checkpoint.tmp
		rename p/leader-epoch-checkpoint.tmp to p/leader-epoch-checkpoint
		syncdir p
		create p/recovery-point.tmp
		write p/recovery-point.tmp 48 at 0
		sync p/recovery-point.tmp
		rename p/recovery-point.tmp to p/recovery-point`)

	_, err := l.Free(10)
	require.NoError(t, err)
	golden(t, fs.Trace(), `
		remove p/00.timeindex
		remove p/00.index
		remove p/00.log`)

	require.NoError(t, l.Reset(50, record.EpochHistory{}, nil))
	golden(t, fs.Trace(), `
		create p/reset.tmp
		write p/reset.tmp 45 at 0
		sync p/reset.tmp
		rename p/reset.tmp to p/reset
		syncdir p
		remove p/10.log
		remove p/10.snapshot
		remove p/leader-epoch-checkpoint
		remove p/recovery-point
		create p/50.log
		create p/50.snapshot.tmp
		write p/50.snapshot.tmp 29 at 0
		sync p/50.snapshot.tmp
		rename p/50.snapshot.tmp to p/50.snapshot
		create p/leader-epoch-checkpoint.tmp
		write p/leader-epoch-checkpoint.tmp 20 at 0
		sync p/leader-epoch-checkpoint.tmp
		rename p/leader-epoch-checkpoint.tmp to p/leader-epoch-checkpoint
		create p/recovery-point.tmp
		write p/recovery-point.tmp 48 at 0
		sync p/recovery-point.tmp
		rename p/recovery-point.tmp to p/recovery-point
		syncdir p
		remove p/reset
		syncdir p`)
	require.NoError(t, l.Close())
	fs.Trace()
}

// TestI1_FlushedAppendsSyncNamesOnce: the directory with the segment's name is
// synced before the first answer that depends on it, not at every append.
func TestI1_FlushedAppendsSyncNamesOnce(t *testing.T) {
	o := testOptions(t)
	o.Config.FlushMessages = 1
	l, fs, _ := faulty(t, o)
	fs.Trace()
	add(t, l, plain(1, 0))
	add(t, l, plain(1, 0))
	golden(t, fs.Trace(), `
		mkdir p
		create p/00.log
		write p/00.log 76 at 0
		sync p/00.log
		syncdir p
		syncdir .
		write p/00.log 76 at 76
		sync p/00.log`)
}

// TestH11_TruncationLowersTheRecoveryPointFirst: what is appended later at those
// offsets was never synced.
func TestH11_TruncationLowersTheRecoveryPointFirst(t *testing.T) {
	l, fs, _ := faulty(t, testOptions(t))
	fill(t, l, 10)
	_, err := l.Flush()
	require.NoError(t, err)
	fs.Trace()
	require.NoError(t, l.TruncateTo(4))
	golden(t, fs.Trace(), `
		create p/recovery-point.tmp
		write p/recovery-point.tmp 48 at 0
		sync p/recovery-point.tmp
		rename p/recovery-point.tmp to p/recovery-point
		syncdir p
		truncate p/00.log to 304
		sync p/00.log`)
	require.NoError(t, l.Roll(RollTime))
	fill(t, l, 8)
	l.work.Wait()
	fs.Trace()
	require.NoError(t, l.TruncateTo(3))
	golden(t, fs.Trace(), `
		create p/recovery-point.tmp
		write p/recovery-point.tmp 48 at 0
		sync p/recovery-point.tmp
		rename p/recovery-point.tmp to p/recovery-point
		syncdir p
		remove p/04.snapshot
		remove p/04.log
		syncdir p
		truncate p/00.log to 228
		sync p/00.log`)
}
