package storefaults

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"tidemark/integration/s3proxy"
	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
	miniodriver "tidemark/tiering/objstore/minio"
	"tidemark/tiering/objstore/objstoretest"
	"tidemark/tiering/objstore/remote"
	s3driver "tidemark/tiering/objstore/s3"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const mib = 1 << 20

// rig is a driver that reaches a real server through a proxy.
type rig struct {
	*testing.T
	objstore.StoreCloser
	proxy *s3proxy.Proxy
	srv   testenv.S3Server
}

// small options make faults quick and multipart uploads small.
func small() remote.Options {
	return remote.Options{Backoff: 2 * time.Millisecond, SinglePutMax: 4 * mib, PartSize: 5 * mib}
}

// eachDriver runs a story with both drivers.
func eachDriver(t *testing.T, story func(*rig)) {
	eachDriverWith(t, small(), "", story)
}

func eachDriverWith(t *testing.T, opts remote.Options, query string, story func(*rig)) {
	for _, driver := range []string{"s3", "minio"} {
		t.Run(driver, func(t *testing.T) {
			srv := testenv.S3(t)
			proxy := s3proxy.Start(t, strings.TrimPrefix(srv.Endpoint, "http://"))
			r := &rig{T: t, proxy: proxy, srv: srv, StoreCloser: openDriver(t, driver, proxy.Addr(), srv, query, opts)}
			t.Cleanup(func() { require.NoError(t, r.Close()) })
			story(r)
		})
	}
}

func openDriver(t testing.TB, driver, host string, srv testenv.S3Server, query string, opts remote.Options) objstore.StoreCloser {
	t.Helper()
	text, open := fmt.Sprintf("s3://%s/pre?endpoint=http://%s%s", srv.Bucket, host, query), s3driver.OpenWith
	if driver == "minio" {
		text, open = fmt.Sprintf("minio://%s/%s/pre?secure=false%s", host, srv.Bucket, query), miniodriver.OpenWith
	}
	t.Setenv("AWS_ACCESS_KEY_ID", srv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", srv.SecretKey)
	u, err := url.Parse(text)
	require.NoError(t, err)
	s, err := open(context.Background(), u, opts)
	require.NoError(t, err)
	return s
}

// limited is the store as brokers use it: throttling is waited out.
func (r *rig) limited() objstore.Store {
	return objstore.NewLimiter(objstore.LimiterOptions{}).For(objstore.Upload, r.StoreCloser)
}

func (r *rig) put(key string, data []byte) error {
	return r.limited().Put(r.Context(), key, objstore.Bytes(data), putOptions())
}

func putOptions() objstore.PutOptions {
	return objstore.PutOptions{Attempt: "attempt-1", OnUpload: func(context.Context, string) error { return nil }}
}

func (r *rig) mustPut(key string, size int) []byte {
	r.Helper()
	data := objstoretest.Random(size)
	require.NoError(r, r.put(key, data))
	return data
}

func (r *rig) requireStored(key string, want []byte) {
	r.Helper()
	got := make([]byte, len(want))
	require.NoError(r, r.ReadRange(r.Context(), key, 0, got))
	require.True(r, bytes.Equal(want, got))
	info, err := r.Stat(r.Context(), key)
	require.NoError(r, err)
	require.Equal(r, int64(len(want)), info.Size)
}

// direct is a client of its own that goes past the proxy.
func (r *rig) direct() *minio.Core {
	r.Helper()
	// No connection outlives its request: the server may outlive the tests.
	c, err := minio.NewCore(strings.TrimPrefix(r.srv.Endpoint, "http://"), &minio.Options{Region: r.srv.Region,
		Creds: credentials.NewStaticV4(r.srv.AccessKey, r.srv.SecretKey, ""), Transport: &http.Transport{DisableKeepAlives: true}})
	require.NoError(r, err)
	return c
}

// unfinished lists the multipart uploads that the server still keeps.
func (r *rig) unfinished() []string {
	r.Helper()
	out, err := r.direct().ListMultipartUploads(r.Context(), r.srv.Bucket, "", "", "", "", 1000)
	require.NoError(r, err)
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, u.Key+" "+u.UploadID)
	}
	return keys
}
