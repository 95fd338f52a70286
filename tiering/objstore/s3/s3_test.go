package s3

import (
	"net/url"
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
	t.Setenv("AWS_ACCESS_KEY_ID", srv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", srv.SecretKey)
	u, err := url.Parse(srv.URL("some/prefix") + query)
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
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	for text, want := range map[string]string{
		"s3://b":                               "cannot name a bucket",
		"s3:///prefix":                         "no bucket",
		"s3://events/p?pathstyle=true":         `unknown parameter "pathstyle"`,
		"s3://events/p?path_style=ja":          `path_style="ja"`,
		"s3://events/Prefix":                   "only a-z",
		"s3://key:secret@events/p":             "credentials do not belong",
		"s3://events/p?endpoint=http://x:9000": "AWS_ACCESS_KEY_ID",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = Open(t.Context(), u)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret@")
	}
}
