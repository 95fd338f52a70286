package objstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucketOf is a store that takes perSecond requests and throttles the rest (a token bucket). Only Put and ReadRange.
type bucketOf struct {
	Store
	perSecond  float64
	retryAfter time.Duration
	latency    time.Duration

	mu       sync.Mutex
	tokens   float64
	filled   time.Time
	taken    map[string]int // by second and by kind
	rejected int
}

func (b *bucketOf) request(op, key string) error {
	time.Sleep(b.latency)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.perSecond, b.tokens+b.perSecond*now.Sub(b.filled).Seconds())
	b.filled = now
	if b.tokens < 1 {
		b.rejected++
		return &Error{Op: op, Key: key, Attempts: 1, RetryAfter: b.retryAfter, MayBeDone: true, Err: ErrThrottled}
	}
	b.tokens--
	b.taken[op]++
	return nil
}

func (b *bucketOf) Put(_ context.Context, key string, _ Source, _ PutOptions) error {
	return b.request("put", key)
}

func (b *bucketOf) ReadRange(_ context.Context, key string, _ int64, _ []byte) error {
	return b.request("get", key)
}

func (b *bucketOf) Delete(_ context.Context, key string, _ ...string) error {
	return b.request("delete", key)
}

func (b *bucketOf) counts() (put, get, del, rejected int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken["put"], b.taken["get"], b.taken["delete"], b.rejected
}

// L6: a store that takes 20 requests a second, 200 partitions that upload all the time, for ten minutes: the rate
// settles near the limit with few rejections, cold reads come first, and nothing is lost; then the store is normal again
// and so is the rate.
func TestL6_RateSettlesNearTheStoresLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &bucketOf{perSecond: 20, retryAfter: 5 * time.Second, latency: 20 * time.Millisecond, taken: map[string]int{}, filled: time.Now()}
		l := NewLimiter(LimiterOptions{Patience: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		var slowest time.Duration
		run := func(class Class, n int, op func(Store, int) error, pause time.Duration) {
			for i := range n {
				wg.Go(func() {
					s := l.For(class, store)
					for ctx.Err() == nil {
						start := time.Now()
						if err := op(s, i); err != nil && ctx.Err() == nil {
							t.Errorf("%v: %v", class, err)
						}
						if class == ColdRead {
							mu.Lock()
							slowest = max(slowest, time.Since(start))
							mu.Unlock()
						}
						sleepCtx(ctx, pause)
					}
				})
			}
		}
		run(Upload, 200, func(s Store, i int) error { return s.Put(ctx, fmt.Sprintf("p%d", i), Source{}, PutOptions{}) }, 0)
		run(GC, 50, func(s Store, i int) error { return s.Delete(ctx, fmt.Sprintf("g%d", i)) }, 0)
		time.Sleep(time.Minute) // to settle
		run(ColdRead, 2, func(s Store, i int) error { return s.ReadRange(ctx, fmt.Sprintf("r%d", i), 0, nil) }, time.Second)
		put0, get0, del0, rejected0 := store.counts()
		time.Sleep(10 * time.Minute)
		put, get, del, rejected := store.counts()
		total, turnedAway := put+get+del-put0-get0-del0, rejected-rejected0
		mu.Lock()
		t.Logf("taken %d of %d possible, rejected %d; %d cold reads, slowest %v; %d GC", total, 20*600, turnedAway, get-get0, slowest, del-del0)
		mu.Unlock()
		require.Greater(t, total, 20*600*7/10)
		require.Less(t, turnedAway, total/10)
		require.Greater(t, get-get0, 2*600/2, "cold reads do not queue behind uploads")
		require.Less(t, del-del0, (put-put0)/20, "GC waits while uploads do")

		store.mu.Lock()
		store.perSecond = 1e6
		store.mu.Unlock()
		time.Sleep(45 * time.Second)
		put0, _, _, _ = store.counts()
		time.Sleep(2 * time.Second)
		put, _, _, _ = store.counts()
		t.Logf("then %d a second", (put-put0)/2)
		require.Greater(t, put-put0, 2*500, "it catches up")
		cancel()
		wg.Wait()
	})
}

// Without throttling nothing is held back but by MaxInFlight, and each class leaves room for the more urgent ones.
func TestClassesLeaveRoomForMoreUrgentOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(LimiterOptions{MaxInFlight: 8})
		ctx, cancel := context.WithCancel(t.Context())
		started := map[Class]int{}
		var mu sync.Mutex
		for _, c := range []Class{GC, Compaction, Upload, ColdRead} {
			for range 20 {
				go func() {
					if l.acquire(ctx, c, 0) == nil {
						mu.Lock()
						started[c]++
						mu.Unlock()
					}
				}()
			}
			synctest.Wait()
		}
		require.Equal(t, map[Class]int{GC: 2, Compaction: 2, Upload: 2, ColdRead: 2}, started)
		l.release(true, false) // the next is a cold read, whoever ended
		synctest.Wait()
		require.Equal(t, 3, started[ColdRead])
		cancel()
		synctest.Wait()
		for _, c := range Classes {
			require.Zero(t, l.waiting[c].Len())
		}
		require.Equal(t, 8, l.inFlight)
	})
}

func TestUploadBandwidthIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &bucketOf{perSecond: 1e9, taken: map[string]int{}}
		opts := LimiterOptions{}
		opts.BytesPerSecond[Upload] = 100 << 20
		l := NewLimiter(opts)
		start := time.Now()
		for range 10 {
			require.NoError(t, l.For(Upload, store).Put(t.Context(), "k", Source{Size: 50 << 20}, PutOptions{}))
		}
		require.Equal(t, 4500*time.Millisecond, time.Since(start))
		start = time.Now()
		require.NoError(t, l.For(ColdRead, store).ReadRange(t.Context(), "k", 0, make([]byte, 1<<20)))
		require.Zero(t, time.Since(start))
	})
}

// An operation that is throttled for too long says what it was, how often it was sent, and that it may be done.
func TestThrottledForTooLongNamesTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &bucketOf{taken: map[string]int{}}
		l := NewLimiter(LimiterOptions{Patience: 30 * time.Second})
		start := time.Now()
		err := l.For(Upload, store).Put(t.Context(), "a/b", Source{}, PutOptions{})
		require.ErrorIs(t, err, ErrThrottled)
		require.ErrorContains(t, err, "put a/b")
		require.True(t, Unclear(err))
		require.Greater(t, time.Since(start), 20*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = l.For(Upload, store).Put(ctx, "a/b", Source{}, PutOptions{})
		require.Error(t, err)
		require.Zero(t, l.inFlight)
	})
}

// A multipart upload whose id was reported is not begun a second time behind the caller's back.
func TestReportedUploadIsNotRepeated(t *testing.T) {
	calls := 0
	store := putFunc(func(opts PutOptions) error {
		calls++
		_ = opts.OnUpload(t.Context(), "id")
		return &Error{Op: "put", Key: "k", Attempts: 1, Err: ErrThrottled}
	})
	l := NewLimiter(LimiterOptions{})
	err := l.For(Upload, store).Put(t.Context(), "k", Source{}, PutOptions{OnUpload: func(context.Context, string) error { return nil }})
	require.ErrorIs(t, err, ErrThrottled)
	require.Equal(t, 1, calls)
}

type putFunc func(PutOptions) error

func (f putFunc) Put(_ context.Context, _ string, _ Source, opts PutOptions) error { return f(opts) }
func (f putFunc) ReadRange(context.Context, string, int64, []byte) error           { return f(PutOptions{}) }
func (f putFunc) Stat(context.Context, string) (Info, error)                       { return Info{}, f(PutOptions{}) }
func (f putFunc) Delete(context.Context, string, ...string) error                  { return f(PutOptions{}) }
func (f putFunc) List(context.Context, string, string, int) ([]Info, error) {
	return nil, f(PutOptions{})
}

func TestMetricsCountByOperationAndResult(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	var result error
	s := m.Wrap(putFunc(func(PutOptions) error { return result }))
	all := func() {
		_ = s.Put(t.Context(), "k", Bytes(make([]byte, 10)), PutOptions{})
		_ = s.ReadRange(t.Context(), "k", 0, make([]byte, 7))
		_, _ = s.Stat(t.Context(), "k")
		_ = s.Delete(t.Context(), "k")
		_, _ = s.List(t.Context(), "", "", 1)
	}
	all()
	for _, result = range []error{ErrNotFound, ErrThrottled, ErrDenied, errors.New("x"), &Error{MayBeDone: true, Err: errors.New("y")}} {
		all()
	}
	m.Retried("put", nil)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP tidemark_objstore_bytes_total Bytes of successful puts and gets.
# TYPE tidemark_objstore_bytes_total counter
tidemark_objstore_bytes_total{op="get"} 7
tidemark_objstore_bytes_total{op="put"} 10
`), "tidemark_objstore_bytes_total"))
	for _, want := range []string{"ok", "not_found", "throttled", "denied", "failed", "unclear"} {
		require.EqualValues(t, 1, testutil.ToFloat64(m.requests.WithLabelValues("put", want)), want)
	}
	require.EqualValues(t, 2, testutil.ToFloat64(m.requests.WithLabelValues("get", "failed")))
}

func TestErrorsNameOperationKeyAndAttempts(t *testing.T) {
	err := error(&Error{Op: "put", Key: "c/t/0", Attempts: 3, RetryAfter: time.Second, MayBeDone: true, Err: ErrThrottled})
	require.Equal(t, "put c/t/0: store asks to slow down (after 3 attempts)", err.Error())
	require.True(t, Unclear(fmt.Errorf("upload: %w", err)))
	require.Equal(t, time.Second, RetryAfter(err))
	require.False(t, Unclear(ErrThrottled))
	require.Zero(t, RetryAfter(ErrThrottled))
}
