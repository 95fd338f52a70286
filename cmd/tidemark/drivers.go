package main

import (
	"context"
	"log/slog"
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

// catalogPatience is how long a start bears a catalog in Postgres that is not there yet. A SQLite catalog is this process's own:
// nobody mends it meanwhile.
func catalogPatience(c config.Config, log *slog.Logger) *catalog.Patience {
	if c.Stores.Catalog.Scheme() == "sqlite" {
		return nil
	}
	return catalog.NewPatience(c.Broker.StartTimeout, log, func(err error) string { return catalogRemedy(c, err) })
}

// awaitCatalog is openCatalog of a process that serves: it waits for a catalog that cannot be reached.
func awaitCatalog(ctx context.Context, c config.Config, p *catalog.Patience) (store catalog.Store, err error) {
	err = p.Await(ctx, func(ctx context.Context) error {
		store, err = catalogDriver(ctx, c, false)
		return err
	})
	if err != nil {
		return nil, explainCatalog(c, err)
	}
	return store, nil
}

// openCatalog picks the catalog's driver by the URL's scheme.
func openCatalog(ctx context.Context, c config.Config) (catalog.Store, error) {
	return openCatalogAs(ctx, c, false)
}

// openCatalogAs is openCatalog; of a catalog in Postgres it can be promised that it is only read, its schema included.
func openCatalogAs(ctx context.Context, c config.Config, readOnly bool) (catalog.Store, error) {
	store, err := catalogDriver(ctx, c, readOnly)
	if err != nil {
		return nil, explainCatalog(c, err)
	}
	return store, nil
}

func catalogDriver(ctx context.Context, c config.Config, readOnly bool) (catalog.Store, error) {
	u := c.Stores.Catalog
	switch u.Scheme() {
	case "postgres", "postgresql":
		return postgres.Open(ctx, postgresURL(c), postgres.Options{
			CallTimeout: c.Stores.PostgresStatementTimeout, MaxConns: c.Stores.PostgresPool, Pooler: c.Stores.PostgresPooler, ReadOnly: readOnly,
		})
	case "sqlite":
		return sqlite.Open(ctx, filepath.FromSlash(u.URL().Path), sqlite.Options{})
	}
	return nil, usagef("TIDEMARK_CATALOG_URL: the scheme %q is not known; write postgres://… or sqlite:///path", u.Scheme())
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
