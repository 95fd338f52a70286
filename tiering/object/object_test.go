package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
	"tidemark/record/producer"
)

var update = flag.Bool("update", false, "write the golden files")

// story is the object of the golden file: every kind of batch and block.
func story(t testing.TB) *Built {
	r := newRun(100)
	p := &record.Producer{ID: 9, Epoch: 1}
	r.plain(3, 10).keyed(nil, []byte("a"), []byte("1"), []byte("b"), nil)
	r.epoch = 2
	r.keyed(p, []byte("a"), []byte("aborted")).marker(9, record.ControlAbort).plain(2, 5)
	r.aborted.Add(producer.Aborted{ProducerID: 9, First: 105, Last: 106, LastStable: 107})
	return r.build(t, func(s *Spec) { s.Compacted = true; s.CleanSince = 5; s.Generation = 1 })
}

func TestGoldenVersion1(t *testing.T) {
	got := whole(t, story(t))
	const name = "testdata/object-v1.golden"
	if *update {
		require.NoError(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want, got, "objects in buckets have the old bytes: a new layout is a new version")
}

func TestFooterMakesTheRowAgain(t *testing.T) {
	b := story(t)
	raw := whole(t, b)
	n, err := FooterSize(raw[len(raw)-TrailerSize:])
	require.NoError(t, err)
	f, err := ParseFooter(raw[int64(len(raw))-n:], int64(len(raw)))
	require.NoError(t, err)
	require.Equal(t, b.Footer, *f)
	require.Equal(t, record.Offset(100), f.Base)
	require.Equal(t, record.Offset(109), f.Next)
	require.Equal(t, int64(9), f.Records)
	require.Equal(t, "events", f.TopicName)
	require.Equal(t, sha256.Sum256(raw), b.SHA256)
	require.Equal(t, crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)), b.CRC32C)
	require.Equal(t, "segments/c1000000000000000000000000000000/70000000000000000000000000000000/3/00000000000000000100/0123456789abcdef0123456789abcdef", f.Key())
}

func TestParsersRefuseEveryCutAndFlip(t *testing.T) {
	b := story(t)
	tail := b.Tail()
	for i := range tail {
		bad := bytes.Clone(tail)
		bad[i] ^= 0x10
		_, err := ParseTail(bad, b.TailPosition, b.ObjectBytes)
		require.Error(t, err, "byte %d", i)
		_, err = ParseTail(tail[i+1:], b.TailPosition+int64(i)+1, b.ObjectBytes)
		require.Error(t, err, "cut %d", i)
	}
	_, err := ParseTail(tail, b.TailPosition, b.ObjectBytes+1)
	require.ErrorIs(t, err, ErrFormat)
}

// TestA8_FlippedByteIsNotBuilt: whatever bit of the batches flips, nothing is built from them, but for the
// leader epoch of the last batches, which nothing covers and which the offsets do not contradict.
func TestA8_FlippedByteIsNotBuilt(t *testing.T) {
	r := newRun(10).plain(3, 20).plain(2, 30)
	second := int(r.at[1])
	for i := range r.data {
		if i >= 12 && i < 16 || i >= second+12 && i < second+16 {
			continue
		}
		bad := bytes.Clone(r.data)
		bad[i] ^= 1
		_, err := Build(context.Background(), r.spec(), bytes.NewReader(bad), int64(len(bad)))
		require.Error(t, err, "byte %d", i)
		require.ErrorIs(t, err, ErrBatch, "byte %d", i)
	}
	_, err := Build(context.Background(), r.spec(), bytes.NewReader(r.data), int64(len(r.data))-1)
	require.ErrorIs(t, err, ErrBatch, "a torn tail")
	_, err = Build(context.Background(), r.spec(), bytes.NewReader(r.data[:len(r.data)-5]), int64(len(r.data)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a file that shrank")
}

// TestC7_SpanOverflow: offsets 0 and 2^31+9 cannot share an object; the second begins the next one and a
// look-up between them goes there.
func TestC7_SpanOverflow(t *testing.T) {
	r := newRun(0).plain(1, 5)
	r.next = 2147483657
	r.plain(1, 5)
	first := r.build(t, func(s *Spec) { s.Compacted = true })
	require.Equal(t, record.Offset(0), first.Base)
	require.Equal(t, record.Offset(2147483657), first.Next, "the hole belongs to the first object")
	require.Equal(t, r.at[1], first.DataBytes)
	require.Equal(t, sha256.Sum256(whole(t, first)), first.SHA256)
}

func TestMaxBytesEndsTheObjectAtABatch(t *testing.T) {
	r := newRun(0).plain(10, 100).plain(10, 100).plain(10, 100)
	b := r.build(t, func(s *Spec) { s.MaxBytes = r.at[2] })
	require.Equal(t, r.at[2], b.DataBytes)
	require.Equal(t, record.Offset(20), b.Next)
	b = r.build(t, func(s *Spec) { s.MaxBytes = 1 })
	require.Equal(t, record.Offset(10), b.Next, "the first batch always fits")
}

// TestH9_AbortedRecordsEnterNoDigest and are listed wherever their marker is.
func TestH9_AbortedRecordsEnterNoDigest(t *testing.T) {
	p := &record.Producer{ID: 7}
	r := newRun(0).keyed(nil, []byte("k"), []byte("v1"))
	r.keyed(p, []byte("k"), []byte("v2"))
	r.aborted.Add(producer.Aborted{ProducerID: 7, First: 1, Last: 31, LastStable: 32}) // the marker is in a later object
	r.aborted.Add(producer.Aborted{ProducerID: 8, First: 40, Last: 50, LastStable: 51})
	b := r.build(t, func(s *Spec) { s.Compacted = true })
	block, ok := b.Block(BlockDigests)
	require.True(t, ok)
	digests, err := ParseDigests(whole(t, b)[block.Position : block.Position+block.Length])
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("k"))
	require.Equal(t, []Digest{{Key: [16]byte(sum[:16]), Delta: 0}}, digests)
	require.Equal(t, []producer.Aborted{r.aborted[0]}, tailOf(t, b).Aborted(nil, 1, 2))
	require.Empty(t, tailOf(t, b).Aborted(nil, 0, 1))
	first, open := b.Producers.FirstOpen()
	require.True(t, open, "the transaction is open at the object's end")
	require.Equal(t, record.Offset(1), first)
}

// TestH31_Digests: the last committed record of each key, with a tombstone bit; records without a key and
// markers are passed over.
func TestH31_Digests(t *testing.T) {
	r := newRun(1000).keyed(nil, []byte("a"), []byte("1"), []byte("b"), []byte("2"), []byte("a"), nil, nil, []byte("no key"))
	r.keyed(&record.Producer{ID: 1}, []byte("c"), []byte("committed")).marker(1, record.ControlCommit)
	b := r.build(t, func(s *Spec) { s.Compacted = true })
	block, _ := b.Block(BlockDigests)
	digests, err := ParseDigests(whole(t, b)[block.Position : block.Position+block.Length])
	require.NoError(t, err)
	got := map[[16]byte]Digest{}
	for _, d := range digests {
		got[d.Key] = d
	}
	key := func(s string) [16]byte { sum := sha256.Sum256([]byte(s)); return [16]byte(sum[:16]) }
	require.Len(t, got, 3)
	require.Equal(t, Digest{key("a"), 2, true}, got[key("a")])
	require.Equal(t, Digest{key("b"), 1, false}, got[key("b")])
	require.Equal(t, Digest{key("c"), 4, false}, got[key("c")])
	_, ok := r.build(t, nil).Block(BlockDigests)
	require.False(t, ok, "topics that are not compacted have none")
}

// TestR2_StateContinuesThePreviousObject: building two objects one after the other gives the state of one.
func TestR2_StateContinuesThePreviousObject(t *testing.T) {
	p := &record.Producer{ID: 5}
	one := newRun(0).of(p, false, 3, 10)
	one.epoch = 4
	one.of(&record.Producer{ID: 6, Epoch: 2}, true, 2, 10)
	two := newRun(one.next)
	two.epoch = 4
	two.marker(6, record.ControlCommit)
	two.epoch = 6
	two.of(&record.Producer{ID: 5, BaseSequence: 3}, false, 1, 1)

	all := newRun(0)
	for _, r := range []*run{one, two} {
		for i, h := range r.batches {
			all.add(r.data[r.at[i] : r.at[i]+int64(h.Size())])
		}
	}
	first := one.build(t, nil)
	second := two.build(t, func(s *Spec) { s.Epochs, s.Producers = first.Epochs, first.Producers })
	at := all.build(t, nil)
	require.Equal(t, at.Producers.AppendTo(nil), second.Producers.AppendTo(nil))
	require.Equal(t, at.Epochs.Entries(), second.Epochs.Entries())
	raw := whole(t, second)
	block, _ := second.ProducerBlock()
	state, err := second.ParseProducers(raw[block.Position : block.Position+block.Length])
	require.NoError(t, err)
	require.Equal(t, at.Producers.AppendTo(nil), state.AppendTo(nil))
	_, open := state.FirstOpen()
	require.False(t, open)
}

// TestP7_IdleProducersAreLeftOut by the broker's clock, not by their records' timestamps.
func TestP7_IdleProducersAreLeftOut(t *testing.T) {
	old := producer.New(0, 0)
	old.Apply(record.Header{ProducerID: 1, Count: 1}, nil, 1_000)
	r := newRun(1).of(&record.Producer{ID: 2}, false, 1, 1)
	b := r.build(t, func(s *Spec) { s.Producers, s.ProducerIdle = old, 10_000 })
	require.Equal(t, 1, b.Producers.Len())
	require.Equal(t, 1, old.Len(), "the previous state is not changed")
}

// TestP5_TailIsSmall: a full object's tail group fits into 256 KiB.
func TestP5_TailIsSmall(t *testing.T) {
	r := newRun(0)
	for len(r.data) < 8<<20 {
		r.plain(100, 100)
	}
	require.Less(t, len(r.build(t, nil).Tail()), 256<<10/8)
}

// TestBuildAndFind holds the parsed tail against a plain walk of the same batches.
func TestBuildAndFind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRun(record.Offset(rapid.Int64Range(0, 1<<40).Draw(rt, "base")))
		for range rapid.IntRange(1, 30).Draw(rt, "batches") {
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				r.next += record.Offset(rapid.IntRange(1, 50).Draw(rt, "hole"))
			case 1:
				r.epoch++
			case 2:
				r.codec = record.Codec(rapid.IntRange(0, 4).Draw(rt, "codec"))
			}
			r.clock += int64(rapid.IntRange(-500, 500).Draw(rt, "jump"))
			r.plain(rapid.IntRange(1, 20).Draw(rt, "n"), rapid.SampledFrom([]int{1, 100, 5_000, 30_000}).Draw(rt, "size"))
		}
		r.base = r.batches[0].BaseOffset
		b := r.build(t, nil)
		raw := whole(t, b)
		require.Equal(rt, sha256.Sum256(raw), b.SHA256)
		require.Equal(rt, r.data, raw[:len(r.data)])
		tail := tailOf(t, b)
		checkLocate(rt, r, tail)
		checkChunks(rt, r, tail, int64(rapid.SampledFrom([]int{1, 70_000, 200_000, 4 << 20}).Draw(rt, "chunk")))
		checkTimes(rt, r, tail)
	})
}

func checkLocate(rt *rapid.T, r *run, tail *Tail) {
	for i, h := range r.batches {
		for _, o := range []record.Offset{h.BaseOffset, h.LastOffset()} {
			at := tail.Locate(o)
			require.LessOrEqual(rt, at, r.at[i])
			require.Contains(rt, r.at, at, "a position is a batch's")
			require.Less(rt, r.at[i]-at, int64(IndexEvery))
		}
	}
}

func checkChunks(rt *rapid.T, r *run, tail *Tail, size int64) {
	end, last := int64(0), int64(-1)
	for end < tail.DataBytes {
		number, span := tail.Chunk(end, size)
		require.Equal(rt, end, span.From, "chunks follow each other")
		require.Greater(rt, number, last)
		require.Contains(rt, append(r.at, tail.DataBytes), span.To)
		for _, at := range r.at {
			if at >= span.From && at < span.To {
				n, s := tail.Chunk(at, size)
				require.Equal(rt, number, n)
				require.Equal(rt, span, s)
			}
		}
		end, last = span.To, number
	}
	require.Equal(rt, tail.DataBytes, end)
}

func checkTimes(rt *rapid.T, r *run, tail *Tail) {
	for _, ts := range []int64{0, r.clock - 300, r.clock, r.clock + 1, tail.MaxTimestamp, tail.MaxTimestamp + 1} {
		first := -1
		for i, h := range r.batches {
			if h.MaxTimestamp >= ts {
				first = i
				break
			}
		}
		span, ok := tail.LocateTime(ts, r.base)
		require.Equal(rt, first >= 0, ok)
		if ok {
			require.LessOrEqual(rt, span.From, r.at[first])
			require.Greater(rt, span.To, r.at[first])
		}
	}
}

func TestKeysAreSafeEverywhere(t *testing.T) {
	k := Key(ID{0xff}, ID{1}, 0, 5, NewAttempt())
	for _, c := range k {
		require.True(t, strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789._-/", c))
	}
	require.NotEqual(t, NewAttempt(), NewAttempt())
	require.True(t, strings.HasPrefix(k, "segments/"))
}

func FuzzParseTail(f *testing.F) {
	b := story(f)
	f.Add(b.Tail(), b.TailPosition, b.ObjectBytes)
	f.Fuzz(func(t *testing.T, tail []byte, position, size int64) {
		got, err := ParseTail(tail, position, size)
		if err != nil {
			return
		}
		got.Locate(got.Base)
		got.Chunk(0, 1<<20)
		got.Chunk(got.DataBytes-1, 1)
		got.LocateTime(0, got.Next)
		got.Groups(got.Base, got.Next)
	})
}

func FuzzParseDigests(f *testing.F) {
	f.Add(make([]byte, 24))
	f.Fuzz(func(t *testing.T, block []byte) {
		if d, err := ParseDigests(block); err == nil {
			require.Len(t, block, 4+len(d)*DigestSize)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	for name, codec := range map[string]record.Codec{"none": record.CodecNone, "lz4": record.CodecLZ4} {
		b.Run(name, func(b *testing.B) {
			r := newRun(0)
			r.codec = codec
			for len(r.data) < 16<<20 {
				r.plain(16, 1000)
			}
			b.SetBytes(int64(len(r.data)))
			b.ReportAllocs()
			for b.Loop() {
				r.build(b, nil)
			}
		})
	}
}
