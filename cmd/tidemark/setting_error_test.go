package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What reads well and does not work on this machine names its variable, the flag beside it, and a remedy.
func TestASettingThatDoesNotWorkNamesVariableAndRemedy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	busy := taken.Addr().String()
	for _, row := range []struct {
		name    string
		environ []string
		args    []string
		says    []string
	}{
		{"a data folder that is a file", nil, []string{"--data", file},
			[]string{`--data or TIDEMARK_DATA_DIR="` + file + `": ` + file + " is a file; name a folder"}},
		{"a data folder below a file", []string{"TIDEMARK_DATA_DIR=" + file + "/data"}, nil,
			[]string{"TIDEMARK_DATA_DIR", file + " is a file; name a folder"}},
		{"a Kafka address in use", nil, []string{"--kafka", busy},
			[]string{`--kafka or TIDEMARK_LISTENERS="PLAINTEXT://` + busy + `": another process listens on ` + busy + "; stop it, or name another port"}},
		{"an HTTP address in use", nil, []string{"--http", busy},
			[]string{`--http or TIDEMARK_HTTP_LISTEN="` + busy + `": another process listens on ` + busy}},
		{"an address of another machine", nil, []string{"--kafka", "192.0.2.1:9092"},
			[]string{"TIDEMARK_LISTENERS", "192.0.2.1:9092 is no address of this machine"}},
		{"a bucket that is a file", []string{"TIDEMARK_OBJECT_STORE_URL=file://" + file}, nil,
			[]string{"TIDEMARK_OBJECT_STORE_URL", "not a directory", "a folder that this user may write"}},
		{"a catalog that is a folder", []string{"TIDEMARK_CATALOG_URL=sqlite://" + filepath.Dir(file)}, nil,
			[]string{"TIDEMARK_CATALOG_URL", "name a file that this user may write"}},
		{"a catalog that nobody serves", []string{"TIDEMARK_CATALOG_URL=postgres://u:secret@127.0.0.1:1/d", "TIDEMARK_START_TIMEOUT=0s"}, nil,
			[]string{"TIDEMARK_CATALOG_URL", "connection refused", "start Postgres there, or name the server and database that there are"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := append([]string{"dev", "--data", filepath.Join(t.TempDir(), "data"), "--kafka", "127.0.0.1:0", "--http", "none"}, row.args...)
			if row.args == nil && row.environ[0][:17] == "TIDEMARK_DATA_DIR" {
				args = append(args[:1:1], args[3:]...)
			}
			code, out, errs := call(t, row.environ, args...)
			require.Equal(t, exitFailed, code, errs)
			for _, s := range row.says {
				require.Contains(t, errs, s)
			}
			require.NotContains(t, errs, "secret")
			require.Empty(t, out)
		})
	}
}

func TestABadBucketURLIsToldBeforeTheCatalogIsWaitedFor(t *testing.T) {
	for _, row := range []struct{ url, says string }{
		{"minio://127.0.0.1:9000/bucket?secure=maybe", `secure="maybe"; write true or false`},
		{"minio://127.0.0.1:9000/bucket?regio=x", `unknown parameter "regio"; known are secure, region, checksums`},
		{"s3://b", `"b" cannot name a bucket; a name has 3 to 63 of`},
		{"s3://-bucket-", `"-bucket-" cannot name a bucket`},
		{"minio://127.0.0.1:9000", "no bucket; write minio://host:port/bucket/prefix"},
		{"s3://user:secret@bucket", "credentials do not belong into the URL"},
		{"file:///tmp?x=1", "file URLs take no parameters"},
	} {
		t.Run(row.url, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			code, _, errs := call(t, []string{"TIDEMARK_BROKER_ID=1", "TIDEMARK_DATA_DIR=" + dir, "TIDEMARK_HTTP_LISTEN=none",
				"TIDEMARK_CATALOG_URL=postgres://u:secret@127.0.0.1:1/d", "TIDEMARK_START_TIMEOUT=1h",
				"TIDEMARK_OBJECT_STORE_URL=" + row.url}, "serve")
			require.Equal(t, exitUsage, code, errs)
			require.Contains(t, errs, "TIDEMARK_OBJECT_STORE_URL=")
			require.Contains(t, errs, row.says)
			require.NotContains(t, errs, "secret@")
			require.NotContains(t, errs, "Postgres", "nothing was waited for")
		})
	}
}
