package tiering

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// TestH3_TieredMayGoBack when the catalog loses commits: the lane follows it.
func TestH3_TieredMayGoBack(t *testing.T) {
	l := newLane(catalog.PartitionID{}, nil)
	defer l.cancel()
	require.False(t, l.see(catalog.Bounds{Tiered: 200}))
	require.True(t, l.see(catalog.Bounds{Tiered: 100}))
	require.Equal(t, record.Offset(100), l.bounds().Tiered)
	l.raise(150)
	require.Equal(t, catalog.Bounds{Start: 150, Tiered: 150}, l.bounds())
	l.raise(math.MaxInt64)
	require.Equal(t, record.Offset(150), l.bounds().Tiered, "a deleted topic moves nothing")
}

// TestSchedulerGivesTheLongestDueFirst, never one lane to two workers, and no wake hurries a back-off.
func TestSchedulerGivesTheLongestDueFirst(t *testing.T) {
	s, now := newScheduler(), time.Now()
	a, b := newLane(catalog.PartitionID{Partition: 1}, nil), newLane(catalog.PartitionID{Partition: 2}, nil)
	defer a.cancel()
	defer b.cancel()
	s.add(a)
	s.add(b)
	later := now.Add(time.Hour)
	first, _ := s.pop(later)
	require.Same(t, a, first)
	s.wake(a)
	second, _ := s.pop(later)
	require.Same(t, b, second)
	none, wait := s.pop(later)
	require.Nil(t, none)
	require.Equal(t, time.Hour, wait)
	s.done(a, later, time.Time{})
	first, _ = s.pop(time.Now())
	require.Same(t, a, first, "it was woken while it ran")
	s.done(a, now, later)
	s.wake(a)
	none, _ = s.pop(now.Add(time.Minute))
	require.Nil(t, none, "it backs off")
	first, _ = s.pop(later)
	require.Same(t, a, first)
	removed := make(chan struct{})
	go func() { s.remove(a); close(removed) }()
	s.done(b, later, time.Time{})
	select {
	case <-removed:
		t.Fatal("removed while a worker has it")
	default:
	}
	s.done(a, now, time.Time{})
	<-removed
	s.remove(b)
	none, _ = s.pop(later.Add(time.Hour))
	require.Nil(t, none)
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	for n, want := range []time.Duration{1, 1, 2, 4, 8, 10, 10} {
		got := backoff(time.Second, 10*time.Second, n)
		require.LessOrEqual(t, got, want*time.Second)
		require.GreaterOrEqual(t, got, want*time.Second*3/4)
	}
}
