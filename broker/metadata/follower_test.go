package metadata

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
)

// counted is a catalog that counts pulls.
type counted struct{ pulls atomic.Int64 }

func (c *counted) Pull(context.Context, catalog.Position) (catalog.Changes, error) {
	c.pulls.Add(1)
	return catalog.Changes{}, nil
}

// A topic that a client names and this broker does not know may be new: it is looked for at once, but not more often than
// the catalog bears.
func TestAnUnknownTopicIsLookedForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{}
		f := NewFollower(source, &topicconfig.Defaults{}, func(context.Context, *Image) {}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()

		time.Sleep(PullInterval + hurriedInterval + time.Millisecond)
		require.Equal(t, int64(1), source.pulls.Load())
		f.Hurry()
		synctest.Wait()
		require.Equal(t, int64(2), source.pulls.Load(), "at once")

		before := source.pulls.Load()
		for range 1000 {
			f.Hurry()
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, source.pulls.Load()-before, int64(time.Second/hurriedInterval+time.Second/PullInterval+1))
		cancel()
		require.NoError(t, <-ended)
	})
}
