package rebuild

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/sqlite"
	"tidemark/record"
	"tidemark/tiering/audit"
	"tidemark/tiering/checkpoint"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
	"tidemark/tiering/object/objecttest"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

// desk is a cluster whose catalog will be lost: a catalog with a topic, a folder, a writer of checkpoints.
type desk struct {
	*catalogtest.World
	t       *testing.T
	dir     string
	store   objstore.Store
	cluster catalog.ClusterRow
	topic   catalog.Topic
	p       *catalogtest.Partition // partition 0 of topic
	writer  *checkpoint.Writer
}

func newDesk(t *testing.T, configs map[string]string) *desk {
	d := &desk{t: t, dir: t.TempDir()}
	d.World = catalogtest.NewWorld(t, emptyCatalog(t))
	st, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: d.dir})
	require.NoError(t, err)
	d.store = st
	d.cluster, err = d.S.Cluster(t.Context())
	require.NoError(t, err)
	d.Register(1)
	d.topic, err = d.S.CreateTopic(d.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "events", Configs: configs, Place: catalogtest.On(2, 1)})
	require.NoError(t, err)
	d.p = d.Led(d.topic, 0)
	d.writer, err = checkpoint.NewWriter(checkpoint.Options{Store: st, Catalog: d.S})
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), identityKey, objstore.Bytes(fmt.Appendf(nil, `{"cluster":%q,"generation":%d}`, d.cluster.ID.Hex(), d.cluster.Generation)), objstore.PutOptions{}))
	return d
}

func emptyCatalog(t testing.TB) catalog.Store {
	cat, err := sqlite.Open(context.Background(), t.TempDir()+"/catalog.db", sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	return cat
}

func (d *desk) checkpoint() {
	d.t.Helper()
	_, err := d.writer.Write(d.t.Context())
	require.NoError(d.t, err)
}

// put puts an object into the bucket without any row.
func (d *desk) put(p *catalogtest.Partition, name string, base, next record.Offset, generation int32) catalog.Segment {
	d.t.Helper()
	built, raw := objecttest.Build(d.t, object.Spec{Cluster: object.ID(d.cluster.ID), Topic: object.ID(p.ID.Topic), TopicName: name, Partition: p.ID.Partition,
		LeaderEpoch: p.Guard.Epoch, Generation: generation, Base: base, Next: next, AppendTime: 5})
	require.NoError(d.t, d.store.Put(d.t.Context(), built.Key(), objstore.Bytes(raw), objstore.PutOptions{}))
	return inspect.Row(&built.Footer, built.SHA256)
}

func (d *desk) upload(base, next record.Offset) catalog.Segment {
	d.t.Helper()
	return d.p.Publish(d.p.Announce(d.put(d.p, "events", base, next, 0)))
}

// merge swaps all rows of [base, next) for one.
func (d *desk) merge(base, next record.Offset) catalog.Segment {
	d.t.Helper()
	rows, err := d.S.ListSegments(d.Ctx, d.p.ID, base, 1000)
	require.NoError(d.t, err)
	var old []catalog.SegmentID
	for _, r := range rows {
		if r.Base < next {
			old = append(old, r.ID)
		}
	}
	job, err := d.S.TakeJob(d.Ctx, d.p.ID, "merge", 1, d.Inc[1], 0)
	require.NoError(d.t, err)
	s := d.put(d.p, "events", base, next, 1)
	require.NoError(d.t, d.S.PutJobIntent(d.Ctx, job, catalog.Intent{Attempt: s.Attempt, Partition: s.Partition, Base: base, Next: next, Key: s.Key}))
	require.NoError(d.t, d.S.Swap(d.Ctx, job, old, []catalog.Segment{s}))
	require.NoError(d.t, d.S.EndJob(d.Ctx, job))
	return s
}

func (d *desk) remove(s catalog.Segment) {
	d.t.Helper()
	require.NoError(d.t, d.store.Delete(d.t.Context(), s.Key))
}

// rebuild loses the catalog and makes another.
func (d *desk) rebuild() (*desk, Report) {
	d.t.Helper()
	next, report, err := d.tryRebuild(emptyCatalog(d.t))
	require.NoError(d.t, err)
	return next, report
}

func (d *desk) tryRebuild(into catalog.Store) (*desk, Report, error) {
	report, err := Run(d.t.Context(), Options{Store: d.store, Catalog: into, Broker: 1, Watch: time.Millisecond})
	after := *d
	after.World = catalogtest.NewWorld(d.t, into)
	q := *d.p
	q.World = after.World
	after.p = &q
	return &after, report, err
}

func (d *desk) live() string { d.t.Helper(); return d.p.Ranges() }

func (r Report) says(t *testing.T, part string) {
	t.Helper()
	require.Contains(t, strings.Join(r.Undecided, "\n"), part)
}

func TestRebuildFromACheckpointAndWhatContinuesIt(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "-1", "segment.bytes": "1048576"})
	for o := record.Offset(0); o < 50; o += 10 {
		d.upload(o, o+10)
	}
	_, _, err := d.S.MoveStart(d.Ctx, d.p.ID, d.p.Guard, 15)
	require.NoError(t, err)
	slots := d.GiveSlots(1, 0)
	_, err = d.S.CommitOffsets(d.Ctx, []catalog.OffsetWrite{{Guard: slots[0], CommittedOffset: catalog.CommittedOffset{Group: "g", Partition: d.p.ID, Offset: 33, LeaderEpoch: -1, CommitTime: time.UnixMilli(7000)}}})
	require.NoError(t, err)
	d.checkpoint()
	d.upload(50, 60)
	d.upload(60, 70)
	before := d.p.Row()
	after, report := d.rebuild()

	require.Equal(t, "[10,20) [20,30) [30,40) [40,50) [50,60) [60,70)", after.live())
	row := after.p.Row()
	require.Equal(t, before.Bounds, row.Bounds)
	require.Equal(t, catalog.NoBroker, row.Leader)
	require.Equal(t, before.ISR, row.ISR)
	require.Greater(t, row.LeaderEpoch, before.LeaderEpoch)
	for o := record.Offset(15); o < 70; o += 9 {
		was, err := d.S.SegmentAt(d.Ctx, d.p.ID, o)
		require.NoError(t, err)
		is, err := after.S.SegmentAt(d.Ctx, d.p.ID, o)
		require.NoError(t, err)
		was.ID, is.ID = 0, 0
		was.MaxTimestampUpto, is.MaxTimestampUpto = 0, 0
		require.Equal(t, was, is)
	}
	offsets, err := after.S.GroupOffsets(d.Ctx, "g")
	require.NoError(t, err)
	require.Len(t, offsets, 1)
	require.EqualValues(t, 33, offsets[0].Offset)
	ch, err := after.S.Pull(d.Ctx, catalog.Position{})
	require.NoError(t, err)
	require.Equal(t, d.topic.Configs, ch.Topics[0].Configs)
	require.Len(t, ch.Partitions, 2)
	cluster, err := after.S.Cluster(d.Ctx)
	require.NoError(t, err)
	require.Equal(t, d.cluster.ID, cluster.ID)
	require.Equal(t, d.cluster.Generation+1, cluster.Generation)
	restoring, err := after.S.Restoring(d.Ctx)
	require.NoError(t, err)
	require.False(t, restoring)
	require.EqualValues(t, 4, report.FromCheckpoint)
	require.EqualValues(t, 2, report.FromObjects)
	require.EqualValues(t, 1, report.Left, "the object below start")
	after.sound()

	// Whoever has its disk keeps its incarnation and leads on.
	got, err := after.S.Register(d.Ctx, catalog.Registration{ID: 1, Keep: d.Inc[1], Attempt: "again"})
	require.NoError(t, err)
	require.Equal(t, d.Inc[1], got.Incarnation)
}

// sound verifies everything that the catalog says against the bucket.
func (d *desk) sound() {
	d.t.Helper()
	a, err := audit.New(audit.Options{Store: d.store, Catalog: d.S, Cluster: d.cluster.ID})
	require.NoError(d.t, err)
	_, err = a.Verify(d.t.Context(), audit.Request{Partitions: []audit.Partition{{ID: d.p.ID, Topic: "events"}}, Deep: true}, func(p audit.Problem, _ audit.Progress) {
		require.Empty(d.t, p.Kind, "%s", p)
	})
	require.NoError(d.t, err)
}

func TestRebuildDropsWhatWasNotLive(t *testing.T) {
	d := newDesk(t, nil)
	d.upload(0, 10)
	d.upload(10, 20)
	gone, err := d.S.CreateTopic(d.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "gone", Place: catalogtest.On(1, 1)})
	require.NoError(t, err)
	g := d.Led(gone, 0)
	g.Publish(g.Announce(d.put(g, "gone", 0, 10, 0)))
	d.checkpoint()
	require.NoError(t, d.S.DeleteTopic(d.Ctx, gone.ID))
	d.checkpoint()
	d.put(d.p, "events", 20, 90, 0) // of a leader that was fenced before it could publish
	d.p = d.p.Elect(1, 1)
	d.checkpoint()
	d.upload(20, 30)
	d.put(d.p, "events", 0, 20, 1) // a pass that never published
	after, report := d.rebuild()
	require.Equal(t, "[0,10) [10,20) [20,30)", after.live())
	ch, err := after.S.Pull(d.Ctx, catalog.Position{})
	require.NoError(t, err)
	require.Len(t, ch.Topics, 1, "a deleted topic is not revived")
	require.EqualValues(t, 3, report.Left)
	report.says(t, "an object of [20, 90) continues the tier, but it is of leader epoch 0")
}

func TestRebuildAfterSwapsThatTheCheckpointDoesNotKnow(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "-1"})
	var old []catalog.Segment
	for o := record.Offset(0); o < 40; o += 10 {
		old = append(old, d.upload(o, o+10))
	}
	d.checkpoint()
	old = append(old, d.upload(40, 50))
	d.merge(10, 30)
	d.merge(30, 50)
	waiting, _ := d.rebuild()
	require.Equal(t, "[0,10) [10,20) [20,30) [30,40) [40,50)", waiting.live(), "what waits for its removal is as good")
	waiting.sound()
	for _, s := range old[1:] {
		d.remove(s)
	}
	after, report := d.rebuild()
	require.Equal(t, "[0,10) [10,30) [30,50)", after.live())
	require.Zero(t, report.Lost)
	after.sound()
}

// A swap may have joined rows of the checkpoint with what was uploaded after it, and its inputs go one by one.
func TestH21_ASwapOverTheEndOfTheCheckpoint(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "-1"})
	for o := record.Offset(0); o < 40; o += 10 {
		d.upload(o, o+10)
	}
	d.checkpoint()
	young := d.upload(40, 50)
	d.merge(20, 50)
	d.upload(50, 60)
	d.remove(young)
	after, report := d.rebuild()
	require.Equal(t, "[0,10) [10,20) [20,50) [50,60)", after.live())
	require.Zero(t, report.Lost)
	after.sound()
}

// An object that had been replaced when the checkpoint was written and was never deleted is older than all that may be live.
func TestH21_WhatLingersIsNotTakenForWhatReplacedIt(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "-1"})
	before := time.Now().Add(-time.Hour)
	for o := record.Offset(0); o < 40; o += 10 {
		s := d.upload(o, o+10)
		require.NoError(t, os.Chtimes(filepath.Join(d.dir, s.Key), before, before))
	}
	known := d.merge(0, 20)
	d.checkpoint()
	d.merge(0, 40)
	d.remove(known)
	after, report := d.rebuild()
	require.Equal(t, "[0,40)", after.live())
	require.Zero(t, report.Lost)
}

func TestRebuildWithALostObjectFailsOnlyThere(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "-1"})
	d.upload(0, 10)
	lost := d.upload(10, 20)
	d.upload(20, 30)
	d.checkpoint()
	d.remove(lost)
	after, report := d.rebuild()
	require.Equal(t, "[0,10) [10,20) [20,30)", after.live())
	require.EqualValues(t, 1, report.Lost)
	report.says(t, lost.Key)
}

func TestRebuildNeverLowersStart(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "60000"})
	a := d.upload(0, 10)
	d.upload(10, 20)
	d.checkpoint()
	_, _, err := d.S.MoveStart(d.Ctx, d.p.ID, d.p.Guard, 12)
	require.NoError(t, err)
	d.remove(a)
	after, report := d.rebuild()
	require.Equal(t, "[10,20)", after.live())
	require.EqualValues(t, 10, after.p.Row().Start)
	report.says(t, "taken as removed by retention")

	_, _, err = d.S.MoveStart(d.Ctx, d.p.ID, d.p.Guard, 20)
	require.NoError(t, err)
	d.checkpoint()
	after, _ = d.rebuild()
	require.Equal(t, catalog.Bounds{Start: 20, Tiered: 20}, after.p.Row().Bounds, "an emptied tier")
}

func TestRebuildFromObjectsAlone(t *testing.T) {
	d := newDesk(t, map[string]string{"retention.ms": "1000"})
	d.upload(0, 10)
	d.upload(10, 20)
	d.put(d.p, "events", 30, 40, 0) // behind a hole
	d.p = d.p.Elect(1, 1)
	d.upload(20, 30)
	damaged := d.put(d.p, "events", 30, 50, 0)
	raw, err := os.ReadFile(filepath.Join(d.dir, damaged.Key))
	require.NoError(t, err)
	raw[100] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, damaged.Key), raw, 0o644))
	require.NoError(t, d.store.Delete(t.Context(), identityKey))

	after, report := d.rebuild()
	require.Equal(t, "[0,10) [10,20) [20,30)", after.live())
	require.True(t, report.Checkpoint.IsZero())
	report.says(t, "checksum mismatch")
	report.says(t, `topic "events" was made from its objects`)
	ch, err := after.S.Pull(d.Ctx, catalog.Position{})
	require.NoError(t, err)
	require.Equal(t, "events", ch.Topics[0].Name)
	require.Equal(t, map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}, ch.Topics[0].Configs, "nothing is removed before somebody has looked")
	require.Equal(t, []catalog.BrokerID{1}, ch.Partitions[0].Replicas)
	require.Greater(t, ch.Partitions[0].LeaderEpoch, record.Epoch(1))
	after.sound()
}

func TestATopicMadeAfterTheCheckpointComesBack(t *testing.T) {
	d := newDesk(t, nil)
	d.upload(0, 10)
	d.checkpoint()
	young, err := d.S.CreateTopic(d.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "young", Place: catalogtest.On(1, 1)})
	require.NoError(t, err)
	y := d.Led(young, 0)
	s := d.put(y, "young", 0, 10, 0)
	_, report := d.rebuild()
	require.Equal(t, 2, report.Topics)
	report.says(t, `topic "young" was made from its objects`)

	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(d.dir, s.Key), old, old))
	_, report = d.rebuild()
	require.Equal(t, 1, report.Topics, "one that was not there at the checkpoint and is older was deleted")
	report.says(t, "taken as deleted")
}

func TestARebuildThatWasKilledIsGoneOnWith(t *testing.T) {
	d := newDesk(t, nil)
	for o := record.Offset(0); o < 60; o += 2 {
		d.upload(o, o+2)
	}
	d.checkpoint()
	whole, want := d.rebuild()
	for calls := 1; ; calls++ {
		into := emptyCatalog(t)
		left := calls
		_, _, err := d.tryRebuild(killed{into, &left})
		if err == nil {
			require.Greater(t, calls, 3)
			break
		}
		require.ErrorIs(t, err, errKilled)
		restoring, err := into.Restoring(d.Ctx)
		require.NoError(t, err)
		require.True(t, restoring, "the mark keeps brokers away")
		after, got, err := d.tryRebuild(into)
		require.NoError(t, err)
		require.Equal(t, whole.live(), after.live())
		got.Generation = want.Generation // each attempt is one more
		require.Equal(t, want, got)
	}
}

var errKilled = errors.New("killed")

// killed carries out a number of writes and then none.
type killed struct {
	catalog.Store
	left *int
}

func (k killed) die() bool { *k.left--; return *k.left < 0 }

func (k killed) BeginRestore(ctx context.Context, c catalog.ClusterRow, v catalog.Version) (catalog.ClusterRow, error) {
	row, err := k.Store.BeginRestore(ctx, c, v)
	if *k.left--; *k.left == 0 {
		return row, errKilled
	}
	return row, err
}

func (k killed) RestoreTopic(ctx context.Context, t catalog.Topic, ps []catalog.Partition) error {
	if k.die() {
		return errKilled
	}
	return k.Store.RestoreTopic(ctx, t, ps)
}

func (k killed) RestoreSegments(ctx context.Context, p catalog.PartitionID, rows []catalog.Segment) (catalog.Bounds, error) {
	if k.die() {
		return catalog.Bounds{}, errKilled
	}
	return k.Store.RestoreSegments(ctx, p, rows)
}

func (k killed) EndRestore(ctx context.Context) error {
	if k.die() {
		return errKilled
	}
	return k.Store.EndRestore(ctx)
}

func TestWhatIsInUseIsNotRebuilt(t *testing.T) {
	d := newDesk(t, nil)
	d.upload(0, 10)
	d.checkpoint()
	_, _, err := d.tryRebuild(d.S)
	require.ErrorIs(t, err, catalog.ErrNotEmpty)

	empty := emptyCatalog(t)
	_, err = empty.Register(d.Ctx, catalog.Registration{ID: 7, Attempt: "a"})
	require.NoError(t, err)
	_, _, err = d.tryRebuild(empty)
	require.NoError(t, err, "a lease that stands still is nobody's")

	moving := renewed{emptyCatalog(t), 0}
	_, _, err = d.tryRebuild(&moving)
	require.ErrorIs(t, err, ErrBrokerRuns)
	require.ErrorContains(t, err, "broker 7")
}

// renewed shows a lease that moves.
type renewed struct {
	catalog.Store
	lease int64
}

func (r *renewed) Brokers(context.Context) ([]catalog.Broker, error) {
	r.lease++
	return []catalog.Broker{{ID: 7, Live: true, Lease: r.lease}}, nil
}

func TestABucketThatTellsNothingOrTooMuch(t *testing.T) {
	d := newDesk(t, nil)
	require.NoError(t, d.store.Delete(t.Context(), identityKey))
	_, _, err := d.tryRebuild(emptyCatalog(t))
	require.ErrorIs(t, err, ErrNothing)
	d.upload(0, 10)
	d.cluster.ID = catalog.NewUUID()
	d.put(d.p, "events", 0, 10, 0)
	_, _, err = d.tryRebuild(emptyCatalog(t))
	require.ErrorIs(t, err, ErrUnclear)
}
