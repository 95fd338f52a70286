package hotlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/record/producer"
)

// The wall clock is set, by an hour and by ten years, forward and back: no producer is forgotten early, so that its retries
// are known, and each is in time.
func TestL5_AWallClockThatIsSetForgetsNoProducer(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			o := testOptions(t)
			wall, passed := time.UnixMilli(day), time.Duration(0)
			o.Clock = Clock{Wall: func() time.Time { return wall.Add(passed) }, Mono: func() time.Duration { return passed }}
			o.Config.ProducerExpiry = 10 * time.Minute
			l := open(t, o)
			write := func(id int64, sequence int32) {
				req := request(t, from(id, 0, sequence, 1))
				req.AppendTime = o.Clock.Wall().UnixMilli()
				_, err := l.Append(req)
				require.NoError(t, err)
			}
			write(7, 0)
			passed += 5 * time.Minute
			wall = wall.Add(jump)
			require.Zero(t, l.ExpireProducers(), "idle for five minutes")
			write(8, 0)
			require.True(t, add(t, l, from(7, 0, 0, 1)).Duplicate)
			passed += 5 * time.Minute
			require.Equal(t, 1, l.ExpireProducers(), "idle for ten minutes")
			_, err := l.Append(request(t, from(8, 0, 2, 1)))
			require.ErrorIs(t, err, producer.ErrOutOfOrderSequence, "8 is known")
			wall = wall.Add(-jump)
			passed += 5 * time.Minute
			require.Equal(t, 1, l.ExpireProducers(), "what was written by a wrong clock goes in time too")
		})
	}
}
