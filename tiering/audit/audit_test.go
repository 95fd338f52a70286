package audit

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/sqlite"
	"tidemark/record"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
	"tidemark/tiering/object/objecttest"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

// desk is an auditor over a real catalog and a folder, with one partition.
type desk struct {
	*catalogtest.Partition
	t       *testing.T
	dir     string
	store   objstore.Store
	cluster catalog.UUID
	a       *Auditor
	away    bool
}

func newDesk(t *testing.T) *desk {
	cat, err := sqlite.Open(t.Context(), t.TempDir()+"/catalog.db", sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	d := &desk{t: t, dir: t.TempDir()}
	st, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: d.dir})
	require.NoError(t, err)
	row, err := cat.Cluster(t.Context())
	require.NoError(t, err)
	d.store, d.cluster = st, row.ID
	d.Partition = catalogtest.NewWorld(t, cat).OnePartition()
	d.a, err = New(Options{Store: awayStore{st, &d.away}, Catalog: cat, Cluster: row.ID})
	require.NoError(t, err)
	return d
}

type awayStore struct {
	objstore.Store
	away *bool
}

func (s awayStore) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if *s.away {
		return objstore.Info{}, errors.New("connection refused")
	}
	return s.Store.Stat(ctx, key)
}

// put puts an object of a range into the bucket without any row.
func (d *desk) put(base, next record.Offset) catalog.Segment {
	d.t.Helper()
	built, raw := objecttest.Build(d.t, object.Spec{Cluster: object.ID(d.cluster), Topic: object.ID(d.ID.Topic), TopicName: "events",
		LeaderEpoch: d.Guard.Epoch, Base: base, Next: next, AppendTime: 5})
	require.NoError(d.t, d.store.Put(d.t.Context(), built.Key(), objstore.Bytes(raw), objstore.PutOptions{}))
	return inspect.Row(&built.Footer, built.SHA256)
}

// upload takes a range through its whole life up to live.
func (d *desk) upload(base, next record.Offset) catalog.Segment {
	d.t.Helper()
	return d.Publish(d.Announce(d.put(base, next)))
}

func (d *desk) path(key string) string { return filepath.Join(d.dir, filepath.FromSlash(key)) }

// age makes an object look a week and a day old.
func (d *desk) age(key string) {
	d.t.Helper()
	at := time.Now().Add(-8 * 24 * time.Hour)
	require.NoError(d.t, os.Chtimes(d.path(key), at, at))
}

func (d *desk) flip(key string, at int64) {
	d.t.Helper()
	raw, err := os.ReadFile(d.path(key))
	require.NoError(d.t, err)
	raw[at] ^= 0x40
	require.NoError(d.t, os.WriteFile(d.path(key), raw, 0o644))
}

func (d *desk) request() Request {
	return Request{Partitions: []Partition{{d.ID, "events"}}, Deep: true, Bucket: true}
}

// verify returns the problems, one line each.
func (d *desk) verify(r Request) []string {
	d.t.Helper()
	out := []string{}
	_, err := d.a.Verify(d.t.Context(), r, func(p Problem, _ Progress) {
		if p.Kind != "" {
			out = append(out, p.String())
		}
	})
	require.NoError(d.t, err)
	return out
}

func TestASoundTierHasNoProblems(t *testing.T) {
	d := newDesk(t)
	for o := record.Offset(0); o < 100; o += 10 {
		d.upload(o, o+10)
	}
	require.NoError(t, d.store.Put(t.Context(), "cluster.json", objstore.Bytes([]byte("{}")), objstore.PutOptions{}))
	require.Empty(t, d.verify(d.request()))
	var last Progress
	done, err := d.a.Verify(t.Context(), d.request(), func(_ Problem, now Progress) { last = now })
	require.NoError(t, err)
	require.Equal(t, last, done)
	require.EqualValues(t, 10, done.Objects)
	require.Equal(t, done.OfBytes, done.Bytes)
	require.EqualValues(t, 11, done.Listed)

	// DeleteRecords into an object, and retention in steps, are no problems either.
	_, _, err = d.S.MoveStart(d.Ctx, d.ID, d.Guard, 35)
	require.NoError(t, err)
	require.Empty(t, d.verify(d.request()))
}

func TestEachDamageIsNamed(t *testing.T) {
	for _, row := range []struct {
		name   string
		damage func(d *desk, s catalog.Segment)
		says   []string
	}{
		{"an object is gone", func(d *desk, s catalog.Segment) { require.NoError(t, d.store.Delete(t.Context(), s.Key)) },
			[]string{"missing: events-0 [10, 20)", "the bucket has no such object"}},
		{"a byte of a record is flipped", func(d *desk, s catalog.Segment) { d.flip(s.Key, s.DataBytes/2) },
			[]string{"checksum: events-0 [10, 20)", "the batch at byte"}},
		{"a byte of an index is flipped", func(d *desk, s catalog.Segment) { d.flip(s.Key, s.TailPosition+3) },
			[]string{"checksum: events-0 [10, 20)", "fail their CRC-32C"}},
		{"a byte of the footer is flipped", func(d *desk, s catalog.Segment) { d.flip(s.Key, s.Bytes-30) },
			[]string{"footer: events-0 [10, 20)"}},
		{"it was cut", func(d *desk, s catalog.Segment) { require.NoError(t, os.Truncate(d.path(s.Key), s.Bytes-1)) },
			[]string{"size: events-0 [10, 20)"}},
		{"it is another one", func(d *desk, s catalog.Segment) {
			other := d.put(10, 20)
			raw, err := os.ReadFile(d.path(other.Key))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(d.path(s.Key), raw, 0o644))
			require.NoError(t, d.store.Delete(t.Context(), other.Key))
		}, []string{"footer: events-0 [10, 20)", "calls itself"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDesk(t)
			d.upload(0, 10)
			hit := d.upload(10, 20)
			d.upload(20, 30)
			row.damage(d, hit)
			got := d.verify(d.request())
			require.Len(t, got, 1, "%q", got)
			for _, want := range append(row.says, hit.Key) {
				require.Contains(t, got[0], want)
			}
		})
	}
}

func TestAShallowLookReadsNoData(t *testing.T) {
	d := newDesk(t)
	s := d.upload(0, 10)
	d.flip(s.Key, 70)
	r := d.request()
	r.Deep = false
	require.Empty(t, d.verify(r))
	require.Len(t, d.verify(d.request()), 1)
}

func TestWhatTheCatalogDoesNotNameIsFound(t *testing.T) {
	d := newDesk(t)
	d.upload(0, 10)
	d.Announce(d.put(10, 20)) // an upload in progress is no stray
	given := d.Announce(d.put(10, 20))
	require.NoError(t, d.S.GiveUp(d.Ctx, d.Guard, given.Attempt))
	stray := d.put(20, 30)
	require.NoError(t, d.store.Put(t.Context(), "holiday.jpg", objstore.Bytes([]byte("sea")), objstore.PutOptions{}))
	got := d.verify(d.request())
	require.Len(t, got, 2, "%q", got)
	require.Contains(t, got[0], "foreign: holiday.jpg")
	require.Contains(t, got[1], "unknown: "+stray.Key)
	require.NotContains(t, got[1], "tier gc")
	d.age(stray.Key)
	require.Contains(t, d.verify(d.request())[1], "tier gc")

	r := d.request()
	r.Topic = &d.ID.Topic
	require.Len(t, d.verify(r), 1, "one topic's prefix only")
}

func TestRowsThatDoNotAddUp(t *testing.T) {
	d := newDesk(t)
	d.upload(0, 10)
	d.upload(10, 20)
	d.upload(20, 30)
	d.a.o.Catalog = tampered{d.S}
	got := strings.Join(d.verify(d.request()), "\n")
	require.Contains(t, got, "continuity: events-0 [10, 20) – no row covers [10, 20)")
	require.Contains(t, got, "accounting: events-0 ")
}

// tampered hides the row at 10, as if somebody had deleted it by hand.
type tampered struct{ Catalog }

func (c tampered) ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error) {
	rows, err := c.Catalog.ListSegments(ctx, p, from, limit)
	var out []catalog.Segment
	for _, r := range rows {
		if r.Base != 10 {
			out = append(out, r)
		}
	}
	return out, err
}

func (c tampered) SegmentAt(ctx context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error) {
	if o >= 10 && o < 20 {
		return catalog.Segment{}, catalog.ErrNotFound
	}
	return c.Catalog.SegmentAt(ctx, p, o)
}

func TestABucketThatIsAwayIsNoDamage(t *testing.T) {
	d := newDesk(t)
	for o := record.Offset(0); o < 2*giveUpAfter; o += 2 {
		d.upload(o, o+2)
	}
	d.away = true
	var kinds []Kind
	_, err := d.a.Verify(t.Context(), d.request(), func(p Problem, _ Progress) {
		if p.Kind != "" {
			kinds = append(kinds, p.Kind)
		}
	})
	require.ErrorIs(t, err, ErrAway)
	for _, k := range kinds {
		require.Equal(t, Unreadable, k)
	}
}

func TestR8_ARowThatWasRemovedMeanwhileIsNoProblem(t *testing.T) {
	d := newDesk(t)
	s := d.upload(0, 10)
	d.upload(10, 20)
	require.NoError(t, d.store.Delete(t.Context(), s.Key))
	d.a.o.Catalog = overtaken{d.S, s}
	_, _, err := d.S.MoveStart(d.Ctx, d.ID, d.Guard, 10)
	require.NoError(t, err)
	require.Empty(t, d.verify(d.request()))
}

// overtaken still lists a row that has gone since.
type overtaken struct {
	Catalog
	gone catalog.Segment
}

func (c overtaken) ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error) {
	rows, err := c.Catalog.ListSegments(ctx, p, from, limit)
	return append([]catalog.Segment{c.gone}, rows...), err
}

func (c overtaken) Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error) {
	row, err := c.Catalog.Partition(ctx, p)
	row.TierBytes += c.gone.Bytes // as it was when the rows were listed
	return row, err
}

func TestD10_OldStraysBecomeGarbage(t *testing.T) {
	d := newDesk(t)
	for o := record.Offset(0); o < 400; o += 2 {
		d.upload(o, o+2)
	}
	old, young := d.put(400, 410), d.put(400, 410)
	d.age(old.Key)
	n, c, err := d.a.Discard(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, Census{Objects: 202, Live: 200, Unknown: 2, Old: 1, OldBytes: old.Bytes}, c)
	require.Equal(t, []string{old.Key}, d.Garbage())
	var strays []Stray
	_, err = d.a.Strays(t.Context(), func(s Stray) { strays = append(strays, s) })
	require.NoError(t, err)
	require.Len(t, strays, 1)
	require.Equal(t, young.Key, strays[0].Key)
}

func TestD11_TooMuchThatIsUnknownIsLeftAlone(t *testing.T) {
	d := newDesk(t)
	for o := record.Offset(0); o < 40; o += 2 {
		d.age(d.put(o, o+2).Key)
	}
	_, _, err := d.a.Discard(t.Context(), 100)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "no live row names any")
	for o := record.Offset(0); o < 200; o += 2 {
		d.upload(o, o+2)
	}
	_, _, err = d.a.Discard(t.Context(), 1)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "20 of the 120 objects")
	require.Empty(t, d.Garbage())
	n, _, err := d.a.Discard(t.Context(), 20)
	require.NoError(t, err)
	require.EqualValues(t, 20, n)
}

func TestTheScrubFindsAndForgetsAndKeepsItsPace(t *testing.T) {
	d := newDesk(t)
	d.upload(0, 10)
	s := d.upload(10, 20)
	d.flip(s.Key, 70)
	reg := prometheus.NewRegistry()
	sc, err := NewScrubber(ScrubOptions{Auditor: d.a, Partitions: func() []Partition { return d.request().Partitions },
		Bucket: func() bool { return true }, BytesPerSecond: 1 << 40, Metrics: reg})
	require.NoError(t, err)
	require.NoError(t, sc.Round(t.Context()))
	require.Len(t, sc.Known(), 1)
	require.Equal(t, 2.0, testutil.ToFloat64(sc.objects))
	require.Equal(t, 1.0, testutil.ToFloat64(sc.found.WithLabelValues(string(Checksum))))
	d.flip(s.Key, 70) // mended
	require.NoError(t, sc.Round(t.Context()))
	require.Empty(t, sc.Known())

	slow := pace(1000)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, slow(ctx, 1000_000_000))
	cancel()
	require.ErrorIs(t, slow(ctx, 1), errPace)
}

func TestTheScrubRunsByItself(t *testing.T) {
	d := newDesk(t)
	s := d.upload(0, 10)
	require.NoError(t, d.store.Delete(t.Context(), s.Key))
	sc, err := NewScrubber(ScrubOptions{Auditor: d.a, Partitions: func() []Partition { return d.request().Partitions }, First: time.Millisecond, Every: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sc.Run(ctx) }()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(sc.Known()) == 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the scrub found nothing")
		}
	}
	cancel()
	require.NoError(t, <-done)
}
