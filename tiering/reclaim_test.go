package tiering

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/tiering/objstore/file"
)

// journal is a broker's own record in memory.
type journal struct {
	mu   sync.Mutex
	kept []catalog.Publication
	fail error
}

func (j *journal) Note(row catalog.Publication) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return j.fail
	}
	j.kept = append(j.kept, row)
	return nil
}

func (j *journal) refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail = err
}

func (j *journal) noted() []catalog.Publication {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.kept)
}

// losing is a rig whose catalog can lose its last commits.
type losing struct {
	*rig
	*journal
	path string
}

func newLosing(t *testing.T) *losing {
	t.Helper()
	dir := t.TempDir()
	l := &losing{journal: &journal{}, path: filepath.Join(dir, "catalog.db")}
	st, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")})
	require.NoError(t, err)
	l.rig = newRigOn(t, openCatalog(t, l.path), st, func(o *Options) { o.Journal = l.journal })
	return l
}

func openCatalog(t testing.TB, path string) catalog.Store {
	t.Helper()
	cat, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cat.Close() })
	return cat
}

// between does something to the catalog's file while nobody has it open.
func (l *losing) between(do func()) {
	l.t.Helper()
	l.stop()
	require.NoError(l.t, l.cat.Store.Close())
	do()
	l.cat.Store = openCatalog(l.t, l.path)
	l.start()
}

// remember keeps a copy of the catalog, lose goes back to it.
func (l *losing) remember() {
	l.t.Helper()
	l.between(func() { l.copyFile(l.path, l.path+".past") })
}

func (l *losing) lose() {
	l.t.Helper()
	l.between(func() {
		for _, beside := range []string{"-wal", "-shm"} {
			_ = os.Remove(l.path + beside)
		}
		l.copyFile(l.path+".past", l.path)
	})
}

func (l *losing) copyFile(from, to string) {
	l.t.Helper()
	raw, err := os.ReadFile(from)
	require.NoError(l.t, err)
	require.NoError(l.t, os.WriteFile(to, raw, 0o600))
}

// R1: a row is in the broker's own record before the transaction that publishes it is sent, and no transaction is sent
// that the record does not have.
func TestH2_NotedBeforeItIsPublished(t *testing.T) {
	r := newLosing(t)
	j := r.journal
	j.refuse(errors.New("the disk is full"))
	r.cat.set(func(op string, done bool) error {
		if op == "publish" && !done && len(j.noted()) == 0 {
			t.Error("published without a note")
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.until(func() bool { st, _ := r.tier.Status(r.p(0)); return st.Failures > 2 }, func() string { return "no failure" })
	require.Empty(t, r.rows(0))
	require.Len(t, r.keys(), 1, "what is stored is not put again")
	j.refuse(nil)
	r.tiered(0, 10)
	require.Len(t, r.keys(), 1)
	row := r.rows(0)[0]
	row.ID, row.MaxTimestampUpto = 0, 0
	require.Equal(t, []catalog.Publication{{Segment: row}}, j.noted(), "once, and whole")
	r.consume(0, l, 0, 10)
}

// H3: commits that moved tiered are lost after local bytes were freed: what was published is published again, the objects
// are those that were there.
func TestH3_WhatTheCatalogLostIsPublishedAgain(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	r.remember()
	l.segments(3)
	r.tier.Lead(r.p(0), l, nil)
	r.tiered(0, 40)
	before := r.keys()
	r.lose()
	require.EqualValues(t, 10, r.bounds(0).Tiered)
	n, err := r.cat.ReportLost(r.ctx, r.noted())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	empty := newMemLog(r.elect(0))
	empty.freed, empty.next = 40, 40
	moved, err := r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
	require.NoError(t, err)
	require.True(t, moved)
	moved, err = r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
	require.NoError(t, err)
	require.False(t, moved)
	r.tiered(0, 40)
	r.tier.Lead(r.p(0), empty, nil)
	r.tier.Reconsider([]catalog.PartitionID{r.p(0)})
	r.settledLost(0)
	r.consume(0, l, 0, 40)
	r.collectAll()
	require.ElementsMatch(t, before, r.keys())
	r.bucketIsCatalog(0)
}

// H3: the catalog has kept the intent of the first object and lost its publish and the rows that continue it, of which the
// leader's log holds the last. All come back by their objects: none is given up before the intent has been published.
func TestH3_LostRowsContinueAnIntentThatWasKept(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	r.tier.Unlead(r.p(0))
	l.segments(3)
	kept := r.attemptOnly(l, l.runLocked(10, 20))
	r.remember()
	moved, err := r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
	require.NoError(t, err)
	require.True(t, moved)
	r.tier.Lead(r.p(0), l, nil)
	r.tiered(0, 40)
	before := keysOf(r.rows(0))
	require.Equal(t, kept, before[1])
	r.lose()
	require.EqualValues(t, 10, r.bounds(0).Tiered)
	n, err := r.cat.ReportLost(r.ctx, r.noted())
	require.NoError(t, err)
	require.Equal(t, 2, n, "an intent names the first")
	l.setGuard(r.elect(0))
	l.freed = 30
	r.tier.Lead(r.p(0), l, nil)
	r.tier.Reconsider([]catalog.PartitionID{r.p(0)})
	r.tiered(0, 40)
	r.settledLost(0)
	require.Equal(t, before, keysOf(r.rows(0)))
	require.Empty(t, l.damaged)
	r.consume(0, l, 0, 40)
	r.collectAll()
	r.bucketIsCatalog(0)
}

// settledLost waits until a partition has no lost rows and no intents.
func (r *rig) settledLost(n int32) {
	r.t.Helper()
	r.until(func() bool {
		lost, err := r.cat.LostSegments(r.ctx, r.p(n))
		ins, err2 := r.cat.Intents(r.ctx, r.p(n))
		return err == nil && err2 == nil && len(lost)+len(ins) == 0
	}, func() string { return "something is left" })
}

// A leader that goes on while others report what was lost: what agrees with its log is published, the farthest reaching
// one first, the rest is given up.
func TestH3_LostRowsUnderALeaderThatGoesOn(t *testing.T) {
	r := newLosing(t)
	r.remember()
	r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.lose()
	long := newMemLog(r.elect(0))
	long.segments(2)
	long.seals = long.seals[1:]
	far := r.attemptOnly(long, long.runLocked(0, 20))
	ins, err := r.cat.Intents(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Len(t, ins, 1)
	farRow, err := r.tier.inspect(r.ctx, far)
	require.NoError(t, err)
	require.NoError(t, r.cat.GiveUp(r.ctx, r.guard(0), ins[0].Attempt))
	_, err = r.cat.ReportLost(r.ctx, append(r.noted(), catalog.Publication{Segment: farRow}))
	require.NoError(t, err)

	l := newMemLog(r.guard(0))
	l.segments(2)
	l.published = nil
	r.tier.Lead(r.p(0), l, nil)
	r.tier.Reconsider([]catalog.PartitionID{r.p(0), r.p(1)})
	r.tiered(0, 20)
	r.settledLost(0)
	require.NotContains(t, keysOf(r.rows(0)), far, "garbage names its key")
	r.collectAll()
	r.bucketIsCatalog(0)
}

// An object that holds other epochs than the leader's log is not put before its readers.
func TestR18_ALostRowThatDisagreesIsGivenUp(t *testing.T) {
	r := newLosing(t)
	r.remember()
	r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	old := r.keys()
	r.lose()
	_, err := r.cat.ReportLost(r.ctx, r.noted())
	require.NoError(t, err)
	other := newMemLog(r.elect(0))
	other.segments(1)
	r.tier.Lead(r.p(0), other, nil)
	r.tier.Reconsider([]catalog.PartitionID{r.p(0)})
	r.tiered(0, 10)
	r.settledLost(0)
	require.NotEqual(t, old, keysOf(r.rows(0)))
	r.consume(0, other, 0, 10)
	r.collectAll()
	r.bucketIsCatalog(0)
}

// An object that is gone or is not what its row says is not published.
func TestR4_ALostRowWithoutItsObject(t *testing.T) {
	r := newLosing(t)
	r.remember()
	r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.lose()
	rows := r.noted()
	require.NoError(t, r.store.Store.Delete(r.ctx, rows[0].Key))
	_, err := r.cat.ReportLost(context.Background(), rows)
	require.NoError(t, err)
	r.elect(0)
	moved, err := r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
	require.NoError(t, err)
	require.False(t, moved)
	require.Empty(t, r.rows(0))
}

func keysOf(rows []catalog.Segment) []string {
	out := make([]string, len(rows))
	for i, s := range rows {
		out[i] = s.Key
	}
	return out
}
