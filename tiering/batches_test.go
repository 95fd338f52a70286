package tiering

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

// bytesStore is a bucket with one object.
type bytesStore struct {
	objstore.Store
	b     []byte
	reads atomic.Int64
	fault func(n int64) error // of the nth GET, from 1
}

func (s *bytesStore) ReadRange(_ context.Context, _ string, off int64, dst []byte) error {
	n := s.reads.Add(1)
	if s.fault != nil {
		if err := s.fault(n); err != nil {
			return err
		}
	}
	copy(dst, s.b[off:])
	return nil
}

// inputOf is an object of batches with values of these sizes and a tail of tail bytes.
func inputOf(tail int, values ...int) (*Input, *bytesStore, [][]byte) {
	var batches [][]byte
	s := &bytesStore{}
	for n, size := range values {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: record.Offset(n)})
		b.Add(1, []byte("key"), bytes.Repeat([]byte{byte(n)}, size))
		batches = append(batches, b.Build())
		s.b = append(s.b, batches[n]...)
	}
	row := catalog.Segment{Key: "k", DataBytes: int64(len(s.b))}
	s.b = append(s.b, make([]byte, tail)...)
	row.Bytes, row.SHA256 = int64(len(s.b)), sha256.Sum256(s.b)
	return &Input{t: &Tier{o: Options{PutTimeout: time.Minute}, rewriteStore: s}, row: row}, s, batches
}

func TestBatchesLieInOneWindowOrInSeveral(t *testing.T) {
	for name, sizes := range map[string][]int{
		"one":                       {10},
		"many to a window":          slices.Repeat([]int{1000}, 500),
		"many windows to a batch":   {10, 1 << 20, 10, 300_000, 10},
		"headers cut by the window": slices.Repeat([]int{1}, 5000),
	} {
		t.Run(name, func(t *testing.T) {
			in, _, want := inputOf(100_000, sizes...)
			r := in.ReadBatches(t.Context(), 0)
			defer r.Close()
			for n, b := range want {
				got, last, err := r.Next(t.Context())
				require.NoError(t, err)
				require.True(t, bytes.Equal(b, got), "batch %d", n)
				require.Equal(t, n == len(want)-1, last)
			}
			for range 2 {
				_, _, err := r.Next(t.Context())
				require.Equal(t, io.EOF, err)
			}
		})
	}
}

// Whatever is wrong with an object, its end is never told as such (C11).
func TestC11_ABatchReaderEndsOnlyAfterTheRightBytes(t *testing.T) {
	for name, hurt := range map[string]func(in *Input, s *bytesStore){
		"a byte of a value":             func(_ *Input, s *bytesStore) { s.b[200_000] ^= 1 },
		"a byte behind the data":        func(in *Input, s *bytesStore) { s.b[in.row.DataBytes+9] ^= 1 },
		"a header":                      func(_ *Input, s *bytesStore) { s.b[16] ^= 1 },
		"data that end within a batch":  func(in *Input, _ *bytesStore) { in.row.DataBytes -= 5 },
		"data that end within a header": func(in *Input, _ *bytesStore) { in.row.DataBytes -= 300_000 + 40 },
	} {
		t.Run(name, func(t *testing.T) {
			in, s, _ := inputOf(100_000, 10, 300_000, 299_930)
			hurt(in, s)
			r := in.ReadBatches(t.Context(), 0)
			defer r.Close()
			var err error
			for err == nil {
				_, _, err = r.Next(t.Context())
			}
			require.ErrorIs(t, err, ErrStorage)
		})
	}
}

// A pass that waits, for its pace or for a PUT, holds its windows and no more (R20).
func TestR20_ABatchReaderReadsNoFurtherThanItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, s, _ := inputOf(0, slices.Repeat([]int{1000}, 1000)...)
		r := in.ReadBatches(t.Context(), 0)
		synctest.Wait()
		require.EqualValues(t, windowsAhead, s.reads.Load(), "nothing was asked for")
		for range 40 { // beyond the first window
			_, _, err := r.Next(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait()
		require.EqualValues(t, windowsAhead+1, s.reads.Load())
		r.Close()
		r.Close()
		_, _, err := r.Next(t.Context())
		require.ErrorIs(t, err, errClosed)
	})
}

func TestABatchReaderFailsWhereItIsAsked(t *testing.T) {
	in, s, _ := inputOf(0, slices.Repeat([]int{1000}, 1000)...)
	s.fault = func(n int64) error {
		if n > 2 {
			return errInjected
		}
		return nil
	}
	drain := func(ctx context.Context) (n int, err error) {
		r := in.ReadBatches(ctx, 0)
		defer r.Close()
		for err == nil {
			_, _, err = r.Next(t.Context())
			n++
		}
		return n, err
	}
	n, err := drain(t.Context())
	require.ErrorIs(t, err, errInjected)
	require.Greater(t, n, 50, "what was read before is given first")

	s.reads.Store(0)
	s.fault = func(int64) error { panic("driver") }
	require.Panics(t, func() { _, _ = drain(t.Context()) }, "the turn of who asks fails, not the process (A11)")

	s.fault = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = drain(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
