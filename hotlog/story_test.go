package hotlog

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk"
	"tidemark/record"
)

// clockAt is a clock that stands still until it is moved.
type clockAt struct{ wall time.Time }

func (c *clockAt) clock() Clock {
	began := c.wall
	return Clock{
		Wall: func() time.Time { return c.wall },
		Mono: func() time.Duration { return time.Second + c.wall.Sub(began) },
	}
}

func testOptions(t testing.TB) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "00112233445566778899aabbccddeeff-0"), Config: DefaultConfig()}
}

// small makes segments of about ten one-record batches.
func small(o Options) Options {
	o.Config.SegmentBytes = 10 * int64(len(plain(1, 0)))
	o.Config.IndexIntervalBytes = 100
	return o
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// kill ends a log as SIGKILL would: nothing is flushed, the files are as they are.
func kill(l *Log) {
	l.work.Wait()
	l.closing.Do(func() {
		for _, s := range *l.segs.Load() {
			s.retire(l.files)
		}
	})
}

const day = int64(1_700_000_000_000)

// plain is a batch of n records with times from day+ts on.
func plain(n int, ts int64) []byte {
	b := record.NewBuilder(record.BuilderOptions{})
	for i := range n {
		b.Add(day+ts+int64(i), []byte("key"), []byte("value"))
	}
	return b.Build()
}

// from is a batch of n records of an idempotent producer.
func from(id int64, epoch int16, seq int32, n int) []byte {
	return produced(record.BuilderOptions{Producer: &record.Producer{ID: id, Epoch: epoch, BaseSequence: seq}}, n)
}

// inTxn is the same inside a transaction.
func inTxn(id int64, epoch int16, seq int32, n int) []byte {
	return produced(record.BuilderOptions{
		Transactional: true, Producer: &record.Producer{ID: id, Epoch: epoch, BaseSequence: seq},
	}, n)
}

func produced(o record.BuilderOptions, n int) []byte {
	b := record.NewBuilder(o)
	for i := range n {
		b.Add(day+int64(i), []byte("key"), fmt.Appendf(nil, "value %d", i))
	}
	return b.Build()
}

func marker(id int64, epoch int16, t record.ControlType) []byte {
	return record.ControlBatch(record.ControlOptions{Type: t, ProducerID: id, ProducerEpoch: epoch, Timestamp: day})
}

// request judges the batches as a produce does.
func request(t testing.TB, batches ...[]byte) AppendRequest {
	t.Helper()
	req := AppendRequest{Epoch: 1, AppendTime: day}
	for _, b := range batches {
		s, err := record.Judge(b, record.Rules{AllowEmpty: true})
		require.NoError(t, err)
		req.Batches = append(req.Batches, b...)
		req.Summaries = append(req.Summaries, s)
	}
	return req
}

func add(t testing.TB, l *Log, batches ...[]byte) Appended {
	t.Helper()
	out, err := l.Append(request(t, batches...))
	require.NoError(t, err)
	return out
}

// fill appends one-record batches until the log ends at end.
func fill(t testing.TB, l *Log, end record.Offset) {
	t.Helper()
	for at := l.Bounds().End; at < end; at++ {
		add(t, l, plain(1, int64(at)))
	}
}

// read returns the batches of [from, bound) over all segments, each checked.
func read(t testing.TB, l *Log, from, bound record.Offset) []record.Header {
	t.Helper()
	var out []record.Header
	for {
		s, err := l.Read(from, bound, 1<<20, true)
		require.NoError(t, err)
		if s.Len == 0 {
			return out
		}
		out = append(out, headersOf(t, s)...)
		require.Greater(t, s.Next, from)
		from = s.Next
		s.Release()
	}
}

func bytesOf(t testing.TB, s *Section) []byte {
	t.Helper()
	b := make([]byte, s.Len)
	_, err := s.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

func headersOf(t testing.TB, s *Section) []record.Header {
	t.Helper()
	var out []record.Header
	for rest := bytesOf(t, s); len(rest) > 0; {
		batch, after, err := record.Split(rest)
		require.NoError(t, err)
		require.NoError(t, record.CheckCRC(batch))
		h, err := record.ParseHeader(batch)
		require.NoError(t, err)
		out, rest = append(out, h), after
	}
	require.NotEmpty(t, out)
	require.Equal(t, s.First, out[0].BaseOffset)
	require.Equal(t, s.Next, out[len(out)-1].NextOffset())
	return out
}

// spans are the offsets of batches as text: "0-4 5-5".
func spans(headers []record.Header) string {
	text := ""
	for i, h := range headers {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%d-%d", h.BaseOffset, h.LastOffset())
	}
	return text
}

func sealReset(p resetPlan) []byte { return disk.Seal(resetKind, p.encode()) }
