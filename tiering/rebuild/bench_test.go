package rebuild

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/postgres"
	"tidemark/internal/testenv"
	"tidemark/record"
	"tidemark/tiering/checkpoint"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
	"tidemark/tiering/object/objecttest"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/s3"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// BenchmarkRebuild writes an empty Postgres catalog again from 1,000 objects in S3, of about 20 KB each:
// with a checkpoint that has all of them, and from the objects alone.
func BenchmarkRebuild(b *testing.B) {
	srv := testenv.S3(b)
	b.Setenv("AWS_ACCESS_KEY_ID", srv.AccessKey)
	b.Setenv("AWS_SECRET_ACCESS_KEY", srv.SecretKey)
	at, err := url.Parse("s3://" + srv.Bucket + "/bench?path_style=true&region=" + srv.Region + "&endpoint=" + url.QueryEscape(srv.Endpoint))
	require.NoError(b, err)
	store, err := s3.Open(b.Context(), at)
	require.NoError(b, err)
	b.Cleanup(func() { _ = store.Close() })
	open := func() catalog.Store {
		cat, err := postgres.Open(b.Context(), testenv.Postgres(b), postgres.Options{})
		require.NoError(b, err)
		b.Cleanup(func() { _ = cat.Close() })
		return cat
	}
	const objects, span = 1000, record.Offset(400)
	w := catalogtest.NewWorld(b, open())
	p := w.OnePartition()
	cluster, err := w.S.Cluster(b.Context())
	require.NoError(b, err)
	for i := range record.Offset(objects) {
		built, raw := objecttest.Build(b, object.Spec{Cluster: object.ID(cluster.ID), Topic: object.ID(p.ID.Topic), TopicName: "events", Base: i * span, Next: (i + 1) * span, AppendTime: 5})
		require.NoError(b, store.Put(b.Context(), built.Key(), objstore.Bytes(raw), objstore.PutOptions{}))
		p.Publish(p.Announce(inspect.Row(&built.Footer, built.SHA256)))
	}
	run := func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			into := open()
			b.StartTimer()
			report, err := Run(b.Context(), Options{Store: store, Catalog: into, Broker: 1, Watch: time.Millisecond})
			require.NoError(b, err)
			require.EqualValues(b, objects, report.Segments)
		}
	}
	b.Run("objects alone", run)
	writer, err := checkpoint.NewWriter(checkpoint.Options{Store: store, Catalog: w.S})
	require.NoError(b, err)
	_, err = writer.Write(b.Context())
	require.NoError(b, err)
	b.Run("checkpoint", run)
}
