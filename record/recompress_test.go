package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// judged is what a leader knows of a client's batch.
func judged(t testing.TB, batch []byte) Summary {
	t.Helper()
	s, err := Judge(batch, produceRules)
	require.NoError(t, err)
	return s
}

func TestRecompressChangesTheEncodingAlone(t *testing.T) {
	for _, from := range codecs {
		for _, n := range []int{1, 50, 1000} {
			b := NewBuilder(BuilderOptions{Codec: from, Producer: &Producer{ID: 7, Epoch: 2, BaseSequence: 40}})
			for i := range n {
				// Times that no batch of another base could hold.
				ts := []int64{1_700_000_000_000, NoTimestamp, 5}[i%3]
				b.Add(ts, fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{byte(i)}, 100), HeaderField{Key: []byte("h")})
			}
			batch := b.Build()
			kept := bytes.Clone(batch)
			s := judged(t, batch)
			for _, to := range codecs {
				out, err := Recompress(batch, s, to, 0)
				require.NoError(t, err, "%s to %s", from, to)
				got := judged(t, out).Header
				require.Equal(t, to, got.Codec())
				require.Equal(t, body(t, batch), body(t, out), "%s to %s, %d records", from, to, n)
				got.Length, got.CRC, got.Attributes = s.Header.Length, s.Header.CRC, s.Header.Attributes
				require.Equal(t, s.Header, got)
				_, err = Recompress(batch, s, to, len(out)-1)
				require.ErrorIs(t, err, ErrTooLarge)
			}
			require.Equal(t, kept, batch)
		}
	}
}

// Some KiB that decompress to 48 MiB are compressed again, or refused, without memory for what lies between.
func TestR20_ABombIsRecompressedThroughAWindow(t *testing.T) {
	bomb := bombOf(t, CodecZstd, 48<<20)
	s := judged(t, bomb)
	for _, to := range codecs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := Recompress(bomb, s, to, 1<<20)
		runtime.ReadMemStats(&after)
		if !raceDetector { // which drops what is pooled
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), to.String())
		}
		if err != nil {
			require.ErrorIs(t, err, ErrTooLarge, to)
			continue
		}
		require.LessOrEqual(t, len(out), 1<<20)
		require.Equal(t, s.UncompressedBytes, judged(t, out).UncompressedBytes, to)
	}
}

// bombOf is a batch of one record of so many zeros.
func bombOf(t testing.TB, codec Codec, size int) []byte {
	t.Helper()
	b := NewBuilder(BuilderOptions{Codec: codec})
	b.Add(1, nil, make([]byte, size))
	return b.Build()
}

// Clients' batches that decompress to very much take turns, and who waits for one holds up no other batch.
func TestR20_LongBatchesTakeTurns(t *testing.T) {
	// gzip: what zstd's decoders keep may not leave the bubble.
	long, honest := bombOf(t, CodecGzip, 12<<20), numbered(CodecGzip, 1000, 1000)
	synctest.Test(t, func(t *testing.T) {
		wide, narrow := wideGate, narrowGate
		wideGate, narrowGate = make(gate, 1), make(gate, 1)
		defer func() { wideGate, narrowGate = wide, narrow }()
		require.NoError(t, narrowGate.enter())
		done := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := Judge(long, produceRules)
				done <- err
			}()
		}
		synctest.Wait()
		require.Empty(t, done, "one went past the gate")
		judged(t, honest)
		_, err := Judge(long, publishRules)
		require.NoError(t, err, "a follower's copy waits for no client")
		for range 4 { // now the clock goes on
			require.ErrorIs(t, <-done, ErrBusy)
		}
		for range 4 {
			go func() {
				_, err := Judge(long, produceRules)
				done <- err
			}()
		}
		narrowGate.leave()
		for range 4 {
			require.NoError(t, <-done)
		}
		require.Empty(t, wideGate)
		require.Empty(t, narrowGate)
	})
}

// Small batches do not wait behind those that decompress to more, however many come.
func TestR20_SmallBatchesDoNotWaitForBombs(t *testing.T) {
	bomb, honest := bombOf(t, CodecGzip, 4<<20), numbered(CodecGzip, 1000, 100)
	synctest.Test(t, func(t *testing.T) {
		quick, wide := quickGate, wideGate
		quickGate, wideGate = make(gate, 1), make(gate, 1)
		defer func() { quickGate, wideGate = quick, wide }()
		require.NoError(t, wideGate.enter())
		done := make(chan error, 50)
		for range cap(done) {
			go func() {
				_, err := Judge(bomb, produceRules)
				done <- err
			}()
		}
		synctest.Wait()
		require.Empty(t, done)
		judged(t, honest) // at once: the clock stands still
		out, err := Recompress(honest, judged(t, honest), CodecSnappy, 0)
		require.NoError(t, err)
		judged(t, out)
		require.Empty(t, done)
		wideGate.leave()
		for range cap(done) {
			require.NoError(t, <-done)
		}
		require.Empty(t, quickGate)
	})
}

// A batch is long by what it decompresses to for its size: an honest one of many megabytes does not wait for bombs.
func TestR20_ALargeBatchIsNotALongOne(t *testing.T) {
	value := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value)
	for i := range value {
		value[i] &= 15 // to a half of its size
	}
	b := NewBuilder(BuilderOptions{Codec: CodecZstd})
	b.Add(1, nil, value)
	batch := b.Build()
	narrow := narrowGate
	defer func() { narrowGate = narrow }()
	narrowGate = nil // nobody gets in
	require.Greater(t, judged(t, batch).UncompressedBytes, int64(briefBytes))
}
