package partition

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// acksWorld is a produce request that waits for two partitions, and what happens to them, step by step.
type acksWorld struct {
	t      *testing.T
	parts  [2]*Partition
	acks   *Acks
	begun  bool
	errs   []error
	reader *Waiter
	lifted Arrivals
}

func newAcksWorld(t *testing.T) *acksWorld {
	w := &acksWorld{t: t, reader: NewWaiter()}
	acks := make([]Ack, len(w.parts))
	for i := range w.parts {
		p, lead := &Partition{Name: "t"}, &leadership{}
		p.role.Store(lead)
		p.Watch(w.reader)
		w.parts[i], acks[i] = p, Ack{p: p, lead: lead, offset: 1}
	}
	w.acks = newAcks(acks, func(errs []error) {
		if !w.begun || w.errs != nil {
			t.Fatal("finished twice, or before all were looked at")
		}
		w.errs = errs
	})
	w.acks.timer, w.acks.stop = time.NewTimer(time.Hour), func() bool { return true }
	return w
}

// await is what Await does.
func (w *acksWorld) await() (steps []func()) {
	for i := range w.parts {
		steps = append(steps, func() { w.acks.watch(i) }, func() { w.acks.look(i) })
	}
	return append(steps, func() { w.begun = true; w.acks.begun() })
}

// replicate is what a replica's fetch does that has both partitions' records.
func (w *acksWorld) replicate() (steps []func()) {
	for _, p := range w.parts {
		steps = append(steps, func() { p.hw.Store(1); w.lifted.at = append(w.lifted.at, p) })
	}
	tell := func(p *Partition) { p.waiters.tell(1, &w.lifted.news) }
	return append(steps, func() { tell(w.parts[0]) }, func() { tell(w.parts[1]); w.lifted.news.deliver() })
}

// merges calls run with every order of the actors' steps that keeps each actor's own: as numbers of actors.
func merges(left []int, order []int, run func(order []int)) {
	over := true
	for actor := range left {
		if left[actor] > 0 {
			over = false
			left[actor]--
			merges(left, append(order, actor), run)
			left[actor]++
		}
	}
	if over {
		run(order)
	}
}

// Whatever the order of a request's first looks, of a replica's fetch that brings its acknowledgements and of what ends the
// wait otherwise, the request is answered, once, and watches nothing afterwards (H11).
func TestH11_NoOrderOfStepsLosesAnAcknowledgement(t *testing.T) {
	for name, row := range map[string]struct {
		also func(w *acksWorld) []func()
		may  error // of the second partition; the first one's too if all
		all  bool
	}{
		"nothing else":         {also: func(*acksWorld) []func() { return nil }},
		"something else moves": {also: func(w *acksWorld) []func() { return []func(){w.parts[1].moved} }},
		"its time is over": {also: func(w *acksWorld) []func() {
			return []func(){func() { w.acks.giveUp(context.DeadlineExceeded) }}
		}, may: context.DeadlineExceeded, all: true},
		"the leadership ends": {also: func(w *acksWorld) []func() {
			return []func(){func() { w.parts[1].role.Store(nil) }, w.parts[1].moved}
		}, may: ErrNotLeader},
		"the leadership is in doubt": {also: func(w *acksWorld) []func() {
			return []func(){func() { w.parts[1].role.Load().doubts.Add(1) }, w.parts[1].moved}
		}, may: ErrNotLeader},
		"the in-sync set is too small": {also: func(w *acksWorld) []func() {
			return []func(){func() { w.parts[1].role.Load().minISR.Add(1) }, w.parts[1].moved}
		}, may: ErrNotEnoughAfterAppend},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[bool]int{}
			w := newAcksWorld(t)
			merges([]int{len(w.await()), len(w.replicate()), len(row.also(w))}, nil, func(order []int) {
				w := newAcksWorld(t)
				steps := [][]func(){w.await(), w.replicate(), row.also(w)}
				for _, actor := range order {
					steps[actor][0]()
					steps[actor] = steps[actor][1:]
				}
				if w.errs == nil || len(w.reader.C()) != 1 || w.parts[0].waiters.n.Load()+w.parts[1].waiters.n.Load() > 0 {
					t.Fatalf("not finished, the reader not woken, or still watched: %v", order)
				}
				for i, err := range w.errs {
					if err != nil && (!errors.Is(err, row.may) || i == 0 && !row.all) {
						t.Fatalf("partition %d, %v: %v", i, order, err)
					}
				}
				seen[w.errs[1] == nil]++
			})
			require.Positive(t, seen[true])
			require.Equal(t, row.may != nil, seen[false] > 0)
		})
	}
}

// Requests of one connection whose acknowledgements come together are answered together, the newest first: whoever sends
// them in order finds all when the oldest is there. Nobody hears of it before the last partition is noted.
func TestAcknowledgementsThatComeTogetherAreAnsweredNewestFirst(t *testing.T) {
	w := newAcksWorld(t)
	a, b := w.parts[0], w.parts[1]
	var answered []int
	ack := func(p *Partition) Ack { return Ack{p: p, lead: p.role.Load(), offset: 1} }
	for i, of := range [][]Ack{{ack(a), ack(b)}, {ack(b)}, {ack(a)}, {ack(b), ack(a)}} {
		Await(t.Context(), of, time.Hour, func(errs []error) {
			require.Equal(t, make([]error, len(of)), errs)
			answered = append(answered, i)
		})
	}
	var lifted Arrivals
	for _, p := range []*Partition{a, b} {
		p.hw.Store(1)
		lifted.at = append(lifted.at, p)
		require.Empty(t, answered)
		require.Empty(t, w.reader.C())
	}
	lifted.Announce()
	require.Equal(t, []int{3, 2, 1, 0}, answered)
	require.Len(t, w.reader.C(), 1)
}

func TestAcknowledgementsThatWereThereBeforeAreAnsweredAtOnce(t *testing.T) {
	w := newAcksWorld(t)
	p := w.parts[0]
	p.hw.Store(1)
	var errs []error
	Await(t.Context(), []Ack{{p: p, lead: p.role.Load(), offset: 1}}, time.Hour, func(all []error) { errs = all })
	require.Equal(t, []error{nil}, errs)
}

// A request is answered when its time is over or its connection gone, with what each of its partitions has by then (F7).
func TestF7_AnOpenWaitEndsWithItsTimeOrItsConnection(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		ctx    context.Context
		within time.Duration
		err    error
	}{{t.Context(), 0, context.DeadlineExceeded}, {gone, time.Hour, context.Canceled}} {
		w := newAcksWorld(t)
		w.parts[0].hw.Store(1)
		answer := make(chan []error, 1)
		var acks []Ack
		for _, p := range w.parts {
			acks = append(acks, Ack{p: p, lead: p.role.Load(), offset: 1})
		}
		Await(row.ctx, acks, row.within, func(errs []error) { answer <- errs })
		require.Equal(t, []error{nil, row.err}, <-answer)
		require.EqualValues(t, 1, w.parts[1].waiters.n.Load(), "only the reader watches")
	}
}

// Under the race detector: appends, replicas' fetches that announce late, leaderships that end, times that run out.
func TestAcknowledgementsInAStorm(t *testing.T) {
	const connections, requests = 4, 300
	parts := make([]*Partition, 3)
	var ends [3]atomic.Int64
	for i := range parts {
		parts[i] = &Partition{Name: "t"}
		parts[i].role.Store(&leadership{})
	}
	var answers [connections * requests]atomic.Int32
	var producing, waiting, fetching sync.WaitGroup
	waiting.Add(len(answers))
	for c := range connections {
		producing.Go(func() {
			for r := range requests {
				var of []Ack
				for i, p := range parts {
					if rand.IntN(2) == 0 {
						p.roleMu.RLock()
						of = append(of, Ack{p: p, lead: p.role.Load(), offset: record.Offset(ends[i].Add(1))})
						p.roleMu.RUnlock()
					}
				}
				within := time.Hour
				if rand.IntN(20) == 0 {
					within = time.Duration(rand.IntN(200)) * time.Microsecond
				}
				Await(t.Context(), of, within, func([]error) {
					answers[c*requests+r].Add(1)
					waiting.Done()
				})
			}
		})
	}
	over := make(chan struct{})
	for range 2 {
		fetching.Go(func() {
			var lifted Arrivals
			for {
				for i, p := range parts {
					if raise(&p.hw, record.Offset(ends[i].Load())) {
						lifted.at = append(lifted.at, p)
					}
				}
				lifted.Announce()
				if p := parts[rand.IntN(len(parts))]; rand.IntN(50) == 0 {
					p.roleMu.Lock()
					p.role.Store(&leadership{})
					p.roleMu.Unlock()
					p.moved()
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	producing.Wait()
	waiting.Wait()
	close(over)
	fetching.Wait()
	for i := range answers {
		require.EqualValues(t, 1, answers[i].Load())
	}
	for _, p := range parts {
		require.Zero(t, p.waiters.n.Load())
	}
}
