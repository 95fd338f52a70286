package tiering

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
	"tidemark/record"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore/minio"
	"tidemark/tiering/objstore/s3"
)

// BenchmarkUpload brings an 8 MiB run of 16 KiB batches out of a file into a folder and into an S3 server, step by step:
// build, PUT, read back. cpu-s/GB is this process's processor time, user and system; the S3 server is another process.
func BenchmarkUpload(b *testing.B) {
	for _, where := range []string{"folder", "s3", "minio"} {
		b.Run(where, func(b *testing.B) { benchmarkUpload(b, where) })
	}
}

func benchmarkUpload(b *testing.B, where string) {
	r := newRig(b, nil)
	switch where {
	case "s3", "minio":
		srv := testenv.S3(b)
		b.Setenv("AWS_ACCESS_KEY_ID", srv.AccessKey)
		b.Setenv("AWS_SECRET_ACCESS_KEY", srv.SecretKey)
		text, open := srv.URL("tier"), s3.Open
		if where == "minio" {
			text = fmt.Sprintf("minio://%s/%s/tier?secure=false", strings.TrimPrefix(srv.Endpoint, "http://"), srv.Bucket)
			open = minio.Open
		}
		u, err := url.Parse(text)
		require.NoError(b, err)
		st, err := open(b.Context(), u)
		require.NoError(b, err)
		defer st.Close()
		r.store.Store = st
	}
	l := newMemLog(r.guard(0))
	l.size = 1024
	for range 512 {
		l.batch(16)
	}
	run := l.runLocked(0, l.next)
	defer run.Release()
	name := filepath.Join(b.TempDir(), "segment")
	require.NoError(b, os.WriteFile(name, l.data, 0o600))
	f, err := os.Open(name)
	require.NoError(b, err)
	defer f.Close()
	run.Data = f
	ln := newLane(r.p(0), l)
	defer ln.cancel()
	ln.guard = l.guard
	b.SetBytes(int64(len(l.data)))
	b.ReportAllocs()
	names := []string{"build", "put", "readback"}
	var used [3]time.Duration
	for b.Loop() {
		id := object.NewAttempt()
		ln.attempt = &attempt{id: id, base: 0, next: l.next, key: object.Key(object.ID(r.opts.Cluster), object.ID(r.topic), 0, 0, id)}
		t0 := cpuTime(b)
		built, err := r.tier.build(r.ctx, ln, run)
		require.NoError(b, err)
		t1 := cpuTime(b)
		require.NoError(b, r.tier.put(r.ctx, ln, built))
		t2 := cpuTime(b)
		require.NoError(b, r.tier.readBack(r.ctx, ln.attempt.key, built))
		used[0], used[1], used[2] = used[0]+t1-t0, used[1]+t2-t1, used[2]+cpuTime(b)-t2
	}
	for i, name := range names {
		b.ReportMetric(used[i].Seconds()/(float64(len(l.data))*float64(b.N)/1e9), name+"-cpu-s/GB")
	}
}

// cpuTime is the processor time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
