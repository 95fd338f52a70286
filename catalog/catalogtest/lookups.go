package catalogtest

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// Rows is how many rows tests of the lookups make: TIDEMARK_CATALOG_ROWS, or few enough for every day.
func Rows(t testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("TIDEMARK_CATALOG_ROWS"))
	if os.Getenv("TIDEMARK_CATALOG_ROWS") == "" {
		return 20_000
	}
	require.NoError(t, err)
	return n
}

// FillSQL makes rows in place of the given number for the partition whose id the statement is given:
// row i is [10i, 10i+10) and its largest timestamp is 1000i, out of order by up to 2500. numbers is a
// FROM item with a column i from 0 on, hash and sum turn i into a key and a checksum.
func FillSQL(numbers, sum string) string {
	const stamp = `(1000 * i + (i * 7919) % 5001 - 2500)`
	return `INSERT INTO segments (topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position,
			data_bytes, sha256, leader_epoch, generation, clean_since, attempt)
		SELECT $1, 0, 10 * i, 10 * i + 10, 100, 10, ` + stamp + ` - 500, ` + stamp + `, max(` + stamp + `) OVER (ORDER BY i), 0,
			'segments/some-cluster/some-topic/0/' || i, 80, 70, ` + sum + `, 0, 0, 0, 'attempt-of-a-usual-length-' || i FROM ` + numbers
}

// FillDone is what FillSQL leaves to say in the partition's row.
const FillDone = `UPDATE partitions SET tiered = 10 * $2, tier_bytes = 100 * $2 WHERE topic = $1`

// Lookups checks every lookup at random places of a partition that FillSQL has filled with n rows, and
// logs how long they took.
func Lookups(w *World, p catalog.PartitionID, n int) {
	w.T.Helper()
	const tries = 2000
	r := rand.New(rand.NewPCG(1, 2))
	took := map[string][]time.Duration{}
	timed := func(name string, call func() (catalog.Segment, error)) catalog.Segment {
		began := time.Now()
		s, err := call()
		took[name] = append(took[name], time.Since(began))
		require.NoError(w.T, err, name)
		return s
	}
	for range tries {
		i := r.IntN(n)
		s := timed("SegmentAt", func() (catalog.Segment, error) { return w.S.SegmentAt(w.Ctx, p, record.Offset(10*i+r.IntN(10))) })
		require.EqualValues(w.T, 10*i, s.Base)
		ts := s.MaxTimestamp
		first := timed("SegmentAtTime", func() (catalog.Segment, error) { return w.S.SegmentAtTime(w.Ctx, p, ts) })
		require.LessOrEqual(w.T, first.Base, s.Base)
		require.GreaterOrEqual(w.T, first.MaxTimestamp, ts)
		next := timed("NextAtTime", func() (catalog.Segment, error) { return w.S.NextAtTime(w.Ctx, p, s.Base, ts) })
		require.Equal(w.T, s.Base, next.Base)
		timed("LatestInTime", func() (catalog.Segment, error) { return w.S.LatestInTime(w.Ctx, p) })
	}
	began := time.Now()
	last, err := w.S.LatestInTime(w.Ctx, p)
	require.NoError(w.T, err)
	far, err := w.S.NextAtTime(w.Ctx, p, 0, last.MaxTimestamp)
	require.NoError(w.T, err)
	require.Equal(w.T, last.ID, far.ID)
	w.T.Logf("%d rows: NextAtTime that reads nearly all %v", n, time.Since(began))
	began = time.Now()
	_, err = w.S.NextAtTime(w.Ctx, p, 0, last.MaxTimestamp+1)
	require.ErrorIs(w.T, err, catalog.ErrNotFound)
	w.T.Logf("%d rows: NextAtTime that finds nothing %v", n, time.Since(began))
	for name, ds := range took {
		slices.Sort(ds)
		w.T.Logf("%d rows: %s p50 %v, p99 %v", n, name, ds[len(ds)/2], ds[len(ds)*99/100])
	}
}

// Upkeep does to a partition that FillSQL has filled with n rows what goes on all the time: retention of
// one row, listing from somewhere, a publish. Each stays O(result), and logs how long it took.
func Upkeep(p *Partition, n int) {
	p.T.Helper()
	const tries = 500
	r := rand.New(rand.NewPCG(3, 4))
	took := map[string][]time.Duration{}
	timed := func(name string, call func() error) {
		began := time.Now()
		err := call()
		took[name] = append(took[name], time.Since(began))
		require.NoError(p.T, err, name)
	}
	for i := range tries {
		timed("MoveStart past one row", func() error {
			b, more, err := p.S.MoveStart(p.Ctx, p.ID, p.Guard, record.Offset(10*(i+1)))
			require.False(p.T, more)
			require.EqualValues(p.T, 10*(i+1), b.Start)
			return err
		})
		timed("ListSegments, 200 rows", func() error {
			from := record.Offset(10 * (tries + r.IntN(n-tries-201)))
			rows, err := p.S.ListSegments(p.Ctx, p.ID, from, 200)
			require.Len(p.T, rows, 200)
			require.Equal(p.T, from, rows[0].Base)
			return err
		})
		s := p.Announce(p.Segment(record.Offset(10*(n+i)), record.Offset(10*(n+i+1))))
		timed("Publish", func() error {
			_, err := p.S.Publish(p.Ctx, p.Guard, s)
			return err
		})
	}
	row, err := p.S.SegmentAtTime(p.Ctx, p.ID, 0)
	require.NoError(p.T, err)
	require.EqualValues(p.T, 10*tries, row.Base, "what was removed is not found by time")
	for name, ds := range took {
		slices.Sort(ds)
		p.T.Logf("%d rows: %s p50 %v, p99 %v", n, name, ds[len(ds)/2], ds[len(ds)*99/100])
	}
	Pages(p.World, n)
}

// Pages goes through all rows by id, as a full checkpoint does.
func Pages(w *World, n int) {
	w.T.Helper()
	began, seen := time.Now(), 0
	for after := catalog.SegmentID(0); ; {
		rows, err := w.S.SegmentsAfter(w.Ctx, after, 2000)
		require.NoError(w.T, err)
		seen += len(rows)
		if len(rows) < 2000 {
			break
		}
		after = rows[len(rows)-1].ID
	}
	require.GreaterOrEqual(w.T, seen, n)
	w.T.Logf("%d rows: all of them by id, in pages %v", n, time.Since(began))
}
