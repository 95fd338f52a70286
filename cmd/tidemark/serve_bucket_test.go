package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

// A bucket that is not there does not keep a broker from serving what is local; log and /readyz say what to do about it, and
// a replay from the bucket ends with the same.
func TestABucketThatIsNotThereIsToldWithItsRemedy(t *testing.T) {
	s3 := testenv.S3(t)
	dsn := testenv.Postgres(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.SecretKey)
	bucket := "s3://no-such-bucket/prefix?region=us-east-1&path_style=true&endpoint=" + s3.Endpoint
	const remedy = "make the bucket, or name another in TIDEMARK_OBJECT_STORE_URL"

	s := startServe(t, dsn, bucket)
	awaitLine(t, s, remedy)
	awaitReady(t, s)
	require.Eventually(t, func() bool {
		resp, err := http.Get(s.http + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(body), "warning: the bucket cannot be used: nothing is uploaded, cold reads fail; "+remedy)
	}, time.Minute, 20*time.Millisecond)

	code, _, errs := call(t, nil, "topic", "create", "a", "--bootstrap", s.kafka)
	require.Equal(t, exitDone, code, errs)
	require.Equal(t, exitDone, s.stop(), s.errs.String())
	environ := []string{"TIDEMARK_CATALOG_URL=" + dsn, "TIDEMARK_OBJECT_STORE_URL=" + bucket}
	out := filepath.Join(t.TempDir(), "out")
	code, _, errs = call(t, environ, "replay", "a", "--out", out, "--direct")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "TIDEMARK_OBJECT_STORE_URL")
	require.Contains(t, errs, "are bucket and prefix the right ones?")
	require.NoFileExists(t, out)
	code, _, errs = call(t, environ, "replay", "b", "--out", out, "--direct")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "there is no topic b")
}
