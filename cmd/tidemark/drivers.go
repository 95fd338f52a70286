package main

import (
	"context"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/postgres"
	"tidemark/catalog/sqlite"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
	"tidemark/tiering/objstore/minio"
	"tidemark/tiering/objstore/s3"
)

// openCatalog picks the catalog's driver by the URL's scheme.
func openCatalog(ctx context.Context, c config.Config) (catalog.Store, error) {
	return openCatalogAs(ctx, c, false)
}

// openCatalogAs is openCatalog; of a catalog in Postgres it can be promised that it is only read, its schema included.
func openCatalogAs(ctx context.Context, c config.Config, readOnly bool) (catalog.Store, error) {
	u := c.Stores.Catalog
	var store catalog.Store
	var err error
	switch u.Scheme() {
	case "postgres", "postgresql":
		store, err = postgres.Open(ctx, postgresURL(c), postgres.Options{
			CallTimeout: c.Stores.PostgresStatementTimeout, MaxConns: c.Stores.PostgresPool, Pooler: c.Stores.PostgresPooler, ReadOnly: readOnly,
		})
	case "sqlite":
		store, err = sqlite.Open(ctx, filepath.FromSlash(u.URL().Path), sqlite.Options{})
	default:
		return nil, usagef("TIDEMARK_CATALOG_URL: the scheme %q is not known; write postgres://… or sqlite:///path", u.Scheme())
	}
	if err != nil {
		return nil, explainCatalog(c, err)
	}
	return store, nil
}

// postgresURL is the catalog's URL with the connect time-out of the settings, in libpq's whole seconds,
// unless the URL has its own.
func postgresURL(c config.Config) string {
	u := c.Stores.Catalog.URL()
	q := u.Query()
	if !q.Has("connect_timeout") {
		seconds := (c.Stores.PostgresConnectTimeout + time.Second - 1) / time.Second
		q.Set("connect_timeout", strconv.Itoa(int(seconds)))
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// openObjects picks the object store's driver by the URL's scheme. The bucket is not asked yet: a broker
// starts while it is away.
func openObjects(ctx context.Context, c config.Config) (objstore.StoreCloser, error) {
	drivers := map[string]func(context.Context, *url.URL) (objstore.StoreCloser, error){
		"s3": s3.Open, "minio": minio.Open, "file": file.Open,
	}
	u := c.Stores.Objects
	open, ok := drivers[u.Scheme()]
	if !ok {
		return nil, usagef("TIDEMARK_OBJECT_STORE_URL: the scheme %q is not known; write s3://…, minio://… or file:///path", u.Scheme())
	}
	at := u.URL()
	if c.Stores.NativeChecksums && u.Scheme() != "file" {
		q := at.Query()
		q.Set("checksums", "true")
		at.RawQuery = q.Encode()
	}
	store, err := open(ctx, at)
	if err != nil {
		return nil, explainObjects(c, err)
	}
	return store, nil
}
