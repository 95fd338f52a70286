package cache

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Random operations against what must always hold: the right bytes, the limit, the accounting, pinned chunks readable.
func TestPropertyAnyHistoryKeepsTheInvariants(t *testing.T) {
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		require.NoError(t, err)
		limit := room(rapid.Int64Range(1, 4).Draw(t, "chunks"))
		memory := rapid.SampledFrom([]int64{1, room(1), room(2), room(10)}).Draw(t, "memory")
		reopen := func() *Cache {
			c, err := Open(Options{Dir: dir, MaxBytes: limit, MemoryBytes: memory, UnreadGrace: time.Millisecond})
			require.NoError(t, err)
			return c
		}
		c, s := reopen(), &store{}
		defer func() { require.NoError(t, c.Close()) }()
		held := map[Key][]*Handle{}
		drop := func(k Key) {
			held[k][0].Release()
			if held[k] = held[k][1:]; len(held[k]) == 0 {
				delete(held, k)
			}
		}
		pick := func() Key { return key(rapid.IntRange(0, 5).Draw(t, "key")) }
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				k := pick()
				if len(held[k]) == 0 && room(int64(len(held)))+room(1) > limit {
					t.Skip("all is pinned")
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				h, err := c.Get(ctx, s.request(k))
				require.NoError(t, err)
				held[k] = append(held[k], h)
			},
			"tryget": func(t *rapid.T) {
				h, err := c.TryGet(pick())
				require.NoError(t, err)
				if h != nil {
					held[h.entry.key] = append(held[h.entry.key], h)
				}
			},
			"prefetch": func(t *rapid.T) { c.Prefetch(s.request(pick())) },
			"read through": func(t *rapid.T) {
				for _, hs := range held {
					got := make([]byte, chunk)
					_, err := hs[0].ReadAt(got, 0)
					require.NoError(t, err)
				}
			},
			"release": func(t *rapid.T) {
				for k := range held {
					drop(k)
					return
				}
				t.Skip("nothing held")
			},
			"restart": func(t *rapid.T) {
				for k := range held {
					for range len(held[k]) {
						drop(k)
					}
				}
				require.NoError(t, c.Close())
				c = reopen()
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, c.Used(), limit)
				for k, hs := range held {
					got := make([]byte, 100)
					_, err := hs[0].ReadAt(got, 1000)
					require.NoError(t, err)
					require.Equal(t, content(k, chunk)[1000:1100], got)
				}
				// Once downloads are over, what is counted is what is there: on disk, and in memory within its limit.
				require.Eventually(t, func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					var sum int64
					for _, e := range c.entries {
						sum += e.bytes
					}
					return c.running > 0 || sum == c.used && c.lru.Len() == len(c.entries) &&
						c.images.bytes <= memory && sum == c.images.bytes+chunkFiles(dir)
				}, time.Minute, time.Millisecond)
			},
		})
		for k := range held {
			for range len(held[k]) {
				drop(k)
			}
		}
	})
}

// chunkFiles is the size of all chunk files in a folder.
func chunkFiles(dir string) (n int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			n += fi.Size()
		}
	}
	return n
}

// B7: a memory cache of one entry under sixteen readers of sixteen objects gives right values, always; run with -race.
func TestB7_TinyTailCacheUnderManyReaders(t *testing.T) {
	tails := NewTails[int, []byte](TailOptions{MaxBytes: 8})
	defer tails.Close()
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			for n := range 500 {
				k := (i + n) % 16
				v, err := tails.Get(context.Background(), k, func(context.Context) ([]byte, int64, error) {
					return []byte(fmt.Sprintf("%08d", k)), 8, nil
				})
				if err != nil || string(v) != fmt.Sprintf("%08d", k) {
					errs <- fmt.Errorf("key %d: %q, %v", k, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, tails.used, int64(8))
}

func TestTailsShareLoadsAndForgetTheIdle(t *testing.T) {
	tails := NewTails[string, int](TailOptions{MaxBytes: 20, MaxLoads: 1})
	defer tails.Close()
	loads := 0
	get := func(k string) int {
		v, err := tails.Get(t.Context(), k, func(context.Context) (int, int64, error) { loads++; return len(k), 10, nil })
		require.NoError(t, err)
		return v
	}
	require.Equal(t, 1, get("a"))
	require.Equal(t, 2, get("bb"))
	get("a")
	get("ccc") // bb was idle longest
	_, ok := tails.TryGet("bb")
	require.False(t, ok)
	_, ok = tails.TryGet("a")
	require.True(t, ok)
	require.Equal(t, 3, loads)
	tails.Forget("a")
	get("a")
	require.Equal(t, 4, loads)
}

// B16 for tails: a caller who leaves does not end the load; a load that fails or panics is tried again.
func TestB16_TailLoadOutlivesItsCaller(t *testing.T) {
	tails := NewTails[int, int](TailOptions{})
	defer tails.Close()
	hold := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tails.Get(ctx, 1, func(context.Context) (int, int64, error) { <-hold; return 7, 1, nil })
	require.ErrorIs(t, err, context.Canceled)
	close(hold)
	v, err := tails.Get(t.Context(), 1, func(context.Context) (int, int64, error) { return 0, 0, fmt.Errorf("second load") })
	require.NoError(t, err)
	require.Equal(t, 7, v)
	_, err = tails.Get(t.Context(), 2, func(context.Context) (int, int64, error) { panic("boom") })
	require.ErrorContains(t, err, "boom")
	require.NoError(t, tails.Close())
	_, err = tails.Get(t.Context(), 3, func(context.Context) (int, int64, error) { return 1, 1, nil })
	require.ErrorIs(t, err, ErrClosed)
}
