package record

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// plain is a record as a test compares it: copied, headers decoded.
type plain struct {
	Offset     int64
	Timestamp  int64
	Key, Value []byte
	Headers    []plainHeader
}

type plainHeader struct {
	Key   string
	Value []byte
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func plainOf(r Record) plain {
	p := plain{Offset: int64(r.Offset), Timestamp: r.Timestamp, Key: clone(r.Key), Value: clone(r.Value)}
	for h := range r.Headers.All() {
		p.Headers = append(p.Headers, plainHeader{string(h.Key), clone(h.Value)})
	}
	return p
}

func readAll(t testing.TB, batch []byte) []plain {
	t.Helper()
	var out []plain
	var scratch Scratch
	for r, err := range Records(batch, &scratch) {
		require.NoError(t, err)
		out = append(out, plainOf(r))
	}
	return out
}

// franzRead reads a batch with franz-go's client code.
func franzRead(t testing.TB, batch []byte) []plain {
	t.Helper()
	part := kmsg.NewFetchResponseTopicPartition()
	part.HighWatermark, part.LastStableOffset = 1<<62, 1<<62
	part.RecordBatches = batch
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true},
		&part, kgo.DefaultDecompressor(), nil)
	require.NoError(t, fp.Err)
	var out []plain
	for _, r := range fp.Records {
		p := plain{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: clone(r.Key), Value: clone(r.Value)}
		for _, h := range r.Headers {
			p.Headers = append(p.Headers, plainHeader{h.Key, clone(h.Value)})
		}
		out = append(out, p)
	}
	return out
}

// franzWrite writes a batch with franz-go's message types and compressor.
func franzWrite(t testing.TB, codec Codec, base int64, records []plain) []byte {
	t.Helper()
	var body []byte
	last, maxTime := int64(0), int64(-1)
	for _, r := range records {
		m := kmsg.Record{
			TimestampDelta64: r.Timestamp - records[0].Timestamp, OffsetDelta: int32(r.Offset - base),
			Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		// The length counts what follows it; a length of 0 takes one byte.
		m.Length = int32(len(m.AppendTo(nil)) - 1)
		body = m.AppendTo(body)
		last, maxTime = r.Offset, max(maxTime, r.Timestamp)
	}
	kgoCodec := map[Codec]kgo.CompressionCodec{
		CodecNone: kgo.NoCompression(), CodecGzip: kgo.GzipCompression(), CodecSnappy: kgo.SnappyCompression(),
		CodecLZ4: kgo.Lz4Compression(), CodecZstd: kgo.ZstdCompression(),
	}[codec]
	if codec != CodecNone {
		c, err := kgo.DefaultCompressor(kgoCodec)
		require.NoError(t, err)
		body, _ = c.Compress(new(bytes.Buffer), body)
	}
	b := kmsg.RecordBatch{
		FirstOffset: base, Length: int32(49 + len(body)), PartitionLeaderEpoch: -1, Magic: 2,
		Attributes: int16(codec), LastOffsetDelta: int32(last - base), FirstTimestamp: records[0].Timestamp,
		MaxTimestamp: maxTime, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(records)), Records: body,
	}
	out := b.AppendTo(nil)
	stampCRC(out)
	return out
}

func drawBytes(t *rapid.T, name string) []byte {
	if rapid.Bool().Draw(t, name+" null") {
		return nil
	}
	return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, name)...)
}

func drawRecords(t *rapid.T) []plain {
	offset := int64(0)
	var out []plain
	for range rapid.IntRange(1, 40).Draw(t, "count") {
		r := plain{
			Offset: offset, Timestamp: rapid.Int64Range(-1, 1<<42).Draw(t, "ts"),
			Key: drawBytes(t, "key"), Value: drawBytes(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, plainHeader{rapid.String().Draw(t, "h"), drawBytes(t, "hv")})
		}
		out = append(out, r)
		offset += rapid.Int64Range(1, 3).Draw(t, "gap")
	}
	return out
}

func build(t testing.TB, o BuilderOptions, records []plain) []byte {
	t.Helper()
	b := NewBuilder(o)
	for _, r := range records {
		var hs []HeaderField
		for _, h := range r.Headers {
			hs = append(hs, HeaderField{[]byte(h.Key), h.Value})
		}
		require.NoError(t, b.Append(Record{Offset: Offset(r.Offset), Timestamp: r.Timestamp,
			Key: r.Key, Value: r.Value, Headers: NewHeaders(hs...)}))
	}
	return b.Build()
}

// TestTwinFranz: what we build franz-go reads, what it writes we read, and both
// write the same uncompressed bytes.
func TestTwinFranz(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := drawRecords(rt)
		codec := rapid.SampledFrom(codecs).Draw(rt, "codec")
		ours := build(t, BuilderOptions{Codec: codec, LeaderEpoch: NoEpoch}, records)
		theirs := franzWrite(t, codec, 0, records)
		require.Equal(rt, records, readAll(t, ours))
		require.Equal(rt, records, readAll(t, theirs))
		require.Equal(rt, records, franzRead(t, ours))
		for _, b := range [][]byte{ours, theirs} {
			s, err := Judge(b, publishRules)
			require.NoError(rt, err)
			require.Len(rt, records, s.Records)
		}
		if codec == CodecNone {
			require.Equal(rt, theirs, ours)
		}
	})
}

// TestGoldenKafka: the files in testdata were written by the Java client 4.4.0.
func TestGoldenKafka(t *testing.T) {
	want := []plain{
		{100, 1700000000000, []byte("k0"), []byte("value zero value zero value zero"),
			[]plainHeader{{"h", []byte("x")}, {"n", nil}}},
		{101, 1700000000500, nil, []byte("value one"), nil},
		{102, 1699999999000, []byte("k2"), nil, nil},
		{103, -1, []byte{}, []byte{}, nil},
	}
	for _, c := range codecs {
		batch := golden(t, c.String())
		s, err := Judge(batch, Rules{Dense: true})
		require.NoError(t, err, c.String())
		h := s.Header
		require.Equal(t, Header{
			BaseOffset: 100, Length: h.Length, LeaderEpoch: 9, Magic: 2, CRC: h.CRC,
			Attributes: int16(c) | attrTransactional, LastOffsetDelta: 3,
			BaseTimestamp: 1700000000000, MaxTimestamp: 1700000000500,
			ProducerID: 77, ProducerEpoch: 3, BaseSequence: 2147483645, Count: 4,
		}, h)
		require.Equal(t, h.MaxTimestamp, s.MaxTimestamp)
		require.EqualValues(t, 0, h.LastSequence(), "the sequence wraps (F17)")
		require.Equal(t, want, readAll(t, batch), c.String())

		again := build(t, OptionsOf(h), want)
		if c == CodecNone {
			require.Equal(t, batch, again, "byte for byte as Kafka writes it")
		}
		require.Equal(t, want, readAll(t, again))
	}
}

func TestGoldenKafkaMarkerAndEmpty(t *testing.T) {
	marker := golden(t, "marker")
	_, err := Judge(marker, Rules{Dense: true})
	require.NoError(t, err)
	typ, epoch, err := ParseControl(marker)
	require.NoError(t, err)
	require.Equal(t, ControlAbort, typ)
	require.EqualValues(t, 12, epoch)
	require.Equal(t, marker, ControlBatch(ControlOptions{
		Type: ControlAbort, BaseOffset: 200, LeaderEpoch: 9, ProducerID: 77, ProducerEpoch: 3,
		CoordinatorEpoch: 12, Timestamp: 1700000000000,
	}))

	empty := golden(t, "empty")
	s, err := Judge(empty, publishRules)
	require.NoError(t, err)
	require.EqualValues(t, 309, s.Header.LastOffset())
	require.Equal(t, empty, NewBuilder(OptionsOf(s.Header)).Build())
	_, _, err = ParseControl(empty)
	require.ErrorIs(t, err, ErrInvalidRecord)
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "kafka-"+name+".batch"))
	require.NoError(t, err)
	return b
}

// TestH10_OldFormats: magic 0 and 1 are told apart from corruption, even where
// they are shorter than our header; zeros are corruption.
func TestH10_OldFormats(t *testing.T) {
	for magic := range byte(2) {
		old := make([]byte, 12+22)
		binary.BigEndian.PutUint32(old[posLength:], 22)
		old[posMagic] = magic
		for _, judge := range []func([]byte) error{
			func(b []byte) error { _, err := ParseHeader(b); return err },
			func(b []byte) error { _, _, err := Split(b); return err },
			func(b []byte) error { _, err := Judge(b, produceRules); return err },
		} {
			require.ErrorIs(t, judge(old), ErrMagic)
		}
	}
	three := numbered(CodecNone, 1, 1)
	three[posMagic] = 3
	_, err := ParseHeader(three)
	require.ErrorIs(t, err, ErrMagic)
	_, err = ParseHeader(make([]byte, 4096))
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestSplit(t *testing.T) {
	a, b := numbered(CodecNone, 3, 10), numbered(CodecZstd, 2, 10)
	all := append(append([]byte{}, a...), b...)
	first, rest, err := Split(all)
	require.NoError(t, err)
	require.Equal(t, a, first)
	require.Equal(t, b, rest)
	second, rest, err := Split(rest)
	require.NoError(t, err)
	require.Equal(t, b, second)
	require.Empty(t, rest)
	for n := range len(a) {
		_, _, err := Split(a[:n])
		require.ErrorIs(t, err, ErrTruncated, "%d bytes", n)
	}
	for _, length := range []int32{-1, 0, 48, MaxBatchSize} {
		_, _, err := Split(edit(a, put32(posLength, length)))
		require.ErrorIs(t, err, ErrCorrupt, "length %d", length)
	}
}

func TestStampOffsetKeepsTheCRC(t *testing.T) {
	b := numbered(CodecSnappy, 3, 10)
	StampOffset(b, 1<<40, 7)
	s, err := Judge(b, Rules{Dense: true})
	require.NoError(t, err)
	require.EqualValues(t, 1<<40, s.Header.BaseOffset)
	require.EqualValues(t, 7, s.Header.LeaderEpoch)
	require.EqualValues(t, 1<<40+3, s.Header.NextOffset())
}

// TestC7_OffsetDeltasBeyondInt32: offsets that one batch cannot hold are refused
// by the builder, never wrapped.
func TestC7_OffsetDeltasBeyondInt32(t *testing.T) {
	b := NewBuilder(BuilderOptions{})
	require.NoError(t, b.Append(Record{Offset: 0}))
	require.ErrorIs(t, b.Append(Record{Offset: 2147483657}), ErrOffsetRange)
	require.ErrorIs(t, b.Append(Record{Offset: 0}), ErrOffsetRange, "offsets rise")
	require.NoError(t, b.Append(Record{Offset: 2147483647}))
	s, err := Judge(b.Build(), publishRules)
	require.NoError(t, err)
	require.EqualValues(t, 2147483647, s.Header.LastOffset())
	require.ErrorIs(t, NewBuilder(BuilderOptions{BaseOffset: 5}).Append(Record{Offset: 4}), ErrOffsetRange)
}

// TestF17_SequenceWraps at 2^31-1.
func TestF17_SequenceWraps(t *testing.T) {
	h := Header{ProducerID: 1, BaseSequence: 2147483646, LastOffsetDelta: 3}
	require.EqualValues(t, 1, h.LastSequence())
	require.EqualValues(t, 2, AddSequence(h.LastSequence(), 1))
	require.Equal(t, NoSequence, Header{BaseSequence: NoSequence, LastOffsetDelta: 3}.LastSequence())
}

func TestCodecNames(t *testing.T) {
	require.Equal(t, "none gzip snappy lz4 zstd", strings.Trim(strings.Join([]string{
		CodecNone.String(), CodecGzip.String(), CodecSnappy.String(), CodecLZ4.String(), CodecZstd.String()}, " "), " "))
	for _, c := range codecs {
		got, err := ParseCodec(strings.ToUpper(c.String()))
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	_, err := ParseCodec("brotli")
	require.ErrorIs(t, err, ErrCodec)
	_, err = Compress(nil, nil, 7)
	require.ErrorIs(t, err, ErrCodec)
	_, err = Decompress(nil, nil, 5)
	require.ErrorIs(t, err, ErrCodec)
	require.Equal(t, "codec(6)", Codec(6).String())
}
