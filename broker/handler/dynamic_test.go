package handler

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// storedSettings is a dynamic.Store in memory.
type storedSettings struct{ b []byte }

func (s *storedSettings) StoreDynamicConfig(b []byte) error { s.b = b; return nil }
func (s *storedSettings) DynamicConfig() []byte             { return s.b }

// KIP-73: kafka-reassign-partitions sets the rates of throttled replication on running brokers before a move, and takes them
// away, with one that means nothing here, after each.
func TestKIP73_TheRatesOfARunningBrokerAreSetAndTakenAway(t *testing.T) {
	h := build(t)
	const leader, follower, dirs = "leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"
	broker := kmsg.ConfigResourceTypeBroker
	got := byName(describe(h, broker, "1"))
	for _, name := range []string{leader, follower, dirs} {
		require.False(t, got[name].ReadOnly, name)
		require.NotEqual(t, kmsg.ConfigSourceDynamicBrokerConfig, got[name].Source, name)
	}
	require.Zero(t, alter(h, broker, "1", change{leader, unset, ""}, change{follower, unset, ""}, change{dirs, unset, ""}).ErrorCode)
	require.Zero(t, alter(h, broker, "1", change{leader, set, "5000"}, change{follower, set, "6000"}).ErrorCode)
	got = byName(describe(h, broker, "1"))
	for name, value := range map[string]string{leader: "5000", follower: "6000"} {
		require.Equal(t, value, *got[name].Value)
		require.Equal(t, kmsg.ConfigSourceDynamicBrokerConfig, got[name].Source)
		require.Len(t, got[name].ConfigSynonyms, 2)
	}
	require.Equal(t, kerr.InvalidConfig.Code, alter(h, broker, "1", change{leader, set, "1"}, change{follower, set, "fast"}).ErrorCode)
	require.Equal(t, "5000", *byName(describe(h, broker, "1"))[leader].Value, "all or none")

	require.Zero(t, alter(h, broker, "1", change{leader, unset, ""}, change{follower, unset, ""}, change{dirs, unset, ""}).ErrorCode)
	require.NotEqual(t, kmsg.ConfigSourceDynamicBrokerConfig, byName(describe(h, broker, "1"))[leader].Source)

	other := alter(h, broker, "2", change{leader, set, "1"})
	require.Equal(t, kerr.InvalidRequest.Code, other.ErrorCode, "another broker's settings are its own")
	fixed := alter(h, broker, "1", change{"log.retention.ms", set, "1"})
	require.Equal(t, kerr.InvalidRequest.Code, fixed.ErrorCode)
	require.Contains(t, *fixed.ErrorMessage, "TIDEMARK_")
}
