package topicconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func resolved(t *testing.T, overrides map[string]string, replicas int) Topic {
	t.Helper()
	topic, err := Defaults{}.Resolve(overrides, replicas)
	require.NoError(t, err)
	return topic
}

func TestATopicThatSetsNothing(t *testing.T) {
	topic := resolved(t, nil, 1)
	require.Equal(t, int64(64<<20), topic.SegmentBytes)
	require.True(t, topic.RemoteStorageEnable)
	require.True(t, topic.CleanupDelete)
	require.False(t, topic.CleanupCompact)
	require.Equal(t, Millis(7*24*3600*1000), topic.RetentionMs)
	require.Equal(t, topic.RetentionMs, topic.LocalRetentionMs, "-2 follows")
	require.Equal(t, int64(-1), topic.LocalRetentionBytes)
	require.Equal(t, time.Hour, topic.RemoteCopyMaxDelayMs.Duration())
	require.Equal(t, 1, topic.MinInsyncReplicas)
	require.Equal(t, 2, resolved(t, nil, 3).MinInsyncReplicas)
}

// TestEveryKafkaNameIsKnown is the list of TopicConfig of Kafka 3.0 to 4.4 (interleavings U2).
func TestU2_EveryKafkaNameIsKnown(t *testing.T) {
	const names = `cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
		delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
		follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
		local.retention.bytes local.retention.ms max.compaction.lag.ms max.decompressed.message.bytes max.message.bytes
		message.downconversion.enable message.format.version message.timestamp.after.max.ms message.timestamp.before.max.ms
		message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms
		min.insync.replicas preallocate remote.copy.lag.bytes remote.copy.lag.ms remote.log.copy.disable
		remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes
		segment.jitter.ms segment.ms unclean.leader.election.enable`
	known := map[string]bool{}
	for _, name := range strings.Fields(names) {
		d, ok := Lookup(name)
		require.True(t, ok, name)
		require.False(t, d.Ours, name)
		known[name] = true
	}
	for _, d := range Topics() {
		require.True(t, known[d.Name] || d.Ours, "%s is neither Kafka's nor marked as ours", d.Name)
		require.NotEmpty(t, d.Doc)
		_, err := d.parse(d.Default)
		require.NoError(t, err, "%s: its default must be valid", d.Name)
		back, ok := ByVariable(d.Variable())
		require.True(t, ok)
		require.Equal(t, d.Name, back.Name, "variables map to one name")
	}
	require.NoError(t, Defaults{}.Check(map[string]string{"segment.jitter.ms": "5", "preallocate": "TRUE",
		"leader.replication.throttled.replicas": "0:1, 1:2", "message.format.version": "2.8"}, 1))
}

func TestRefusalsAreSentences(t *testing.T) {
	rows := []struct {
		story     string
		overrides map[string]string
		sentence  string // "" is allowed
	}{
		{"a name that nobody knows", map[string]string{"retention.mss": "1"},
			"Unknown topic config name: retention.mss (did you mean retention.ms?)."},
		{"no number", map[string]string{"segment.bytes": "1MB"}, "Invalid value 1MB for configuration segment.bytes: Not a number of type INT."},
		{"too large for its type", map[string]string{"segment.bytes": "3000000000"}, "Not a number of type INT."},
		{"below its range", map[string]string{"segment.bytes": "13"}, "Value must be at least 14."},
		{"the smallest segment", map[string]string{"segment.bytes": " 14 "}, ""},
		{"no boolean", map[string]string{"preallocate": "yes"}, "Expected value to be either true or false."},
		{"nothing at all", map[string]string{"retention.ms": ""}, `Invalid value "" for configuration retention.ms: Not a number of type LONG.`},
		{"a policy that does not exist", map[string]string{"cleanup.policy": "delete,squeeze"}, `"squeeze" is none of: compact, delete.`},
		{"both policies", map[string]string{"cleanup.policy": "compact, delete"}, ""},
		{"an empty list keeps everything", map[string]string{"cleanup.policy": ""}, ""},
		{"no ratio", map[string]string{"min.cleanable.dirty.ratio": "NaN"}, "Value must be between 0 and 1."},
		{"retention for ever, in Kafka UI's way", map[string]string{"retention.ms": "9223372036854775807"}, ""},
		{"compaction without the tier", map[string]string{"cleanup.policy": "compact", "remote.storage.enable": "false"},
			"it needs remote.storage.enable=true."},
		{"local time above the whole", map[string]string{"retention.ms": "1000", "local.retention.ms": "1001"},
			"Value must not be more than that of retention.ms, which is 1000."},
		{"local time without limit below a limit", map[string]string{"retention.ms": "1000", "local.retention.ms": "-1"},
			"Value must not be -1 (no limit) while retention.ms is 1000."},
		{"local size within the whole", map[string]string{"retention.bytes": "1000", "local.retention.bytes": "1000"}, ""},
		{"local size above the whole", map[string]string{"retention.bytes": "1000", "local.retention.bytes": "1001"}, "retention.bytes, which is 1000."},
		{"local retention without a tier is not looked at", map[string]string{"remote.storage.enable": "false",
			"retention.ms": "1", "local.retention.ms": "2"}, ""},
		{"a copy lag above local retention", map[string]string{"local.retention.ms": "1000", "remote.copy.lag.ms": "2000"},
			"Value must not be more than that of local.retention.ms, which is 1000."},
		{"a copy lag of -1 follows", map[string]string{"local.retention.ms": "1000", "remote.copy.lag.ms": "-1"}, ""},
		{"lags the wrong way round", map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
			"it must not be more than max.compaction.lag.ms, which is 5."},
		{"throttles", map[string]string{"follower.replication.throttled.replicas": "1-2"}, "neither `*` nor a list of partition:broker"},
		{"all throttled", map[string]string{"follower.replication.throttled.replicas": "*"}, ""},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			err := Defaults{}.Check(row.overrides, 1)
			if row.sentence == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, row.sentence)
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	err := Defaults{}.Check(map[string]string{"segment.bytes": "1", "retention.ms": "x", "no.such": "y"}, 1)
	for _, want := range []string{"segment.bytes", "retention.ms", "no.such"} {
		require.ErrorContains(t, err, want)
	}
}

func TestThreeLayersAndTheirSources(t *testing.T) {
	d, err := NewDefaults(map[string]string{"segment.bytes": "1048576", "local.retention.ms": "3600000"})
	require.NoError(t, err)
	entry := func(name string, overrides map[string]string) Entry {
		for _, e := range d.Describe(overrides, 1) {
			if e.Name == name {
				return e
			}
		}
		t.Fatalf("%s is not described", name)
		return Entry{}
	}
	own := map[string]string{"segment.bytes": "2048", "retention.ms": "600000"}
	require.Equal(t, SourceTopic, entry("segment.bytes", own).Source)
	require.Equal(t, []Synonym{{"segment.bytes", "2048", SourceTopic}, {"log.segment.bytes", "1048576", SourceStaticBroker},
		{"log.segment.bytes", "67108864", SourceDefault}}, entry("segment.bytes", own).Synonyms)
	require.Equal(t, SourceStaticBroker, entry("segment.bytes", nil).Source)
	require.Equal(t, SourceDefault, entry("index.interval.bytes", own).Source)

	require.NoError(t, d.Check(own, 1), "a broker-wide local retention above a topic's whole one is not the topic's fault")
	topic, err := d.Resolve(own, 1)
	require.NoError(t, err)
	require.Equal(t, Millis(600000), topic.LocalRetentionMs, "it is held down instead")
}

func TestIncrementalChanges(t *testing.T) {
	present := map[string]string{"cleanup.policy": "delete", "retention.ms": "5"}
	next, err := Defaults{}.Apply(present, []Change{
		{Name: "cleanup.policy", Op: Append, Value: "compact"},
		{Name: "retention.ms", Op: Delete},
		{Name: "segment.bytes", Op: Set, Value: " 100 "},
	}, 1)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"cleanup.policy": "delete,compact", "segment.bytes": "100"}, next)
	require.Equal(t, map[string]string{"cleanup.policy": "delete", "retention.ms": "5"}, present, "the input stays")

	next, err = Defaults{}.Apply(nil, []Change{{Name: "cleanup.policy", Op: Subtract, Value: "delete"}}, 1)
	require.NoError(t, err, "lists begin at the default")
	require.Equal(t, "", next["cleanup.policy"])

	_, err = Defaults{}.Apply(nil, []Change{{Name: "segment.bytes", Op: Append, Value: "1"}, {Name: "nope", Op: Set}, {Name: "nope", Op: Delete}}, 1)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "which is no list")
	require.ErrorContains(t, err, "Unknown topic config name: nope")
	require.ErrorContains(t, err, "changed twice")
}

func TestTheTierCannotBeGivenUpByAConfig(t *testing.T) {
	with, without := resolved(t, nil, 1), resolved(t, map[string]string{"remote.storage.enable": "false"}, 1)
	require.ErrorIs(t, CheckChange(with, without), ErrInvalid)
	require.NoError(t, CheckChange(without, with))
}

func TestMillisNeverOverflow(t *testing.T) {
	require.Equal(t, time.Duration(1<<63-1), Millis(1<<63-1).Duration())
	require.Equal(t, -time.Millisecond, Millis(-1).Duration())
	require.Equal(t, time.Second, Millis(1000).Duration())
}

func TestU3_BrokersAreDescribedUnderKafkasNames(t *testing.T) {
	d, err := NewDefaults(map[string]string{"retention.ms": "86400000"})
	require.NoError(t, err)
	got := map[string]Entry{}
	for _, e := range d.DescribeBroker(BrokerFacts{ID: 7, AutoCreateTopics: true, DefaultPartitions: 4, DefaultReplication: 3,
		OffsetsRetention: 7 * 24 * time.Hour, Set: map[string]bool{"TIDEMARK_DEFAULT_PARTITIONS": true}}) {
		_, twice := got[e.Name]
		require.False(t, twice, e.Name)
		got[e.Name] = e
	}
	for name, want := range map[string]string{"broker.id": "7", "default.replication.factor": "3", "delete.topic.enable": "true",
		"auto.create.topics.enable": "true", "num.partitions": "4", "message.max.bytes": "1048588", "offsets.retention.minutes": "10080",
		"log.retention.ms": "86400000", "log.retention.hours": "24", "log.roll.hours": "168", "min.insync.replicas": "2",
		"log.cleanup.policy": "delete", "max.connections": "2147483647"} {
		require.Equal(t, want, got[name].Value, name)
		require.True(t, got[name].ReadOnly)
	}
	require.True(t, got["broker.rack"].Null)
	require.Equal(t, SourceStaticBroker, got["num.partitions"].Source)
	require.Equal(t, SourceStaticBroker, got["log.retention.hours"].Source)
	require.Equal(t, SourceDefault, got["broker.id"].Source)
}

func TestGroupConfigsAreDescribed(t *testing.T) {
	for _, d := range Groups() {
		_, err := d.parse(d.Default)
		require.NoError(t, err, d.Name)
	}
	for _, e := range DescribeGroup(map[string]string{"consumer.session.timeout.ms": "30000"}) {
		if e.Name == "consumer.session.timeout.ms" {
			require.Equal(t, SourceGroup, e.Source)
			require.Equal(t, "30000", e.Value)
		}
	}
}

// TestWhatCheckLetsInResolves: no overrides that pass Check can make a partition fail to load later, and local retention
// never reaches above the whole.
func TestWhatCheckLetsInResolves(t *testing.T) {
	texts := []string{"-2", "-1", "0", "1", "14", "1000", "2147483647", "9223372036854775807", "true", "false", "compact", "x", "", "0.5"}
	rapid.Check(t, func(t *rapid.T) {
		overrides := map[string]string{}
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			d := topicTable[rapid.IntRange(0, len(topicTable)-1).Draw(t, "config")]
			overrides[d.Name] = rapid.SampledFrom(texts).Draw(t, "value")
		}
		if (Defaults{}).Check(overrides, 1) != nil {
			return
		}
		topic, err := Defaults{}.Resolve(overrides, 1)
		require.NoError(t, err)
		if topic.RetentionMs != -1 {
			require.GreaterOrEqual(t, topic.LocalRetentionMs, Millis(0))
			require.LessOrEqual(t, topic.LocalRetentionMs, topic.RetentionMs)
		}
		if topic.RetentionBytes != -1 {
			require.LessOrEqual(t, topic.LocalRetentionBytes, topic.RetentionBytes)
		}
	})
}

func TestThrottledReplicasAreThoseThatAreListed(t *testing.T) {
	of := func(text string) Throttled {
		got, err := Defaults{}.Resolve(map[string]string{"leader.replication.throttled.replicas": text}, 1)
		require.NoError(t, err)
		require.False(t, got.FollowerThrottled.Any())
		return got.LeaderThrottled
	}
	for _, text := range []string{"", "none"} {
		require.False(t, of(text).Any())
		require.False(t, of(text).Has(0, 1))
	}
	require.True(t, of("*").Any())
	require.True(t, of("*").Has(7, 3))
	some := of("0:1, 11:12")
	require.True(t, some.Has(0, 1))
	require.True(t, some.Has(11, 12))
	require.False(t, some.Has(1, 12))
	require.False(t, some.Has(1, 1))
	require.Equal(t, some, of("0:1,11:12"))
}
