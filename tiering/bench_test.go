package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/tiering/object"
)

// BenchmarkUpload brings an 8 MiB run of 16 KiB batches into a folder: build, PUT, read back. The file store syncs,
// so the disk is part of it; CPU is what to look at.
func BenchmarkUpload(b *testing.B) {
	r := newRig(b, nil)
	l := newMemLog(r.guard(0))
	l.size = 1024
	for range 512 {
		l.batch(16)
	}
	run := l.runLocked(0, l.next)
	defer run.Release()
	ln := newLane(r.p(0), l)
	defer ln.cancel()
	ln.guard = l.guard
	b.SetBytes(int64(len(l.data)))
	b.ReportAllocs()
	for b.Loop() {
		id := object.NewAttempt()
		ln.attempt = &attempt{id: id, base: 0, next: l.next, key: object.Key(object.ID(r.opts.Cluster), object.ID(r.topic), 0, 0, id)}
		built, err := r.tier.build(r.ctx, ln, run)
		require.NoError(b, err)
		require.NoError(b, r.tier.put(r.ctx, ln, built))
		require.NoError(b, r.tier.readBack(r.ctx, ln.attempt.key, built))
	}
}

// BenchmarkColdRead replays objects in a folder with empty caches, 1 MiB a fetch.
func BenchmarkColdRead(b *testing.B) {
	r := newRig(b, nil)
	l := r.lead(0, func(l *memLog) {
		l.size = 1024
		for range 4 {
			for range 1024 {
				l.batch(16)
			}
			l.seal()
		}
	})
	r.tiered(0, l.next)
	size := int64(len(l.data))
	b.SetBytes(size)
	b.ReportAllocs()
	sink := make([]byte, 1<<20)
	r.store.forgetCounts()
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		r.freshCache()
		b.StartTimer()
		rounds++
		for at := record.Offset(0); at < l.next; {
			c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: at, Bound: l.next, MaxBytes: 1 << 20, AtLeastOne: true})
			require.NoError(b, err)
			_, err = c.ReadAt(sink[:c.Size], 0)
			require.NoError(b, err)
			at = c.Next
			c.Release()
		}
	}
	gets, _, _ := r.store.counts()
	b.ReportMetric(float64(size)*float64(rounds)/float64(len(gets))/(1<<20), "MiB/GET")
}
