package harness

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"testing"

	"tidemark/integration/pgproxy"
	"tidemark/integration/s3proxy"
	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
	"tidemark/tiering/objstore/s3"
)

// Stores are a catalog and a bucket that outlive a node's data folder.
type Stores struct {
	CatalogURL string
	ObjectsURL string
	// DirectURL is ObjectsURL past the proxy, for measurements; "" where objects are files.
	DirectURL string

	// Bucket reaches the objects past all proxies: what tests compare the catalog with, and damage.
	Bucket objstore.Store
	// S3 stands between the node and the bucket; nil where objects are files.
	S3 *s3proxy.Proxy
	// PG stands between the node and Postgres; nil where the catalog is SQLite.
	PG *pgproxy.Proxy
	// Postgres is the test's own server, which it may stop; nil where it is shared or SQLite.
	Postgres *testenv.PostgresServer

	env    map[string]string
	bucket string
}

// ByMinIO are the same stores, with the bucket reached by the other driver. The harness gives the credentials under
// AWS's names, which that driver takes too.
func (s Stores) ByMinIO() Stores {
	s.ObjectsURL = fmt.Sprintf("minio://%s/%s/tide?secure=false", s.S3.Addr(), s.bucket)
	return s
}

// FolderStores are a SQLite file and a folder of objects.
func FolderStores(t testing.TB) Stores {
	t.Helper()
	dir := t.TempDir()
	s := Stores{CatalogURL: "sqlite://" + filepath.Join(dir, "catalog.db"), ObjectsURL: "file://" + filepath.Join(dir, "objects")}
	s.Bucket = FolderBucket(t, filepath.Join(dir, "objects"))
	return s
}

// FolderBucket opens a folder of objects, e.g. that of a dev node.
func FolderBucket(t testing.TB, dir string) objstore.Store {
	t.Helper()
	store, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// RealStores are an empty Postgres database and an empty S3 bucket, each behind a proxy, on servers that tests share.
func RealStores(t testing.TB) Stores {
	t.Helper()
	return behindProxies(t, testenv.Postgres(t))
}

// OwnStores are RealStores with a Postgres of the test's own.
func OwnStores(t testing.TB) Stores {
	t.Helper()
	pg := testenv.StartPostgres(t)
	s := behindProxies(t, pg.DSN(t))
	s.Postgres = pg
	return s
}

func behindProxies(t testing.TB, dsn string) Stores {
	t.Helper()
	database, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s := Stores{PG: pgproxy.Start(t, database.Host)}
	s.CatalogURL = s.PG.Through(t, dsn)
	srv := testenv.S3(t)
	endpoint, err := url.Parse(srv.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	s.S3, s.bucket = s3proxy.Start(t, endpoint.Host), srv.Bucket
	at := func(endpoint string) string {
		return fmt.Sprintf("s3://%s/tide?region=%s&path_style=true&endpoint=%s", srv.Bucket, srv.Region, url.QueryEscape(endpoint))
	}
	s.ObjectsURL = at(s.S3.URL())
	s.env = map[string]string{"AWS_ACCESS_KEY_ID": srv.AccessKey, "AWS_SECRET_ACCESS_KEY": srv.SecretKey}
	srv.Setenv(t)
	s.DirectURL = at(srv.Endpoint)
	direct, err := url.Parse(s.DirectURL)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3.Open(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s.Bucket = store
	return s
}

func (s Stores) environment() map[string]string {
	env := map[string]string{"TIDEMARK_CATALOG_URL": s.CatalogURL, "TIDEMARK_OBJECT_STORE_URL": s.ObjectsURL}
	maps.Copy(env, s.env)
	return env
}
