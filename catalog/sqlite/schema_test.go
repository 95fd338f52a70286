package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
)

func TestWhatWasWrittenIsThereAfterASecondOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new folder", "catalog ?#%.db")
	s := openTest(t, path)
	w := catalogtest.NewWorld(t, s)
	p := w.OnePartition()
	p.Upload(0, 10)
	at := w.Position()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice is once")

	w.S = openTest(t, path)
	require.Equal(t, "[0,10)", p.Ranges())
	require.Equal(t, at, w.Position(), "opening moves nothing")
	_, err := os.Stat(path)
	require.NoError(t, err)
}

func TestP14_ASecondProcessIsToldWhoHoldsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	s := openTest(t, path)
	_, err := Open(context.Background(), path, Options{})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, path+".lock")
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, s.Close())
	openTest(t, path)
}

func TestH35_AHigherLevelIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	openTest(t, path)
	_, err := beside(t, path).Exec(`UPDATE cluster SET level = 2`)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "copy.db")
	_, err = beside(t, path).Exec(`VACUUM INTO $1`, other)
	require.NoError(t, err)
	_, err = Open(context.Background(), other, Options{})
	require.ErrorIs(t, err, catalog.ErrLevel)
}

func TestH2_ACommitIsSyncedBeforeItIsAnswered(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "catalog.db"))
	var synchronous int
	var mode string
	require.NoError(t, s.db.writer.QueryRow(`PRAGMA synchronous`).Scan(&synchronous))
	require.NoError(t, s.db.writer.QueryRow(`PRAGMA journal_mode`).Scan(&mode))
	require.Equal(t, 2, synchronous, "FULL")
	require.Equal(t, "wal", mode)
}

func TestP8_TheDatabaseItselfRefusesWhatBreaksARule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	w := catalogtest.NewWorld(t, openTest(t, path))
	p := w.OnePartition()
	p.Upload(0, 10)
	p.Upload(10, 20)
	insert := func(base, next int) string {
		return `INSERT INTO segments (topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position,
			data_bytes, sha256, leader_epoch, generation, clean_since, attempt)
			SELECT topic, partition, ` + strconv.Itoa(base) + `, ` + strconv.Itoa(next) + `, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key,
			tail_position, data_bytes, sha256, leader_epoch, generation, clean_since, hex(randomblob(8)) FROM segments WHERE base = 0`
	}
	d := beside(t, path)
	for story, text := range map[string]string{
		"a row that reaches into its right neighbour": insert(5, 15),
		"a row inside another":                        insert(12, 13),
		"the same base":                               insert(10, 11),
		"an empty range":                              insert(30, 30),
		"a range is changed":                          `UPDATE segments SET next = 25 WHERE base = 10`,
		"start falls":                                 `UPDATE partitions SET start = -1`,
		"tiered falls":                                `UPDATE partitions SET tiered = 19`,
		"start passes tiered":                         `UPDATE partitions SET start = 21`,
		"the ISR is emptied":                          `UPDATE partitions SET isr = '[]'`,
		"a partition goes before its segments":        `DELETE FROM partitions`,
	} {
		_, err := d.Exec(text)
		require.ErrorContains(t, err, "constraint", story)
	}
	_, err := d.Exec(insert(20, 30))
	require.NoError(t, err)
}

func TestACallThatIsCancelledSaysSo(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "catalog.db"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Brokers(ctx)
	require.True(t, catalog.Unavailable(err))
	_, err = s.ProducerIDs(ctx, 1, 1)
	require.True(t, catalog.Unavailable(err))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.ProducerIDs(context.Background(), 1, 1)
	require.NoError(t, err, "the connection is as good as before")
	require.NoError(t, s.Close())
	_, err = s.Brokers(context.Background())
	require.True(t, catalog.Unavailable(err), "%v", err)
}

func TestOptionsReportEveryFault(t *testing.T) {
	err := Options{CallTimeout: -1, Readers: 100}.Validate()
	require.ErrorContains(t, err, "call timeout")
	require.ErrorContains(t, err, "100 readers")
}
