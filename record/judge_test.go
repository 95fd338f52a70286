package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var codecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// produceRules are those of a leader for a client.
var produceRules = Rules{Client: true, Dense: true}

// publishRules are those of a follower and of a publish.
var publishRules = Rules{AllowEmpty: true}

// numbered builds a batch of n records "k<i>" = value at offsets from 0.
func numbered(codec Codec, n, valueSize int) []byte {
	b := NewBuilder(BuilderOptions{Codec: codec})
	value := make([]byte, valueSize)
	for i := range n {
		for j := range value {
			value[j] = "abcdefgh"[rand.IntN(8)]
		}
		b.Add(1_700_000_000_000+int64(i), fmt.Appendf(nil, "k%d", i), value)
	}
	return b.Build()
}

// edit changes a batch and makes its CRC fit again.
func edit(batch []byte, change func(b []byte)) []byte {
	b := append([]byte(nil), batch...)
	change(b)
	stampCRC(b)
	return b
}

func put32(pos int, v int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[pos:], uint32(v)) }
}

// withBody is a batch of count records whose body is raw bytes.
func withBody(codec Codec, count int32, body []byte) []byte {
	h := Header{
		Magic: magicV2, Length: int32(HeaderSize - sizePrefix + len(body)), Attributes: int16(codec),
		LastOffsetDelta: count - 1, Count: count, ProducerID: NoProducerID, ProducerEpoch: -1, BaseSequence: NoSequence,
	}
	b := append(h.appendTo(nil), body...)
	stampCRC(b)
	return b
}

func mustCompress(t testing.TB, codec Codec, body []byte) []byte {
	t.Helper()
	out, err := Compress(nil, body, codec)
	require.NoError(t, err)
	return out
}

// body returns the uncompressed records of a batch.
func body(t testing.TB, batch []byte) []byte {
	t.Helper()
	_, b, err := bodyOf(batch, nil)
	require.NoError(t, err)
	return b
}

func TestJudgeAcceptsEveryCodec(t *testing.T) {
	for _, codec := range codecs {
		for _, n := range []int{1, 2, 1000} {
			b := numbered(codec, n, 100)
			s, err := Judge(b, Rules{Client: true, Dense: true, KeyRequired: true, MaxBytes: len(b)})
			require.NoError(t, err, "%s, %d records", codec, n)
			require.Equal(t, n, s.Records)
			require.EqualValues(t, 1_700_000_000_000, s.MinTimestamp)
			require.EqualValues(t, 1_700_000_000_000+n-1, s.MaxTimestamp)
			require.EqualValues(t, len(body(t, b)), s.UncompressedBytes)
		}
	}
}

// TestH19_WhatProduceAcceptsNothingRefusesLater: a batch with a good CRC whose
// records are not what the header says wedged the tier at publish; it must be
// refused at produce, by the same function, and for the same reasons.
func TestH19_WhatProduceAcceptsNothingRefusesLater(t *testing.T) {
	three := func(c Codec) []byte { return numbered(c, 3, 50) }
	type row struct {
		story string
		batch []byte
		want  error
	}
	var rows []row
	for _, c := range codecs {
		rows = append(rows,
			row{"header counts five, body holds three: " + c.String(),
				edit(three(c), func(b []byte) { put32(posCount, 5)(b); put32(posLastDelta, 4)(b) }), ErrInvalidRecord},
			row{"header counts two, body holds three: " + c.String(),
				edit(three(c), func(b []byte) { put32(posCount, 2)(b); put32(posLastDelta, 1)(b) }), ErrInvalidRecord},
			row{"no records: " + c.String(),
				edit(three(c), func(b []byte) { put32(posCount, 0)(b) }), ErrInvalidRecord},
			row{"negative count: " + c.String(), edit(three(c), put32(posCount, -1)), ErrInvalidRecord},
			row{"negative last offset delta: " + c.String(), edit(three(c), put32(posLastDelta, -1)), ErrInvalidRecord},
			row{"bytes after the last record: " + c.String(),
				withBody(c, 3, mustCompress(t, c, append(body(t, three(c)), 0))), ErrInvalidRecord},
			row{"last record cut: " + c.String(),
				withBody(c, 3, mustCompress(t, c, body(t, three(c))[:150])), ErrInvalidRecord},
			row{"one bit flipped: " + c.String(), flip(three(c), 70), ErrCorrupt},
			row{"bytes after the batch: " + c.String(), append(three(c), 1), ErrCorrupt},
			row{"batch cut: " + c.String(), three(c)[:80], ErrTruncated},
		)
		if c != CodecNone {
			rows = append(rows, row{"rubbish for a body: " + c.String(),
				withBody(c, 5, []byte("this is no compressed stream of any kind")), ErrInvalidRecord})
		}
	}
	for unknown := CodecZstd + 1; unknown < 8; unknown++ {
		rows = append(rows, row{"codec that does not exist",
			edit(three(CodecNone), func(b []byte) { b[posAttributes+1] = byte(unknown) }), ErrCodec})
	}
	for _, r := range rows {
		t.Run(r.story, func(t *testing.T) {
			_, err := Judge(r.batch, produceRules)
			require.ErrorIs(t, err, r.want)
			_, err = Judge(r.batch, publishRules)
			require.ErrorIs(t, err, r.want, "the publisher must be of the same opinion")
		})
	}
}

func flip(b []byte, at int) []byte {
	b[at] ^= 1
	return b
}

func TestH19_KeysOnCompactedTopics(t *testing.T) {
	for _, c := range codecs {
		b := NewBuilder(BuilderOptions{Codec: c})
		b.Add(1, []byte("k"), []byte("v"))
		b.Add(1, nil, []byte("v"))
		batch := b.Build()
		_, err := Judge(batch, Rules{KeyRequired: true})
		require.ErrorIs(t, err, ErrInvalidRecord)
		_, err = Judge(batch, Rules{})
		require.NoError(t, err)
	}
	marker := ControlBatch(ControlOptions{ProducerID: 1})
	_, err := Judge(marker, Rules{KeyRequired: true})
	require.NoError(t, err)
}

func TestJudgeMalformedRecords(t *testing.T) {
	rec := func(fields ...int64) []byte { // varints, the first two bytes being length and attributes
		var b []byte
		for _, f := range fields {
			b = binary.AppendVarint(b, f)
		}
		b = append([]byte{0}, b...)
		return append(binary.AppendVarint(nil, int64(len(b))), b...)
	}
	good := rec(0, 0, -1, -1, 0)
	for _, r := range []struct {
		story string
		body  []byte
	}{
		{"length zero", []byte{0, 0, 0, 0, 0, 0, 0}},
		{"length negative", []byte{1, 0, 0, 0, 1, 1, 0}},
		{"length beyond the end", []byte{100, 0, 0, 0, 1, 1, 0}},
		{"length over int32", append(binary.AppendVarint(nil, math.MaxInt64), good[1:]...)},
		{"varint without end", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}},
		{"offset delta one where none may be", rec(0, 1, -1, -1, 0)},
		{"offset delta negative", rec(0, -1, -1, -1, 0)},
		{"offset delta over int32 (C7)", rec(0, math.MaxInt32+1, -1, -1, 0)},
		{"key length -2", rec(0, 0, -2, -1, 0)},
		{"key past the record", rec(0, 0, 50, -1, 0)},
		{"value past the record", rec(0, 0, -1, 50, 0)},
		{"value length -2", rec(0, 0, -1, -2, 0)},
		{"headers negative", rec(0, 0, -1, -1, -1)},
		{"headers that are not there", rec(0, 0, -1, -1, 3)},
		{"header with a null key", rec(0, 0, -1, -1, 1, -1, -1)},
		{"field after the last header", rec(0, 0, -1, -1, 0, 0)},
		{"timestamp overflows", rec(math.MinInt64, 0, -1, -1, 0)},
	} {
		t.Run(r.story, func(t *testing.T) {
			for _, c := range codecs {
				batch := withBody(c, 1, mustCompress(t, c, r.body))
				binary.BigEndian.PutUint64(batch[posBaseTimestamp:], 1<<63) // so that a negative delta overflows
				stampCRC(batch)
				_, err := Judge(batch, produceRules)
				require.ErrorIs(t, err, ErrInvalidRecord, c.String())
			}
		})
	}
	_, err := Judge(withBody(CodecNone, 1, good), produceRules)
	require.NoError(t, err, "the rows must differ from a good record in one thing")
}

func TestJudgeClientRules(t *testing.T) {
	build := func(o BuilderOptions) []byte {
		b := NewBuilder(o)
		b.Add(1, []byte("k"), []byte("v"))
		return b.Build()
	}
	for _, r := range []struct {
		story string
		batch []byte
		want  error
	}{
		{"control batch", ControlBatch(ControlOptions{ProducerID: 3}), ErrInvalidRecord},
		{"base offset", build(BuilderOptions{BaseOffset: 7}), ErrInvalidRecord},
		{"producer without sequence", build(BuilderOptions{Producer: &Producer{ID: 3, BaseSequence: -1}}), ErrInvalidRecord},
		{"transaction without producer", build(BuilderOptions{Transactional: true}), ErrInvalidRecord},
		{"append time", build(BuilderOptions{LogAppendTime: true, MaxTimestamp: 9}), ErrInvalidTimestamp},
		{"delete horizon", build(BuilderOptions{DeleteHorizon: new(int64)}), ErrInvalidRecord},
	} {
		_, err := Judge(r.batch, produceRules)
		require.ErrorIs(t, err, r.want, r.story)
		_, err = Judge(r.batch, publishRules)
		require.NoError(t, err, "%s: a broker may write it", r.story)
	}
}

func TestJudgeSize(t *testing.T) {
	b := numbered(CodecNone, 3, 50)
	_, err := Judge(b, Rules{MaxBytes: len(b) - 1})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Judge(flip(b, 70), Rules{MaxBytes: len(b) - 1})
	require.ErrorIs(t, err, ErrTooLarge, "size before CRC: an oversized batch costs nothing")
}

func TestJudgeControlRecords(t *testing.T) {
	control := func(key, value []byte, pid int64) []byte {
		b := NewBuilder(BuilderOptions{Control: true, Transactional: true, Producer: &Producer{ID: pid, BaseSequence: -1}})
		b.Add(1, key, value)
		return b.Build()
	}
	value := []byte{0, 0, 0, 0, 0, 7}
	for _, r := range []struct {
		story      string
		key, value []byte
		pid        int64
		ok         bool
	}{
		{"abort", []byte{0, 0, 0, 0}, value, 1, true},
		{"commit", []byte{0, 0, 0, 1}, value, 1, true},
		{"a newer version, with more in it", []byte{0, 1, 0, 1, 9, 9, 9, 9, 9, 9}, append([]byte{0, 1}, make([]byte, 30)...), 1, true},
		{"KRaft's leader change: stored, not read", []byte{0, 0, 0, 2}, []byte{1}, -1, true},
		{"no key", nil, value, 1, false},
		{"short key", []byte{0, 0, 0}, value, 1, false},
		{"negative version", []byte{0xff, 0, 0, 0}, value, 1, false},
		{"no value", []byte{0, 0, 0, 1}, nil, 1, false},
		{"short value", []byte{0, 0, 0, 1}, value[:5], 1, false},
		{"negative value version", []byte{0, 0, 0, 1}, []byte{0xff, 0, 0, 0, 0, 0}, 1, false},
		{"nobody's transaction", []byte{0, 0, 0, 1}, value, -1, false},
	} {
		t.Run(r.story, func(t *testing.T) {
			_, err := Judge(control(r.key, r.value, r.pid), publishRules)
			if r.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrInvalidRecord)
			}
		})
	}
}

// TestD8_Timestamps: what a record without time, at the epoch and far ahead says of
// its batch; and that the broker's time covers all of them.
func TestD8_Timestamps(t *testing.T) {
	const future = 4_000_000_000_000
	for _, r := range []struct {
		times    []int64
		min, max int64
	}{
		{[]int64{-1}, -1, -1},
		{[]int64{0}, 0, 0},
		{[]int64{-1, 0}, -1, 0},
		{[]int64{5, future, 3}, 3, future},
		{[]int64{-7}, -7, NoTimestamp}, // as Kafka: the largest begins at "none"
	} {
		for _, c := range codecs {
			b := NewBuilder(BuilderOptions{Codec: c})
			for _, ts := range r.times {
				b.Add(ts, nil, nil)
			}
			batch := b.Build()
			s, err := Judge(batch, produceRules)
			require.NoError(t, err)
			require.Equal(t, r.min, s.MinTimestamp)
			require.Equal(t, r.max, s.MaxTimestamp)
			require.Equal(t, r.max, s.Header.MaxTimestamp)

			StampAppendTime(batch, 1234)
			s, err = Judge(batch, publishRules)
			require.NoError(t, err)
			require.True(t, s.Header.LogAppendTime())
			require.EqualValues(t, 1234, s.MinTimestamp)
			require.EqualValues(t, 1234, s.MaxTimestamp)
			for rec, err := range Records(batch, nil) {
				require.NoError(t, err)
				require.EqualValues(t, 1234, rec.Timestamp)
			}
		}
	}
}

// TestJudgeReportsALyingMaxTimestamp: Kafka overwrites it; so Judge reports the
// truth, and after the repair nobody finds anything to say.
func TestJudgeReportsALyingMaxTimestamp(t *testing.T) {
	b := edit(numbered(CodecZstd, 3, 10), func(b []byte) { binary.BigEndian.PutUint64(b[posMaxTimestamp:], 5) })
	s, err := Judge(b, produceRules)
	require.NoError(t, err)
	require.EqualValues(t, 5, s.Header.MaxTimestamp)
	require.EqualValues(t, 1_700_000_000_002, s.MaxTimestamp)
	StampMaxTimestamp(b, s.MaxTimestamp)
	s, err = Judge(b, publishRules)
	require.NoError(t, err)
	require.Equal(t, s.Header.MaxTimestamp, s.MaxTimestamp)
}

// TestH9_Holes: compaction leaves holes and empty batches; the header keeps its
// range, and only a client may not write such a batch.
func TestH9_Holes(t *testing.T) {
	full := NewBuilder(BuilderOptions{BaseOffset: 38, LeaderEpoch: 4, Codec: CodecLZ4,
		Producer: &Producer{ID: 9, Epoch: 2, BaseSequence: 100}})
	for i := range 6 {
		full.Add(int64(1000+i), []byte{byte(i)}, []byte("v"))
	}
	h, err := ParseHeader(full.Build())
	require.NoError(t, err)

	left := NewBuilder(OptionsOf(h))
	for _, o := range []Offset{38, 40, 42} {
		require.NoError(t, left.Append(Record{Offset: o, Timestamp: 1000 + int64(o-38), Key: []byte{byte(o)}}))
	}
	batch := left.Build()
	s, err := Judge(batch, publishRules)
	require.NoError(t, err)
	require.Equal(t, 3, s.Records)
	require.EqualValues(t, 43, s.Header.LastOffset())
	require.EqualValues(t, 105, s.Header.LastSequence())
	_, err = Judge(batch, Rules{Dense: true})
	require.ErrorIs(t, err, ErrInvalidRecord)

	var got []Offset
	for r, err := range Records(batch, nil) {
		require.NoError(t, err)
		got = append(got, r.Offset)
	}
	require.Equal(t, []Offset{38, 40, 42}, got)

	empty := NewBuilder(OptionsOf(h)).Build()
	require.Len(t, empty, HeaderSize)
	s, err = Judge(empty, publishRules)
	require.NoError(t, err)
	require.Zero(t, s.Records)
	require.EqualValues(t, 44, s.Header.NextOffset())
	require.EqualValues(t, 1005, s.MaxTimestamp, "an empty batch keeps its time")
	require.EqualValues(t, 105, s.Header.LastSequence())
	_, err = Judge(empty, produceRules)
	require.ErrorIs(t, err, ErrInvalidRecord)
	for range Records(empty, nil) {
		t.Fatal("a record in an empty batch")
	}
}

func TestJudgeStreamsLargeRecords(t *testing.T) {
	for _, c := range codecs {
		b := NewBuilder(BuilderOptions{Codec: c})
		b.Add(1, make([]byte, 3*windowSize+1), make([]byte, 2*windowSize), HeaderField{[]byte("h"), make([]byte, windowSize)})
		b.Add(2, []byte("k"), make([]byte, windowSize-5))
		b.Add(3, []byte("k"), make([]byte, 9))
		s, err := Judge(b.Build(), produceRules)
		require.NoError(t, err, c.String())
		require.Equal(t, 3, s.Records)
	}
}

// TestJudgeDoesNotAllocate: once the pools are warm. The race detector makes pools
// forget at random.
func TestJudgeDoesNotAllocate(t *testing.T) {
	for _, c := range codecs {
		if raceDetector && c != CodecNone {
			continue
		}
		b := numbered(c, 200, 100)
		n := testing.AllocsPerRun(200, func() {
			if _, err := Judge(b, produceRules); err != nil {
				t.Error(err)
			}
		})
		require.Zero(t, n, c.String())
	}
}
