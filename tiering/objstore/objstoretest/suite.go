package objstoretest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/tiering/objstore"
)

// Run checks one driver. open gives a store over an empty bucket or folder; it is closed by the suite.
func Run(t *testing.T, open func(t *testing.T) objstore.StoreCloser) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, objstore.StoreCloser)
	}{
		{"a put object is read back, whole and in ranges", putAndRead},
		{"what is absent says so", absent},
		{"a range past the end is an error", pastTheEnd},
		{"delete removes, and repeats", deletes},
		{"list is ordered, paged and filtered", lists},
		{"J13: only plain keys are taken", plainKeys},
		{"J7: a source that is too short fails at once and leaves nothing", shortSource},
		{"a cancelled context ends every call", cancelled},
		{"P10: a PUT is signed with the SHA-256 that is there: a body that does not fit it is not taken", wrongDigest},
		{"many callers at once", manyCallers},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() { require.NoError(t, s.Close()) }()
			c.run(t, s)
		})
	}
}

// Random gives n random bytes.
func Random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func putAndRead(t *testing.T, s objstore.StoreCloser) {
	for _, size := range []int{0, 1, 4095, 1 << 20, 9<<20 + 7} {
		key, want := fmt.Sprintf("c/t-1/0/%020d/a_%d.seg", size, size), Random(size)
		src := objstore.Bytes(want)
		if size == 4095 {
			src.SHA256 = [32]byte{} // the driver computes it
		}
		require.NoError(t, s.Put(t.Context(), key, src, objstore.PutOptions{Attempt: "a1"}))
		info, err := s.Stat(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, int64(size), info.Size)
		require.Equal(t, key, info.Key)
		require.False(t, info.Modified.IsZero())
		got := make([]byte, size)
		require.NoError(t, s.ReadRange(t.Context(), key, 0, got))
		require.True(t, bytes.Equal(want, got))
		for range 10 {
			if size == 0 {
				break
			}
			off := mathrand.IntN(size)
			part := make([]byte, mathrand.IntN(size-off)+1)
			require.NoError(t, s.ReadRange(t.Context(), key, int64(off), part))
			require.True(t, bytes.Equal(want[off:off+len(part)], part), "range %d+%d of %d", off, len(part), size)
		}
	}
}

func absent(t *testing.T, s objstore.StoreCloser) {
	_, err := s.Stat(t.Context(), "no/such")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	require.ErrorContains(t, err, "stat no/such")
	err = s.ReadRange(t.Context(), "no/such", 5, make([]byte, 10))
	require.ErrorIs(t, err, objstore.ErrNotFound)
	require.ErrorContains(t, err, "get no/such")
	require.NoError(t, s.Put(t.Context(), "no/other", objstore.Bytes([]byte("x")), objstore.PutOptions{}))
	_, err = s.Stat(t.Context(), "no")
	require.ErrorIs(t, err, objstore.ErrNotFound, "a folder is no object")
	require.ErrorIs(t, s.ReadRange(t.Context(), "no", 0, make([]byte, 1)), objstore.ErrNotFound)
}

func pastTheEnd(t *testing.T, s objstore.StoreCloser) {
	require.NoError(t, s.Put(t.Context(), "k", objstore.Bytes(Random(100)), objstore.PutOptions{}))
	for _, off := range []int64{-1, 50, 99, 100, 1000} {
		require.ErrorIs(t, s.ReadRange(t.Context(), "k", off, make([]byte, 51)), objstore.ErrRange, "offset %d", off)
	}
	require.NoError(t, s.ReadRange(t.Context(), "k", 49, make([]byte, 51)))
}

func deletes(t *testing.T, s objstore.StoreCloser) {
	put := func(key string) {
		require.NoError(t, s.Put(t.Context(), key, objstore.Bytes([]byte(key)), objstore.PutOptions{}))
	}
	put("d/e/f")
	put("d/e/g")
	require.NoError(t, s.Delete(t.Context(), "d/e/f"))
	require.NoError(t, s.Delete(t.Context(), "d/e/f"))
	require.NoError(t, s.Delete(t.Context(), "never/was"))
	require.NoError(t, s.Delete(t.Context(), "d/e"), "a folder is no object")
	_, err := s.Stat(t.Context(), "d/e/f")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	_, err = s.Stat(t.Context(), "d/e/g")
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "d/e/g"))
	put("d/e/h")
	left, err := s.List(t.Context(), "", "", 100)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func lists(t *testing.T, s objstore.StoreCloser) {
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("p/%02d/x", i)
		require.NoError(t, s.Put(t.Context(), key, objstore.Bytes(make([]byte, i)), objstore.PutOptions{}))
		want = append(want, key)
	}
	require.NoError(t, s.Put(t.Context(), "other", objstore.Bytes(nil), objstore.PutOptions{}))
	for _, limit := range []int{1, 7, 25, 100} {
		var got []string
		for after := ""; ; {
			page, err := s.List(t.Context(), "p/", after, limit)
			require.NoError(t, err)
			for _, info := range page {
				require.Equal(t, int64(len(got)), info.Size)
				got = append(got, info.Key)
			}
			if len(page) < limit {
				break
			}
			after = page[len(page)-1].Key
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
	part, err := s.List(t.Context(), "p/1", "p/15/x", 100)
	require.NoError(t, err)
	require.Len(t, part, 4)
	none, err := s.List(t.Context(), "nothing/", "", 10)
	require.NoError(t, err)
	require.Empty(t, none)
}

func plainKeys(t *testing.T, s objstore.StoreCloser) {
	for _, key := range []string{"", "/", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "A", "a b", "a:b", "ä", "a+b", strings.Repeat("x", 901)} {
		err := s.Put(t.Context(), key, objstore.Bytes([]byte("x")), objstore.PutOptions{})
		require.ErrorIs(t, err, objstore.ErrKey, "%q", key)
		require.False(t, objstore.Unclear(err))
		require.ErrorIs(t, s.ReadRange(t.Context(), key, 0, make([]byte, 1)), objstore.ErrKey)
		require.ErrorIs(t, s.Delete(t.Context(), key), objstore.ErrKey)
		_, err = s.Stat(t.Context(), key)
		require.ErrorIs(t, err, objstore.ErrKey)
	}
	key := "c/a.b-c_d/..x/0/" + strings.Repeat("y", 200)
	require.NoError(t, s.Put(t.Context(), key, objstore.Bytes([]byte("x")), objstore.PutOptions{}))
	all, err := s.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, key, all[0].Key)
}

func shortSource(t *testing.T, s objstore.StoreCloser) {
	src := objstore.Bytes(Random(1<<20 + 1000))
	src.ReaderAt = objstore.Bytes(Random(1 << 20)).ReaderAt
	err := s.Put(t.Context(), "short", src, objstore.PutOptions{})
	require.ErrorIs(t, err, objstore.ErrSource)
	_, err = s.Stat(t.Context(), "short")
	require.ErrorIs(t, err, objstore.ErrNotFound)
}

func cancelled(t *testing.T, s objstore.StoreCloser) {
	require.NoError(t, s.Put(t.Context(), "k", objstore.Bytes(Random(100)), objstore.PutOptions{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Put(ctx, "l", objstore.Bytes(Random(100)), objstore.PutOptions{}), context.Canceled)
	require.ErrorIs(t, s.ReadRange(ctx, "k", 0, make([]byte, 10)), context.Canceled)
	_, err := s.List(ctx, "", "", 10)
	require.ErrorIs(t, err, context.Canceled)
}

func wrongDigest(t *testing.T, s objstore.StoreCloser) {
	src := objstore.Bytes(Random(1000))
	src.ReaderAt = bytes.NewReader(Random(1000)) // changed since
	require.Error(t, s.Put(t.Context(), "damaged", src, objstore.PutOptions{}))
	src.CRC32C = 0
	require.Error(t, s.Put(t.Context(), "damaged", src, objstore.PutOptions{}))
	_, err := s.Stat(t.Context(), "damaged")
	require.ErrorIs(t, err, objstore.ErrNotFound)
}

func manyCallers(t *testing.T, s objstore.StoreCloser) {
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			for j := range 10 {
				// Keys share folders that come and go.
				key, want := fmt.Sprintf("m/%d/%d/%d", j%2, j%3, i), Random(1000+i)
				got := make([]byte, len(want))
				err := errors.Join(s.Put(t.Context(), key, objstore.Bytes(want), objstore.PutOptions{}),
					s.ReadRange(t.Context(), key, 0, got), s.Delete(t.Context(), key))
				if err == nil && !bytes.Equal(got, want) {
					err = fmt.Errorf("%s: other bytes", key)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		require.NoError(t, err)
	default:
	}
}
