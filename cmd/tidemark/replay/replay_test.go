package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// log is a partition in memory, as a Source.
type log struct {
	batches []byte
	next    record.Offset
	aborted []Aborted
}

func (l *log) add(o record.BuilderOptions, values ...string) {
	o.BaseOffset = l.next
	b := record.NewBuilder(o)
	for _, v := range values {
		b.Add(int64(l.next), []byte("k"), []byte(v))
	}
	l.batches = b.AppendTo(l.batches)
	l.next += record.Offset(len(values))
}

func (l *log) marker(producer int64, kind record.ControlType) {
	b := record.ControlBatch(record.ControlOptions{BaseOffset: l.next, ProducerID: producer, Type: kind})
	l.batches = append(l.batches, b...)
	l.next++
}

func (l *log) Topic() Topic { return Topic{Name: "t", ID: "id", Partitions: 1} }
func (l *log) Close() error { return nil }
func (l *log) Bounds(context.Context, int32) (start, end record.Offset, err error) {
	return 0, l.next, nil
}
func (l *log) AtTime(_ context.Context, _ int32, ms int64) (record.Offset, bool, error) {
	return record.Offset(ms), ms < int64(l.next), nil
}

// Read gives one batch, or what a limit of many allows.
func (l *log) Read(_ context.Context, _ int32, left Range, limit int64) (Block, error) {
	b := Block{Aborted: l.aborted}
	for rest := l.batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if err != nil {
			return Block{}, err
		}
		if h, _ := record.ParseHeader(batch); h.NextOffset() > left.From && int64(len(b.Batches)) < limit {
			b.Batches = append(b.Batches, batch...)
		}
		rest = after
	}
	return b, nil
}

func transactional(producer int64) record.BuilderOptions {
	return record.BuilderOptions{Producer: &record.Producer{ID: producer}, Transactional: true}
}

// Two transactions beside a plain producer: the aborted one's records are passed over, those of the same producer's next
// one are not.
func TestOnlyCommittedRecordsAreCopied(t *testing.T) {
	l := &log{}
	l.add(record.BuilderOptions{}, "a") // 0
	l.add(transactional(7), "x", "y")   // 1, 2
	l.add(transactional(8), "b")        // 3
	l.add(record.BuilderOptions{}, "c") // 4
	l.marker(7, record.ControlAbort)    // 5
	l.marker(8, record.ControlCommit)   // 6
	l.add(transactional(7), "d", "e")   // 7, 8
	l.marker(7, record.ControlCommit)   // 9
	l.add(record.BuilderOptions{}, "f") // 10
	l.aborted = []Aborted{{ProducerID: 7, First: 1}}
	var out bytes.Buffer
	cp, err := OpenCheckpoint("", Spec{})
	require.NoError(t, err)
	p, err := Run(t.Context(), Job{Source: l, Target: ToStream(&out, &Filter{}), Checkpoint: cp})
	require.NoError(t, err)
	require.EqualValues(t, 6, p.Records)
	require.Equal(t, p.Total, p.Done)
	for i, v := range []string{"a", "b", "c", "d", "e", "f"} {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, fmt.Sprintf(`"value":%q`, v), i)
	}
}

// breaking is a Source that fails once it has given some blocks.
type breaking struct {
	*log
	left int
}

var errBroken = errors.New("broken")

func (b *breaking) Read(ctx context.Context, p int32, left Range, limit int64) (Block, error) {
	if b.left--; b.left < 0 {
		return Block{}, errBroken
	}
	return b.log.Read(ctx, p, left, 1)
}

// A replay that fails after every block, with an output that was longer than its checkpoint each time, ends with each
// line once.
func TestLinesGoOnWhereTheCheckpointIs(t *testing.T) {
	l := &log{}
	for i := range 50 {
		l.add(record.BuilderOptions{}, fmt.Sprint("v", i))
	}
	dir := t.TempDir()
	out, path := filepath.Join(dir, "out"), filepath.Join(dir, "cp")
	run := func(blocks int) error {
		target := ToLines(out, &Filter{})
		defer target.Close()
		cp, err := OpenCheckpoint(path, Spec{Source: "t"})
		require.NoError(t, err)
		defer cp.Close()
		_, err = Run(t.Context(), Job{Source: &breaking{l, blocks}, Target: target, Checkpoint: cp})
		return err
	}
	for i := range 10 {
		require.ErrorIs(t, run(3), errBroken)
		torn := fmt.Sprintf(`{"partition":0,"offset":%d`, i)
		f, err := os.OpenFile(out, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(torn)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NoError(t, run(100))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace(got), []byte("\n"))
	require.Len(t, lines, 50)
	for i, line := range lines {
		require.Contains(t, string(line), fmt.Sprintf(`"offset":%d,`, i))
	}
	require.NoError(t, run(0), "all of it has been copied")

	require.NoError(t, os.Truncate(out, 10))
	require.NoError(t, os.Remove(path))
	require.ErrorContains(t, run(100), "is there already")
}

// A range that is not there leaves no file behind, so that the command can be given again with another.
func TestLinesOfARangeThatIsNotThereMakeNoFile(t *testing.T) {
	l := &log{}
	l.add(record.BuilderOptions{}, "v")
	out := filepath.Join(t.TempDir(), "out")
	target := ToLines(out, &Filter{})
	cp, err := OpenCheckpoint(out+".checkpoint", Spec{Source: "t"})
	require.NoError(t, err)
	from := record.Offset(7)
	_, err = Run(t.Context(), Job{Source: l, Target: target, Checkpoint: cp, Span: Span{FromOffset: &from}})
	require.ErrorContains(t, err, "the range is not there")
	require.NoError(t, target.Close())
	require.NoError(t, cp.Close())
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestACheckpointIsOneReplaysAndOneProcesss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	spec := Spec{Source: "a", Target: "b", Options: "x"}
	c, err := OpenCheckpoint(path, spec)
	require.NoError(t, err)
	require.False(t, c.Resumed)
	c.begin(map[int32]Range{0: {1, 5}})
	require.NoError(t, c.save(func() error { return nil }))
	_, err = OpenCheckpoint(path, spec)
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, c.Close())

	c, err = OpenCheckpoint(path, spec)
	require.NoError(t, err)
	require.True(t, c.Resumed)
	require.Equal(t, map[int32]Range{0: {1, 5}}, c.Ranges())
	require.NoError(t, c.Close())
	_, err = OpenCheckpoint(path, Spec{Source: "c", Target: "b", Options: "y"})
	require.ErrorIs(t, err, ErrOther)
	require.ErrorContains(t, err, `is of one with source="a" x, this one has source="c" y`)

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(b, []byte(`"from":1`), []byte(`"from":2`), 1), 0o644))
	_, err = OpenCheckpoint(path, spec)
	require.ErrorContains(t, err, "is damaged")
	require.NoError(t, os.WriteFile(path, b[:20], 0o644))
	_, err = OpenCheckpoint(path, spec)
	require.ErrorContains(t, err, "is not a checkpoint")
}

// What lies in the target behind the checkpoint is passed over, record by record, also if the source or the target was
// compacted meanwhile.
func TestTailKnowsWhatWasCopied(t *testing.T) {
	rec := func(v string) record.Record { return record.Record{Key: []byte(v[:1]), Value: []byte(v)} }
	sums := func(vs ...string) (out []uint64) {
		for _, v := range vs {
			out = append(out, sumOf(rec(v)))
		}
		return out
	}
	for _, row := range []struct {
		name    string
		tail    tail
		source  []string
		behind  int64
		sending []string
	}{
		{"all is there", tail{3, sums("a1", "b1", "c1")}, []string{"a1", "b1", "c1", "d1"}, 3, []string{"d1"}},
		{"some were counted before", tail{2, sums("a1", "b1", "c1")}, []string{"b1", "c1", "d1"}, 2, []string{"d1"}},
		{"the source lost one in the middle", tail{3, sums("a1", "b1", "c1")}, []string{"a1", "c1", "d1"}, 3, []string{"d1"}},
		{"the source lost the last", tail{3, sums("a1", "b1", "c1")}, []string{"a1", "b1", "d1", "e1"}, 3, []string{"d1", "e1"}},
		{"the source lost all", tail{3, sums("a1", "b1", "c1")}, []string{"d1"}, 3, []string{"d1"}},
		{"equal ones", tail{2, sums("a1", "a1")}, []string{"a1", "a1", "a1"}, 2, []string{"a1"}},
		{"the target lost one", tail{3, sums("b1", "c1")}, []string{"a1", "b1", "c1", "d1"}, 3, []string{"d1"}},
	} {
		tl, behind := row.tail.trimmed(), int64(0)
		var sending []string
		for _, v := range row.source {
			n, is := tl.take(rec(v))
			if behind += n; !is {
				sending = append(sending, v)
			}
		}
		require.Equal(t, row.behind, behind, row.name)
		require.Equal(t, row.sending, sending, row.name)
	}
	n, is := (*tail)(nil).take(rec("a1"))
	require.Zero(t, n)
	require.False(t, is)
	require.NotEqual(t, sumOf(record.Record{}), sumOf(record.Record{Value: []byte{}}))
}

func TestRangesAreOffsetsThatAreThere(t *testing.T) {
	l := &log{}
	for range 10 {
		l.add(record.BuilderOptions{}, "v")
	}
	offset := func(n int64) *record.Offset { o := record.Offset(n); return &o }
	for _, row := range []struct {
		span Span
		want Range
		err  error
	}{
		{Span{}, Range{0, 10}, nil},
		{Span{FromOffset: offset(3), UntilOffset: offset(10)}, Range{3, 10}, nil},
		{Span{FromTime: time.UnixMilli(2), UntilTime: time.UnixMilli(7)}, Range{2, 7}, nil},
		{Span{FromTime: time.UnixMilli(70)}, Range{10, 10}, nil},
		{Span{FromOffset: offset(9), UntilTime: time.UnixMilli(7)}, Range{9, 9}, nil},
		{Span{FromOffset: offset(11)}, Range{}, ErrGone},
		{Span{Partitions: []int32{1}}, Range{}, ErrGone},
	} {
		got, err := Resolve(t.Context(), l, row.span)
		require.ErrorIs(t, err, row.err)
		if row.err == nil {
			require.Equal(t, map[int32]Range{0: row.want}, got)
		}
	}
}

func TestPaceIsOverAllPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := &pacer{rate: 1000}, time.Now()
		done := make(chan error)
		for range 4 {
			go func() { done <- p.wait(t.Context(), 500) }()
		}
		for range 4 {
			require.NoError(t, <-done)
		}
		require.Equal(t, 2*time.Second, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.wait(ctx, 1<<30), context.Canceled)
	})
	require.NoError(t, (&pacer{}).wait(t.Context(), 1<<30))
}
