package checkpoint

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/sqlite"
	"tidemark/record"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

// desk is a writer over a real catalog and a folder.
type desk struct {
	*catalogtest.World
	t     *testing.T
	store objstore.Store
	w     *Writer
	id    catalog.ClusterRow
}

func newDesk(t *testing.T, change func(*Options)) *desk {
	cat, err := sqlite.Open(t.Context(), t.TempDir()+"/catalog.db", sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	st, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: t.TempDir()})
	require.NoError(t, err)
	d := &desk{World: catalogtest.NewWorld(t, cat), t: t, store: st}
	d.id, err = cat.Cluster(t.Context())
	require.NoError(t, err)
	d.restart(change)
	return d
}

func (d *desk) restart(change func(*Options)) {
	o := Options{Store: d.store, Catalog: d.S, Broker: 1}
	if change != nil {
		change(&o)
	}
	var err error
	d.w, err = NewWriter(o)
	require.NoError(d.t, err)
}

func (d *desk) write(want bool) {
	d.t.Helper()
	wrote, err := d.w.Write(d.t.Context())
	require.NoError(d.t, err)
	require.Equal(d.t, want, wrote)
}

// rows are the ranges that the newest checkpoint shows of a partition.
func (d *desk) rows(p catalog.PartitionID) (ranges []record.Offset) {
	d.t.Helper()
	c, damaged, err := Newest(d.t.Context(), d.store, -1)
	require.NoError(d.t, err)
	require.Empty(d.t, damaged)
	rows, damaged, err := c.Rows(d.t.Context(), d.store)
	require.NoError(d.t, err)
	require.Empty(d.t, damaged)
	for _, r := range rows[p] {
		ranges = append(ranges, r.Base, r.Next)
	}
	return ranges
}

func (d *desk) keys() []string {
	infos, err := d.store.List(d.t.Context(), prefix, "", 1000)
	require.NoError(d.t, err)
	var out []string
	for _, i := range infos {
		out = append(out, i.Key)
	}
	return out
}

func TestH21_ACheckpointIsWrittenWhenSomethingHasChanged(t *testing.T) {
	d := newDesk(t, nil)
	d.write(true)
	d.write(false)
	p := d.OnePartition()
	d.write(true)
	p.Upload(0, 10)
	p.Upload(10, 20)
	d.write(true)
	d.write(false)
	require.Equal(t, []record.Offset{0, 10, 10, 20}, d.rows(p.ID))
	_, _, err := d.S.MoveStart(d.Ctx, p.ID, p.Guard, 15)
	require.NoError(t, err)
	d.write(true)
	require.Equal(t, []record.Offset{10, 20}, d.rows(p.ID), "what is wholly below start is not live")
	c, _, err := Newest(t.Context(), d.store, -1)
	require.NoError(t, err)
	require.EqualValues(t, 15, c.Topics[0].Partitions[0].Start)
	require.Less(t, c.FullNumber, c.Number, "only the first one was full")

	d.restart(nil) // another process goes on with it
	d.write(false)
}

func TestH21_ADeletedTopicIsRemembered(t *testing.T) {
	d := newDesk(t, nil)
	p := d.OnePartition()
	p.Upload(0, 10)
	d.write(true)
	require.NoError(t, d.S.DeleteTopic(d.Ctx, p.ID.Topic))
	for range 2 {
		d.restart(nil)
		_, err := d.w.Write(t.Context())
		require.NoError(t, err)
		d.OnePartition()
		c, _, err := Newest(t.Context(), d.store, -1)
		require.NoError(t, err)
		require.Len(t, c.Deleted, 1)
		require.Equal(t, p.ID.Topic, c.Deleted[0].Topic)
		require.Empty(t, d.rows(p.ID))
	}
}

func TestOldCheckpointsArePruned(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.FullEvery, o.PartRows = time.Nanosecond, 2 })
	p := d.OnePartition()
	for o := range record.Offset(30) {
		p.Upload(o, o+1)
		d.write(true)
	}
	heads := 0
	want, parts := map[string]bool{}, map[string]bool{}
	for _, k := range d.keys() {
		if strings.Contains(k, "-") {
			parts[k] = true
			continue
		}
		heads++
		raw, err := read(t.Context(), d.store, k)
		require.NoError(t, err)
		c, err := Decode(raw)
		require.NoError(t, err)
		for _, p := range c.Parts {
			want[p.Key] = true
		}
	}
	require.Equal(t, keepHeads, heads)
	require.Equal(t, want, parts, "the parts of the kept ones and no others")
	require.Len(t, d.rows(p.ID), 60)

	for range keepGenerations + 2 { // each rebuild begins a generation
		var err error
		d.id, err = d.S.RaiseGeneration(d.Ctx, d.id.Generation)
		require.NoError(t, err)
		d.write(true)
	}
	seen := map[int64]int{}
	for _, k := range d.keys() {
		n, ok := parseName(k)
		require.True(t, ok)
		if n.part == "" {
			seen[n.generation]++
		}
	}
	require.Len(t, seen, keepGenerations+1)
	for g, n := range seen {
		require.Equal(t, 1, n, "generation %d", g)
	}
}

func TestADamagedHeadIsPassedOverAndNamed(t *testing.T) {
	d := newDesk(t, nil)
	p := d.OnePartition()
	d.write(true)
	p.Upload(0, 10)
	d.write(true)
	newest := d.keys()[len(d.keys())-2]
	require.NotContains(t, newest, "-")
	require.NoError(t, d.store.Put(t.Context(), newest, objstore.Bytes([]byte("rubbish")), objstore.PutOptions{}))
	c, damaged, err := Newest(t.Context(), d.store, -1)
	require.NoError(t, err)
	require.Len(t, damaged, 1)
	require.ErrorContains(t, damaged[0], newest)
	require.EqualValues(t, 0, c.Topics[0].Partitions[0].Tiered)
}

func TestTheWriterWritesAtOnceAndWhenWoken(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.Least = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.w.Run(ctx) }()
	d.await(func(c *Checkpoint) bool { return true })
	d.OnePartition()
	d.w.Wake()
	d.await(func(c *Checkpoint) bool { return len(c.Topics) == 1 })
	cancel()
	require.NoError(t, <-done)
}

func (d *desk) await(ok func(*Checkpoint) bool) {
	d.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		if c, _, err := Newest(d.t.Context(), d.store, -1); err == nil && ok(c) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			d.t.Fatal("no such checkpoint")
		}
	}
}

func TestH2_ACatalogFromBeforeTheCheckpointIsFoundOut(t *testing.T) {
	d := newDesk(t, nil)
	d.OnePartition()
	d.write(true)
	require.NoError(t, CheckRewound(t.Context(), d.store, d.S))
	d.OnePartition()
	require.NoError(t, CheckRewound(t.Context(), d.store, d.S), "a catalog that went on holds what was seen")

	backup := newDesk(t, nil) // the same generation, but another history
	backup.OnePartition()
	err := CheckRewound(t.Context(), d.store, backup.S)
	require.ErrorIs(t, err, catalog.ErrRewound)
	_, err = backup.S.RaiseGeneration(backup.Ctx, backup.id.Generation)
	require.NoError(t, err)
	require.NoError(t, CheckRewound(t.Context(), d.store, backup.S), "an operator has agreed")
}
