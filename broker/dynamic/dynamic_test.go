package dynamic

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/topicconfig"
)

type memory struct {
	stored []byte
	fails  error
}

func (m *memory) StoreDynamicConfig(b []byte) error {
	if m.fails == nil {
		m.stored = b
	}
	return m.fails
}

func (m *memory) DynamicConfig() []byte { return m.stored }

func set(name, value string) topicconfig.Change {
	return topicconfig.Change{Name: name, Op: topicconfig.Set, Value: value}
}

func TestRatesAreInForceOnceAcknowledgedAndAfterARestart(t *testing.T) {
	m := &memory{}
	s, err := Open(m)
	require.NoError(t, err)
	now := time.Now()
	s.Follower.Spend(1000, now)
	require.Zero(t, s.Follower.Pause(now), "nothing is set")

	alter := func(validateOnly bool, changes ...topicconfig.Change) error {
		return s.Alter(t.Context(), changes, validateOnly)
	}
	require.NoError(t, alter(true, set(topicconfig.FollowerThrottledRate, "1000")))
	require.Empty(t, s.Values(), "it was only asked")
	require.NoError(t, alter(false, set(topicconfig.FollowerThrottledRate, "1000"), set(topicconfig.LeaderThrottledRate, "0")))

	m.fails = errors.New("the disk is full")
	require.ErrorIs(t, alter(false, set(topicconfig.FollowerThrottledRate, "7")), m.fails)
	require.Equal(t, "1000", s.Values()[topicconfig.FollowerThrottledRate], "what is not stored is not in force")
	m.fails = nil

	again, err := Open(m)
	require.NoError(t, err)
	require.Equal(t, s.Values(), again.Values())
	now = time.Now()
	again.Follower.Spend(2000, now)
	require.Equal(t, 2*time.Second, again.Follower.Pause(now))
	again.Leader.Spend(10, now)
	require.Equal(t, 10*time.Second, again.Leader.Pause(now), "0 is as slow as can be")

	s = again
	require.NoError(t, alter(false, topicconfig.Change{Name: topicconfig.FollowerThrottledRate, Op: topicconfig.Delete}))
	require.Zero(t, s.Follower.Pause(now))
}

func TestWhatIsNoDynamicSettingIsRefused(t *testing.T) {
	s, err := Open(&memory{})
	require.NoError(t, err)
	for sentence, c := range map[string]topicconfig.Change{
		"cannot be changed":                   set("log.retention.ms", "1"),
		"Not a number of type LONG":           set(topicconfig.LeaderThrottledRate, "fast"),
		"Value must be at least 0":            set(topicconfig.LeaderThrottledRate, "-1"),
		"append and subtract are not allowed": {Name: topicconfig.LeaderThrottledRate, Op: topicconfig.Append, Value: "1"},
	} {
		err := s.Alter(t.Context(), []topicconfig.Change{c}, false)
		require.ErrorIs(t, err, topicconfig.ErrInvalid)
		require.ErrorContains(t, err, sentence)
	}
	require.Empty(t, s.Values())
}
