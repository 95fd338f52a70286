package integration

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// A15: a broker is killed again and again while records come in and segments go out: no acknowledged record is lost, none
// is there twice, and after the grace the bucket holds what the catalog names.
func TestA15_KilledWhileProducingAndUploading(t *testing.T) {
	t.Parallel()
	t.Run("Postgres and S3", func(t *testing.T) {
		t.Parallel()
		stores := harness.RealStores(t)
		killAgainAndAgain(t, harness.Serve(t, stores, harness.Options{}), stores)
	})
	t.Run("embedded stores", func(t *testing.T) {
		t.Parallel()
		stores := harness.FolderStores(t)
		killAgainAndAgain(t, harness.Serve(t, stores, harness.Options{}), stores)
	})
}

func killAgainAndAgain(t *testing.T, n *harness.Node, stores harness.Stores) {
	n.CreateTopic(t, "soak", 4, small...)
	l := pour(t, n, "soak", 1000)
	for range kills(t) {
		l.flows(time.Minute, "produce after a start")
		l.goesOn(rand.IntN(1500)) // the moment of death is chance
		n.Kill()
		n.Start()
		require.NoError(t, untieredIsLocal(n, "soak"), "the local log begins no later than the tier ends")
	}
	l.flows(time.Minute, "produce after the last start")
	l.end(time.Minute)
	l.verify()
	drained(t, n, "soak")
	agree(t, n, stores)
	l.verify()
	t.Logf("%d records", l.log.Count())
}
