package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/topicconfig"
)

// cluster is an environment that serve accepts.
func cluster(more ...string) []string {
	return append([]string{"TIDEMARK_BROKER_ID=3", "TIDEMARK_CATALOG_URL=postgres://u:hunter2@db/tm",
		"TIDEMARK_OBJECT_STORE_URL=s3://bucket/prefix?region=x", "HOME=/nowhere", "PATH="}, more...)
}

func TestServeWithWhatItMustBeTold(t *testing.T) {
	c, err := Load(cluster())
	require.NoError(t, err)
	require.Equal(t, int32(3), c.Broker.ID)
	require.Equal(t, "127.0.0.1:9092", c.Network.Listeners[0].Address())
	require.Equal(t, c.Network.Listeners, c.Network.Advertised)
	require.Equal(t, "PLAINTEXT", c.Network.InterBroker)
	require.Equal(t, time.Minute, c.Tier.FreeDelay)
	require.Equal(t, 10*time.Minute, c.Tier.GCGrace)
	require.False(t, c.Topics.AutoCreate)
	require.Equal(t, Bytes(10<<30), c.Tier.CacheBytes)
	require.Equal(t, "tidemark-data/cache", c.Tier.CacheDir)
	require.Equal(t, "postgres", c.Stores.Catalog.Scheme())
	require.True(t, c.Set["TIDEMARK_BROKER_ID"])
	require.False(t, c.Set["TIDEMARK_FREE_DELAY"])
}

func TestServeHasNoDefaultForWhoItIsAndWhereThingsAre(t *testing.T) {
	t.Setenv("TIDEMARK_BROKER_ID", "9") // the process's own environment is not looked at
	for _, environ := range [][]string{nil, {"TIDEMARK_BROKER_ID="}} {
		_, err := Load(environ)
		for _, want := range []string{"TIDEMARK_BROKER_ID", "TIDEMARK_CATALOG_URL", "TIDEMARK_OBJECT_STORE_URL"} {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestAllFaultsAtOnceEachWithARemedy(t *testing.T) {
	_, err := Load(cluster("TIDEMARK_BROKER_ID=one", "TIDEMARK_FREE_DELAY=5", "TIDEMARK_CACHE_BYTES=lots", "TIDEMARK_COLD_READS=0",
		"TIDEMARK_LISTENERS=localhost:9092", "TIDEMARK_LOG_FORMAT=xml", "TIDEMARK_AUTO_CREATE_TOPICS=maybe",
		"TIDEMARK_LOG_LEVEL=loud", "TIDEMARK_DEFAULT_SEGMENT_BYTES=13", "TIDEMARK_FREE_DELY=1s", "TIDEMARK_FOO=1", "TIDEMARK_PRODUCE_MEMORY=1MiB"))
	var faults Faults
	require.True(t, errors.As(err, &faults))
	got := map[string]Fault{}
	for _, f := range faults {
		require.NotContains(t, got, f.Variable, "one fault a variable")
		require.NotEmpty(t, f.Problem)
		require.NotEmpty(t, f.Remedy)
		got[f.Variable] = f
	}
	require.Equal(t, `TIDEMARK_FREE_DELAY="5": not a duration; write a duration such as 250ms, 30s or 10m`, got["TIDEMARK_FREE_DELAY"].String())
	require.Equal(t, "did you mean TIDEMARK_FREE_DELAY?", got["TIDEMARK_FREE_DELY"].Remedy)
	require.Contains(t, got["TIDEMARK_FOO"].Remedy, "unset it", "the prefix that all share makes no two names alike")
	require.Contains(t, got["TIDEMARK_DEFAULT_SEGMENT_BYTES"].Problem, "Value must be at least 14")
	require.Equal(t, "write a value of type int, at least 14", got["TIDEMARK_DEFAULT_SEGMENT_BYTES"].Remedy)
	require.Equal(t, "write 1 to 10000", got["TIDEMARK_COLD_READS"].Remedy)
	require.Len(t, got, 12, "%v", err)
	require.Equal(t, 12, len(strings.Split(err.Error(), "\n")))
}

func TestWhatSettingsMeanTogether(t *testing.T) {
	rows := []struct {
		story string
		set   []string
		fault string // "" is none
	}{
		{"grace below the delay", []string{"TIDEMARK_GC_GRACE=30s"}, "TIDEMARK_GC_GRACE=\"30s\": not longer than TIDEMARK_FREE_DELAY (1m0s)"},
		{"sessions the wrong way round", []string{"TIDEMARK_GROUP_MAX_SESSION_TIMEOUT=1s"}, "TIDEMARK_GROUP_MIN_SESSION_TIMEOUT"},
		{"marks the wrong way round", []string{"TIDEMARK_DISK_PRODUCE_MARK=1MiB"}, "TIDEMARK_DISK_APPEND_MARK"},
		{"no marks", []string{"TIDEMARK_DISK_PRODUCE_MARK=0", "TIDEMARK_DISK_APPEND_MARK=0"}, ""},
		{"a listener that nobody can reach", []string{"TIDEMARK_LISTENERS=PLAINTEXT://0.0.0.0:9092"}, `clients cannot connect to "0.0.0.0"`},
		{"all interfaces, with a name for clients", []string{"TIDEMARK_LISTENERS=PLAINTEXT://:9092",
			"TIDEMARK_ADVERTISED_LISTENERS=PLAINTEXT://kafka-1:9092"}, ""},
		{"an advertised name that does not listen", []string{"TIDEMARK_ADVERTISED_LISTENERS=EXTERNAL://h:1"}, "no listener is named EXTERNAL"},
		{"two listeners, one told", []string{"TIDEMARK_LISTENERS=A://h:1,B://h:2", "TIDEMARK_ADVERTISED_LISTENERS=A://h:1"},
			"listener B has no advertised address"},
		{"two of one name", []string{"TIDEMARK_LISTENERS=A://h:1,a://h:2"}, "two listeners are named A"},
		{"brokers on the second", []string{"TIDEMARK_LISTENERS=A://h:1,B://h:2", "TIDEMARK_INTER_BROKER_LISTENER=b"}, ""},
		{"brokers on none", []string{"TIDEMARK_INTER_BROKER_LISTENER=C"}, "no listener has that name"},
		{"a listener of later", []string{"TIDEMARK_LISTENERS=SASL_SSL://h:1"}, "do not exist yet"},
		{"a port beyond", []string{"TIDEMARK_LISTENERS=A://h:70000"}, "not a number from 0 to 65535"},
		{"a trailing comma", []string{"TIDEMARK_LISTENERS=A://h:1,"}, "is not NAME://host:port"},
		{"a catalog of another kind", []string{"TIDEMARK_CATALOG_URL=mysql://x"}, `no catalog is called "mysql"`},
		{"a bucket of another kind", []string{"TIDEMARK_OBJECT_STORE_URL=gs://x"}, `no object store is called "gs"`},
		{"HTTP nowhere", []string{"TIDEMARK_HTTP_LISTEN=9644"}, "not host:port"},
		{"defaults that contradict", []string{"TIDEMARK_DEFAULT_CLEANUP_POLICY=compact", "TIDEMARK_DEFAULT_REMOTE_STORAGE_ENABLE=false"},
			"needs remote.storage.enable=true"},
		{"a default of min.insync", []string{"TIDEMARK_DEFAULT_MIN_INSYNC_REPLICAS=2", "TIDEMARK_DEFAULT_PARTITIONS=6"}, ""},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			_, err := Load(cluster(row.set...))
			if row.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.fault)
			}
		})
	}
}

func TestMemoryHoldsTheBudgets(t *testing.T) {
	_, err := Load(cluster("TIDEMARK_MEMORY=400MiB"))
	require.ErrorContains(t, err, "TIDEMARK_MEMORY")
	require.ErrorContains(t, err, "TIDEMARK_PRODUCE_MEMORY")
	c, err := Load(cluster("TIDEMARK_MEMORY=480MiB", "TIDEMARK_PRODUCE_MEMORY=100MiB"))
	require.NoError(t, err)
	require.Equal(t, Bytes(480<<20), c.Broker.Memory)
}

func TestTopicDefaultsReachTopics(t *testing.T) {
	c, err := Load(cluster("TIDEMARK_DEFAULT_SEGMENT_BYTES=1048576"))
	require.NoError(t, err)
	topic, err := c.Topics.Defaults.Resolve(nil, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), topic.SegmentBytes)
}

func TestPasswordsAreNeverShown(t *testing.T) {
	c, err := Load(cluster("TIDEMARK_HTTP_TOKEN=hunter2"))
	require.NoError(t, err)
	require.Equal(t, "hunter2", c.HTTP.Token.Reveal())
	require.Contains(t, c.Stores.Catalog.Reveal(), "hunter2")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, c.HTTP)+fmt.Sprintf(format, c.Stores), "hunter2", format)
	}
	for _, bad := range []string{"TIDEMARK_CATALOG_URL=mysql://u:hunter2@h/x", "TIDEMARK_CATALOG_URL=u:hunter2@h/x%zz",
		"TIDEMARK_OBJECT_STORE_URL=gs://b?secret_key=hunter2", "TIDEMARK_HTTP_TOKN=hunter2"} {
		_, err := Load(cluster(bad))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestDevNeedsNothing(t *testing.T) {
	dir := t.TempDir() + "/with space"
	c, err := Dev(DevOptions{DataDir: dir, Kafka: "127.0.0.1:0"}, nil)
	require.NoError(t, err)
	require.Equal(t, int32(1), c.Broker.ID)
	require.Equal(t, dir+"/catalog.db", c.Stores.Catalog.URL().Path)
	require.Equal(t, dir+"/objects", c.Stores.Objects.URL().Path)
	require.Equal(t, dir+"/cache", c.Tier.CacheDir)
	require.Equal(t, 5*time.Second, c.Tier.FreeDelay)
	require.Equal(t, 30*time.Second, c.Tier.GCGrace)
	require.True(t, c.Topics.AutoCreate)
	require.Equal(t, 0, c.Network.Listeners[0].Port)
}

func TestFlagsWinOverVariablesAndTheseOverDevsDefaults(t *testing.T) {
	environ := []string{"TIDEMARK_DATA_DIR=/elsewhere", "TIDEMARK_FREE_DELAY=1s", "TIDEMARK_HTTP_LISTEN=127.0.0.1:1"}
	c, err := Dev(DevOptions{DataDir: "/here", HTTP: "127.0.0.1:2"}, environ)
	require.NoError(t, err)
	require.Equal(t, "/here", c.Broker.DataDir)
	require.Equal(t, "/here/catalog.db", c.Stores.Catalog.URL().Path)
	require.Equal(t, "127.0.0.1:2", c.HTTP.Listen)
	require.Equal(t, time.Second, c.Tier.FreeDelay)
	_, err = Dev(DevOptions{Kafka: "nonsense"}, nil)
	require.ErrorContains(t, err, "TIDEMARK_LISTENERS")
}

// An empty variable counts as not given, for the address of HTTP too; none is a word.
func TestHTTPMayBeTurnedOff(t *testing.T) {
	for value, want := range map[string]string{"": "127.0.0.1:9644", "none": "", "127.0.0.1:1": "127.0.0.1:1"} {
		c, err := Load(cluster("TIDEMARK_HTTP_LISTEN=" + value))
		require.NoError(t, err, value)
		require.Equal(t, want, c.HTTP.Listen, value)
	}
	c, err := Dev(DevOptions{HTTP: "none"}, nil)
	require.NoError(t, err)
	require.Empty(t, c.HTTP.Listen)
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1048576": 1 << 20, "64MiB": 64 << 20, "1 GiB": 1 << 30, "5MB": 5e6, "7B": 7} {
		var b Bytes
		require.NoError(t, b.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, b, text)
		var again Bytes
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, again)
	}
	for _, text := range []string{"", "-1", "1.5GiB", "9999999PiB", "MiB", "10 parsecs"} {
		var b Bytes
		require.Error(t, b.UnmarshalText([]byte(text)), text)
	}
}

// TestEveryVariableIsDescribed: the tags are the documentation and the checks, so they are checked here.
func TestEveryVariableIsDescribed(t *testing.T) {
	names, fields := map[string]bool{}, map[string]bool{}
	for _, v := range Variables() {
		require.NotEmpty(t, v.Doc, v.Name)
		require.NotContains(t, names, v.Name)
		require.NotContains(t, fields, v.field, "%s: a parse error names the field alone", v.Name)
		names[v.Name], fields[v.field] = true, true
		if v.Kind == "number" || v.Kind == "size" || v.Kind == "duration" {
			require.NotEmpty(t, v.max, v.Name)
			if v.min != "" {
				require.Less(t, bound(v, v.min), bound(v, v.max), v.Name)
			}
		}
		_, isTopic := topicconfig.ByVariable(v.Name)
		require.False(t, isTopic, "%s would hide a topic config's default", v.Name)
	}
	for _, row := range topicconfig.BrokerNames() {
		if strings.HasPrefix(row.Doc, Prefix) && !strings.HasPrefix(row.Doc, topicconfig.VariablePrefix) {
			require.True(t, names[row.Doc], "%s: %s does not exist", row.Name, row.Doc)
		}
	}
}

func TestThePrintedPageHoldsEveryVariable(t *testing.T) {
	var text, page strings.Builder
	require.NoError(t, WriteText(&text))
	require.NoError(t, WriteMarkdown(&page))
	for _, v := range Variables() {
		require.Contains(t, text.String(), v.Name)
		require.Contains(t, page.String(), "`"+v.Name+"`")
	}
	require.Contains(t, text.String(), "TIDEMARK_DEFAULT_SEGMENT_BYTES")
}
