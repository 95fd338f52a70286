package minio

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/objstoretest"
	"tidemark/tiering/objstore/remote"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t testing.TB, query string, opts remote.Options) objstore.StoreCloser {
	t.Helper()
	srv := testenv.S3(t)
	t.Setenv("MINIO_ACCESS_KEY", srv.AccessKey)
	t.Setenv("MINIO_SECRET_KEY", srv.SecretKey)
	host := strings.TrimPrefix(srv.Endpoint, "http://")
	u, err := url.Parse(fmt.Sprintf("minio://%s/%s/some/prefix?secure=false%s", host, srv.Bucket, query))
	require.NoError(t, err)
	s, err := OpenWith(t.Context(), u, opts)
	require.NoError(t, err)
	return s
}

func TestConformance(t *testing.T) {
	for _, query := range []string{"", "&checksums=true"} {
		t.Run("query"+query, func(t *testing.T) {
			objstoretest.Run(t, func(t *testing.T) objstore.StoreCloser { return open(t, query, remote.Options{}) })
		})
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	for _, name := range []string{"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	for text, want := range map[string]string{
		"minio:///bucket":                   "no host",
		"minio://h:9000":                    "no bucket",
		"minio://h:9000/events?secure=nein": `secure="nein"`,
		"minio://h:9000/events?endpoint=x":  `unknown parameter "endpoint"`,
		"minio://h:9000/events":             "MINIO_ACCESS_KEY",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = Open(t.Context(), u)
		require.ErrorContains(t, err, want, text)
	}
}
