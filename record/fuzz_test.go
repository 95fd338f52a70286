package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func seedBatches(f *testing.F) {
	for _, c := range codecs {
		f.Add(golden(f, c.String()))
		f.Add(numbered(c, 3, 20))
	}
	f.Add(golden(f, "marker"))
	f.Add(golden(f, "empty"))
	f.Add(make([]byte, 100))
}

// whole gives mutated bytes a length and a CRC that fit, so that the fuzzer gets
// past them.
func whole(b []byte) []byte {
	if len(b) < HeaderSize {
		return b
	}
	b = bytes.Clone(b)
	b[posMagic] = magicV2
	put32(posLength, int32(len(b)-sizePrefix))(b)
	stampCRC(b)
	return b
}

// FuzzJudge: no input panics; what Judge lets in, Records yields, a rebuilt batch
// repeats and Judge lets in again.
func FuzzJudge(f *testing.F) {
	seedBatches(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, b := range [][]byte{raw, whole(raw)} {
			s, err := Judge(b, publishRules)
			if err != nil {
				continue
			}
			records := readAll(t, b)
			require.Len(t, records, s.Records)
			require.EqualValues(t, s.Header.Count, s.Records)
			again := build(t, OptionsOf(s.Header), records)
			require.Equal(t, records, readAll(t, again))
			s2, err := Judge(again, publishRules)
			require.NoError(t, err)
			require.Equal(t, s.MaxTimestamp, s2.MaxTimestamp)
			require.Equal(t, s.Header.LastOffset(), s2.Header.LastOffset())
			require.Equal(t, s.Header.LastSequence(), s2.Header.LastSequence())
		}
	})
}

// FuzzRecords: no input panics, and what Records reads to the end without a fault
// Judge has nothing against but what only it looks at.
func FuzzRecords(f *testing.F) {
	seedBatches(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var scratch Scratch
		for _, b := range [][]byte{raw, whole(raw)} {
			n := int32(0)
			for r, err := range Records(b, &scratch) {
				if err != nil {
					return
				}
				n++
				headers := 0
				for range r.Headers.All() {
					headers++
				}
				require.Equal(t, r.Headers.Len(), headers)
			}
			h, err := ParseHeader(b)
			require.NoError(t, err)
			require.Equal(t, h.Count, n)
			_, _, _ = ParseControl(b)
		}
	})
}

// FuzzSplit: the pieces are the input, and each is a batch by its own header.
func FuzzSplit(f *testing.F) {
	seedBatches(f)
	f.Add(append(numbered(CodecNone, 1, 1), numbered(CodecLZ4, 2, 2)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		rest := b
		var joined []byte
		for {
			batch, next, err := Split(rest)
			if err != nil {
				require.Equal(t, rest, next)
				break
			}
			h, err := ParseHeader(batch)
			require.NoError(t, err)
			require.Len(t, batch, h.Size())
			require.GreaterOrEqual(t, h.NextOffset(), h.BaseOffset)
			joined = append(joined, batch...)
			rest = next
		}
		require.True(t, bytes.Equal(b, append(joined, rest...)))
	})
}

// FuzzEpochDecode: what decodes encodes to the same bytes.
func FuzzEpochDecode(f *testing.F) {
	f.Add(history(0, 0, 3, 10, 4, 20).AppendTo(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, rest, err := DecodeEpochHistory(b)
		if err == nil {
			require.True(t, bytes.Equal(b, append(e.AppendTo(nil), rest...)))
		}
	})
}
