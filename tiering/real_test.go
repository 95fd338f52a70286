package tiering

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog/postgres"
	"tidemark/internal/testenv"
	"tidemark/record"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/s3"
)

// TestRealStores: uploads and cold reads over a real S3 server and a real Postgres, each of which goes away
// for a while; hot callers are never blocked, and everything catches up.
func TestRealStores(t *testing.T) {
	server, pg := testenv.StartS3(t), testenv.StartPostgres(t)
	bucket := server.NewBucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", bucket.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.SecretKey)
	u, err := url.Parse(bucket.URL("tier"))
	require.NoError(t, err)
	st, err := s3.Open(t.Context(), u)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	cat, err := postgres.Open(t.Context(), pg.DSN(t), postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	limiter := objstore.NewLimiter(objstore.LimiterOptions{})
	r := newRigOn(t, cat, limiter.For(objstore.Upload, st), func(o *Options) { o.CallTimeout = 5 * time.Second })

	l := r.lead(0, func(l *memLog) { l.size = 100_000; l.segments(4) })
	r.tiered(0, 40)
	r.consume(0, l, 0, 40)

	server.Stop(t)
	l.segments(2)
	r.tier.Wake(r.p(0))
	r.until(func() bool { s, _ := r.tier.Status(r.p(0)); return s.Failures > 1 }, func() string { return "not stalled" })
	require.Equal(t, record.Offset(40), r.bounds(0).Tiered)
	server.Start(t)
	r.tiered(0, 60)

	pg.Stop(t)
	l.segments(2)
	r.tier.Wake(r.p(0))
	r.until(func() bool { s, _ := r.tier.Status(r.p(0)); return s.Failures > 1 }, func() string { return "not stalled" })
	r.consume(0, l, 45, 60)
	pg.Start(t)
	r.tiered(0, 80)

	r.restart()
	r.consume(0, l, 0, 80)
	st2, err := r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Equal(t, record.Offset(80), st2.Producers.End())
	r.collectAll()
	r.bucketIsCatalog(0)
}
