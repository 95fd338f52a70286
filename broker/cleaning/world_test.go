package cleaning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/compaction"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering"
	"tidemark/tiering/cache"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// sea is a catalog and a bucket with a tier over them. The clock of its database is told, not read, and the process
// that works in it may die at any of its operations.
type sea struct {
	ctx  context.Context
	cat  *sqlite.Store
	tier *tiering.Tier
	own  *process // of the worker
	disk *memStore
	id   catalog.ClusterRow
	inc  catalog.Incarnation
	now  int64

	mu    sync.Mutex // guards noted
	noted []catalog.Publication
}

// Note implements tiering.Journal.
func (s *sea) Note(row catalog.Publication) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, row)
	return nil
}

func newSea(t testing.TB) *sea {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	cat, err := sqlite.Open(ctx, filepath.Join(dir, "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	s := &sea{ctx: ctx, cat: cat, disk: &memStore{objects: map[string][]byte{}}, now: 1_000_000, own: &process{left: -1}}
	s.id, err = cat.Cluster(ctx)
	require.NoError(t, err)
	reg, err := cat.Register(ctx, catalog.Registration{ID: 1, Attempt: "1"})
	require.NoError(t, err)
	s.inc = reg.Incarnation
	chunks, err := cache.Open(cache.Options{Dir: filepath.Join(dir, "cache")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chunks.Close()) })
	s.tier, err = tiering.Open(ctx, tiering.Options{
		Store: &shore{s, s.disk}, Catalog: &deeds{s.cat, s}, Cache: chunks, Cluster: s.id.ID, Journal: s, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.tier.Close()) })
	return s
}

// errDead is what everything answers to a dead process.
var errDead = errors.New("the process has died")

// process dies at an operation, before or after its effect.
type process struct {
	mu    sync.Mutex
	left  int // operations until then; -1: it lives
	after bool
	dead  bool
	ops   int
}

func (p *process) do(f func() error) error {
	p.mu.Lock()
	dying := p.left == 0
	if p.left >= 0 {
		p.left--
	}
	p.ops++
	switch {
	case p.dead, dying && !p.after:
		p.dead = true
		p.mu.Unlock()
		return errDead
	case dying:
		p.dead = true
		p.mu.Unlock()
		_ = f()
		return errDead
	}
	p.mu.Unlock()
	return f()
}

// deeds is the catalog as the process reaches it.
type deeds struct {
	*sqlite.Store
	s *sea
}

func (d *deeds) TakeJob(ctx context.Context, p catalog.PartitionID, kind string, b catalog.BrokerID, inc catalog.Incarnation, seen int64) (j catalog.Job, err error) {
	var inner error
	err = d.s.own.do(func() error { j, inner = d.Store.TakeJob(ctx, p, kind, b, inc, seen); return inner })
	return j, err
}

func (d *deeds) EndJob(ctx context.Context, j catalog.Job) error {
	return d.s.own.do(func() error { return d.Store.EndJob(ctx, j) })
}

func (d *deeds) PutJobIntent(ctx context.Context, j catalog.Job, in catalog.Intent) error {
	return d.s.own.do(func() error { return d.Store.PutJobIntent(ctx, j, in) })
}

func (d *deeds) Swap(ctx context.Context, j catalog.Job, old []catalog.SegmentID, by []catalog.Segment) error {
	return d.s.own.do(func() error { return d.Store.Swap(ctx, j, old, by) })
}

func (d *deeds) MarkClean(ctx context.Context, j catalog.Job, rows []catalog.SegmentID, since int64) error {
	return d.s.own.do(func() error { return d.Store.MarkClean(ctx, j, rows, since) })
}

func (d *deeds) Time(context.Context) (time.Time, error) { return time.UnixMilli(d.s.now), nil }

// shore is the bucket as the process reaches it.
type shore struct {
	s *sea
	objstore.Store
}

func (h *shore) Put(ctx context.Context, key string, src objstore.Source, o objstore.PutOptions) error {
	return h.s.own.do(func() error { return h.Store.Put(ctx, key, src, o) })
}

func (h *shore) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	return h.s.own.do(func() error { return h.Store.ReadRange(ctx, key, off, dst) })
}

// island is a partition that compacts: its log as it was written, and the part of it that is tiered.
type island struct {
	*sea
	t       rapid.TB
	p       catalog.PartitionID
	guard   catalog.Guard
	policy  compaction.Policy
	memory  int64
	samples int
	worker  *compaction.Worker
	workers int64

	next    record.Offset
	written []written // by offset
	owner   []int64   // the producer, by offset
	aborted producer.AbortedList
	state   *producer.State
	pending []segment // sealed, not tiered
	active  segment
	tiered  record.Offset
	chain   object.End
	digests bool
}

// written is a record as it was produced.
type written struct {
	offset     record.Offset
	key, value string
	tombstone  bool
	marker     bool
	aborted    bool
	timestamp  int64
}

type segment struct {
	base, next record.Offset
	data       []byte
}

func (s *sea) island(t rapid.TB) *island {
	t.Helper()
	i := &island{sea: s, t: t, state: producer.New(0, 0), chain: object.End{Producers: producer.New(0, 0)}, digests: true, memory: 1 << 20}
	topic := catalog.NewUUID()
	_, err := s.cat.CreateTopic(s.ctx, catalog.NewTopic{ID: topic, Name: "t-" + topic.Hex(), Place: func([]catalog.Broker) ([][]catalog.BrokerID, error) {
		return [][]catalog.BrokerID{{1}}, nil
	}})
	require.NoError(t, err)
	i.p = catalog.PartitionID{Topic: topic}
	row, err := s.cat.Partition(s.ctx, i.p)
	require.NoError(t, err)
	i.guard = catalog.Guard{Broker: row.Leader, Incarnation: s.inc, Epoch: row.LeaderEpoch}
	i.policy = compaction.Policy{Compact: true, MaxLagMs: compaction.Never, DeleteRetentionMs: 100, RetentionMs: -1, ObjectBytes: 1 << 20}
	s.own = &process{left: -1}
	i.live()
	return i
}

// live begins a new process, which holds the jobs that a dead one has left: their leases stood still.
func (i *island) live() {
	i.workers++
	inc := catalog.Incarnation(i.workers)
	i.own = &process{left: -1}
	for _, kind := range []string{"compact", "merge"} {
		if j, err := i.cat.TakeJob(i.ctx, i.p, kind, catalog.NoBroker, inc, 0); errors.Is(err, catalog.ErrHeld) {
			_, err = i.cat.TakeJob(i.ctx, i.p, kind, catalog.NoBroker, inc, j.Lease)
			require.NoError(i.t, err)
		} else if err == nil {
			require.NoError(i.t, i.cat.EndJob(i.ctx, j))
		}
	}
	var err error
	i.worker, err = compaction.NewWorker(compaction.Options{
		Catalog: &deeds{i.cat, i.sea}, Objects: Objects{Tier: i.tier}, Broker: catalog.NoBroker, Incarnation: inc, Memory: i.memory, Samples: i.samples,
		MergeAge: time.Nanosecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(i.t, err)
}

// kv is a record to write: "k=v", or "k" for a tombstone, or "=v" without a key.
func (i *island) write(o record.BuilderOptions, kvs ...string) {
	i.t.Helper()
	o.BaseOffset = i.next
	b := record.NewBuilder(o)
	for n, kv := range kvs {
		w := written{offset: i.next + record.Offset(n), timestamp: i.now}
		key, value, _ := cut(kv)
		w.key, w.tombstone = string(key), value == nil
		w.value = string(value)
		b.Add(i.now, key, value, record.HeaderField{Key: []byte("h"), Value: []byte(kv)})
		i.written = append(i.written, w)
	}
	i.append(b.Build())
}

func cut(kv string) (key, value []byte, tombstone bool) {
	for n := range kv {
		if kv[n] == '=' {
			if n > 0 {
				key = []byte(kv[:n])
			}
			return key, []byte(kv[n+1:]), false
		}
	}
	return []byte(kv), nil, true
}

func (i *island) put(kvs ...string) { i.t.Helper(); i.write(record.BuilderOptions{}, kvs...) }

// in writes in a transaction of a producer.
func (i *island) in(id int64, kvs ...string) {
	i.t.Helper()
	i.write(record.BuilderOptions{Transactional: true, Producer: &record.Producer{ID: id, BaseSequence: -1}}, kvs...)
}

func (i *island) ends(id int64, t record.ControlType) {
	i.t.Helper()
	i.written = append(i.written, written{offset: i.next, marker: true})
	i.append(record.ControlBatch(record.ControlOptions{Type: t, BaseOffset: i.next, ProducerID: id, Timestamp: i.now}))
}

func (i *island) commits(id int64) { i.t.Helper(); i.ends(id, record.ControlCommit) }
func (i *island) aborts(id int64)  { i.t.Helper(); i.ends(id, record.ControlAbort) }

func (i *island) append(batch []byte) {
	i.t.Helper()
	h, err := record.ParseHeader(batch)
	require.NoError(i.t, err)
	var control *producer.Control
	if h.IsControl() {
		kind, epoch, err := record.ParseControl(batch)
		require.NoError(i.t, err)
		control = &producer.Control{Type: kind, CoordinatorEpoch: epoch}
	}
	if e, ended := i.state.Apply(h, control, i.now); ended && !e.Commit {
		i.aborted.Add(e.Aborted)
		for o := e.First; o < e.Last; o++ {
			if w := &i.written[o]; !w.marker {
				w.aborted = w.aborted || i.owner[o] == e.ProducerID
			}
		}
	}
	for range h.NextOffset() - h.BaseOffset {
		i.owner = append(i.owner, h.ProducerID)
	}
	if len(i.active.data) == 0 {
		i.active.base = h.BaseOffset
	}
	i.active.data = append(i.active.data, batch...)
	i.next = h.NextOffset()
	i.active.next = i.next
}

// seal ends the active segment; upload moves what is sealed and stable into the tier.
func (i *island) seal() {
	if len(i.active.data) > 0 {
		i.pending = append(i.pending, i.active)
		i.active = segment{}
	}
}

func (i *island) upload() {
	i.t.Helper()
	stable := i.next
	if first, ok := i.state.FirstOpen(); ok {
		stable = first
	}
	for len(i.pending) > 0 && i.pending[0].next <= stable {
		i.publish(i.pending[0])
		i.pending = i.pending[1:]
	}
}

func (i *island) publish(seg segment) {
	i.t.Helper()
	b, err := object.Build(i.ctx, object.Spec{
		Cluster: object.ID(i.id.ID), Topic: object.ID(i.p.Topic), TopicName: "t", Attempt: object.NewAttempt(), Base: seg.base, Next: seg.next,
		AppendTime: i.now, Compacted: i.digests, Aborted: i.aborted, Epochs: i.chain.Epochs, Producers: i.chain.Producers,
	}, bytesAt(seg.data), int64(len(seg.data)))
	require.NoError(i.t, err)
	require.Equal(i.t, seg.next, b.Next)
	i.chain = object.End{Epochs: b.Epochs, Producers: b.Producers}
	require.NoError(i.t, i.disk.Put(i.ctx, b.Key(), objstore.Source{ReaderAt: b, Size: b.ObjectBytes}, objstore.PutOptions{}))
	require.NoError(i.t, i.cat.PutIntent(i.ctx, catalog.Intent{Attempt: b.Attempt, Partition: i.p, Base: b.Base, Next: b.Next, Key: b.Key(), Guard: i.guard}))
	_, err = i.cat.Publish(i.ctx, i.guard, catalog.Segment{
		Partition: i.p, Base: b.Base, Next: b.Next, Bytes: b.ObjectBytes, Records: b.Records, MinTimestamp: b.MinTimestamp,
		MaxTimestamp: b.MaxTimestamp, AppendTime: b.AppendTime, Key: b.Key(), TailPosition: b.TailPosition, DataBytes: b.DataBytes,
		SHA256: b.SHA256, LeaderEpoch: b.LeaderEpoch, Attempt: b.Attempt,
	})
	require.NoError(i.t, err)
	i.tiered = seg.next
}

type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// tier is put, sealed and uploaded at once: one object.
func (i *island) object(kvs ...string) {
	i.t.Helper()
	if len(kvs) > 0 {
		i.put(kvs...)
	}
	i.seal()
	i.upload()
	require.Equal(i.t, i.next, i.tiered)
}

// pass looks once.
func (i *island) pass() error {
	_, err := i.worker.Once(i.ctx, i.p, i.policy)
	return err
}

// rows are the live rows.
func (i *island) rows() []catalog.Segment {
	i.t.Helper()
	rows, err := i.cat.ListSegments(i.ctx, i.p, 0, 1000)
	require.NoError(i.t, err)
	return rows
}

// batch is one as it lies in the tier, with the aborted transactions that its object lists.
type batch struct {
	raw     []byte
	h       record.Header
	aborted producer.AbortedList
}

// batches reads the tier from an offset on, past everything that may fail.
func (i *island) batches(from record.Offset) []batch {
	i.t.Helper()
	own := i.own
	i.own = &process{left: -1}
	defer func() { i.own = own }()
	var out []batch
	for _, row := range i.rows() {
		if row.Next <= from {
			continue
		}
		in, err := i.tier.OpenInput(i.ctx, row)
		require.NoError(i.t, err)
		r := in.ReadBatches(i.ctx, 0)
		for {
			raw, _, err := r.Next(i.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(i.t, err)
			h, err := record.ParseHeader(raw)
			require.NoError(i.t, err)
			if h.LastOffset() >= from {
				out = append(out, batch{slices.Clone(raw), h, in.Aborted()})
			}
		}
		r.Close()
		require.Equal(i.t, row.Next, out[len(out)-1].h.NextOffset(), "the last batch of a range stays")
	}
	return out
}

// reader is a read_committed client.
type reader struct {
	i       *island
	at      record.Offset
	began   int64
	state   map[string]string
	records int
}

func (i *island) reader() *reader { return &reader{i: i, began: i.now, state: map[string]string{}} }

// read takes up to n batches in one fetch, as the Java client does.
func (r *reader) read(all []batch, n int) {
	t := r.i.t
	t.Helper()
	all = all[:min(n, len(all))]
	if len(all) == 0 {
		return
	}
	begin, end := all[0].h.BaseOffset, all[len(all)-1].h.NextOffset()
	var listed producer.AbortedList
	for _, b := range all {
		for a := range b.aborted.Overlapping(begin, end) {
			listed.Add(a)
		}
	}
	slices.SortFunc(listed, func(a, b producer.Aborted) int { return int(a.First - b.First) })
	hidden := map[int64]bool{}
	for _, b := range all {
		for len(listed) > 0 && listed[0].First <= b.h.LastOffset() {
			hidden[listed[0].ProducerID] = true
			listed = listed[1:]
		}
		require.GreaterOrEqual(t, b.h.BaseOffset, min(r.at, b.h.BaseOffset))
		if b.h.IsControl() {
			if b.h.Count > 0 {
				kind, _, err := record.ParseControl(b.raw)
				require.NoError(t, err)
				if kind == record.ControlAbort {
					delete(hidden, b.h.ProducerID)
				}
			}
		} else if !b.h.IsTransactional() || !hidden[b.h.ProducerID] {
			r.apply(b)
		}
		require.Greater(t, b.h.NextOffset(), r.at, "a reader goes forward")
		r.at = b.h.NextOffset()
	}
}

func (r *reader) apply(b batch) {
	t := r.i.t
	t.Helper()
	last := b.h.BaseOffset - 1
	for x, err := range record.Records(b.raw, nil) {
		require.NoError(t, err)
		w := r.i.written[x.Offset]
		require.Greater(t, x.Offset, last)
		last = x.Offset
		require.Equal(t, []any{w.key, w.value, w.tombstone, w.timestamp, 1, false, false},
			[]any{string(x.Key), string(x.Value), x.Value == nil, x.Timestamp, x.Headers.Len(), w.marker, w.aborted}, "offset %d", x.Offset)
		r.records++
		if r.state[w.key] = w.value; w.tombstone {
			delete(r.state, w.key)
		}
	}
}

// latest is the state of the committed records below an offset.
func (i *island) latest(below record.Offset) map[string]string {
	state := map[string]string{}
	for _, w := range i.written[:below] {
		switch {
		case w.marker || w.aborted || w.key == "":
		case w.tombstone:
			delete(state, w.key)
		default:
			state[w.key] = w.value
		}
	}
	return state
}

// sound checks everything that must hold at any time, whatever has died.
func (i *island) sound() *reader {
	i.t.Helper()
	at := record.Offset(0)
	for _, row := range i.rows() {
		require.Equal(i.t, at, row.Base, "rows are contiguous")
		at = row.Next
	}
	require.Equal(i.t, i.tiered, at)
	r := i.reader()
	r.read(i.batches(0), 1<<30)
	require.Equal(i.t, i.tiered, r.at)
	delete(r.state, "")
	require.Equal(i.t, i.latest(i.tiered), r.state)
	return r
}

// there lists what is in the tier: "k=v", "k" for a tombstone, "(abort 1)" and "(commit 1)", "|" between objects.
func (i *island) there() string {
	i.t.Helper()
	out, rows := "", i.rows()
	for _, b := range i.batches(0) {
		for len(rows) > 0 && b.h.BaseOffset >= rows[0].Next {
			rows = rows[1:]
			out += "| "
		}
		if b.h.Count == 0 {
			out += "_ "
			continue
		}
		if b.h.IsControl() {
			kind, _, err := record.ParseControl(b.raw)
			require.NoError(i.t, err)
			out += fmt.Sprintf("(%s %d) ", [...]string{"abort", "commit"}[kind], b.h.ProducerID)
			continue
		}
		for x, err := range record.Records(b.raw, nil) {
			require.NoError(i.t, err)
			out += string(x.Key)
			if x.Value != nil {
				out += "=" + string(x.Value)
			}
			out += " "
		}
	}
	if len(out) > 0 {
		out = out[:len(out)-1]
	}
	return out
}
