package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

// freeAddress is an address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := testenv.FreePort()
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// awaitReady asks /readyz until it is 200; the test fails if the process ends before.
func awaitReady(t *testing.T, s served) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		select {
		case code := <-s.ended:
			s.ended <- code
			t.Fatalf("serve ended with code %d:\n%s", code, s.errs)
		case <-deadline:
			t.Fatal("serve does not become ready")
		case <-tick.C:
		}
		resp, err := http.Get(s.http + "/readyz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

// served is a `tidemark serve` that runs in this process.
type served struct {
	kafka, http string
	errs        *testenv.Lines
	ended       chan int
	stop        func() int
}

// startServe runs broker 7 of the cluster in a catalog and a bucket, with a data folder of its own.
func startServe(t *testing.T, catalogURL, bucketURL string) served {
	t.Helper()
	s := served{kafka: freeAddress(t), errs: &testenv.Lines{}, ended: make(chan int, 1)}
	web := freeAddress(t)
	s.http = "http://" + web
	environ := []string{
		"TIDEMARK_BROKER_ID=7", "TIDEMARK_DATA_DIR=" + t.TempDir(), "TIDEMARK_CATALOG_URL=" + catalogURL,
		"TIDEMARK_OBJECT_STORE_URL=" + bucketURL, "TIDEMARK_LISTENERS=PLAINTEXT://" + s.kafka, "TIDEMARK_HTTP_LISTEN=" + web,
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.ended <- run(ctx, []string{"serve"}, system{out: &bytes.Buffer{}, err: s.errs, environ: environ})
	}()
	s.stop = func() int {
		cancel()
		code := <-s.ended
		s.ended <- code
		return code
	}
	t.Cleanup(func() {
		s.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// Each pair of drivers, as an operator names them by URL.
func TestServeWithPostgresAndEachBucketDriver(t *testing.T) {
	s3 := testenv.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.SecretKey)
	t.Setenv("MINIO_ACCESS_KEY", s3.AccessKey)
	t.Setenv("MINIO_SECRET_KEY", s3.SecretKey)
	host := strings.TrimPrefix(s3.Endpoint, "http://")
	for name, bucket := range map[string]string{
		"s3":    fmt.Sprintf("s3://%s/by-s3?region=%s&endpoint=%s", s3.Bucket, s3.Region, url.QueryEscape(s3.Endpoint)),
		"minio": fmt.Sprintf("minio://%s/%s/by-minio?secure=false&region=%s", host, s3.Bucket, s3.Region),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServe(t, testenv.Postgres(t), bucket)
			awaitReady(t, s)
			code, out, toolErrs := call(t, nil, "topic", "create", "events", "--bootstrap", s.kafka)
			require.Equal(t, exitDone, code, toolErrs)
			require.Contains(t, out, "Created events")
			code, out, toolErrs = call(t, nil, "tier", "status", "events", "--http", s.http)
			require.Equal(t, exitDone, code, toolErrs)
			require.Contains(t, out, "PARTITION")
			require.Equal(t, exitDone, s.stop())
		})
	}
}

// H27: an id that a live process holds is refused with code 3, and the holder is named.
func TestH27_ASecondProcessOfALiveBrokerIsFencedOut(t *testing.T) {
	pg, bucket := testenv.Postgres(t), "file://"+t.TempDir()
	first := startServe(t, pg, bucket)
	awaitReady(t, first)
	second := startServe(t, pg, bucket)
	select {
	case code := <-second.ended:
		second.ended <- code
		require.Equal(t, exitFenced, code, "%s", second.errs)
	case <-time.After(time.Minute):
		t.Fatal("the second process goes on")
	}
	require.Contains(t, second.errs.String(), first.kafka)
	require.Equal(t, exitDone, first.stop())
}
