package topicconfig

import (
	"sort"
	"strconv"
	"time"
)

// BrokerFacts are the settings of one broker that DescribeConfigs shows under Kafka's broker names. Durations of zero
// and sizes of zero mean what their setting says they mean; they are shown as they are.
type BrokerFacts struct {
	ID                   int32
	Rack                 string
	Listeners            string
	AdvertisedListeners  string
	InterBrokerListener  string
	DataDir              string
	AutoCreateTopics     bool
	DefaultPartitions    int
	DefaultReplication   int
	MaxConnections       int
	MaxConnectionsPerIP  int
	ConnectionIdle       time.Duration
	MaxRequestBytes      int64
	SendBuffer           int64 // 0: the system's own
	ProduceMemory        int64
	FetchMaxBytes        int64
	OffsetsRetention     time.Duration
	OffsetMetadataMax    int
	GroupRebalanceDelay  time.Duration
	GroupMinSession      time.Duration
	GroupMaxSession      time.Duration
	GroupMaxSize         int
	ProducerIDExpiration time.Duration
	UploadBytesPerSecond int64
	ShutdownTimeout      time.Duration
	FetchSessions        int

	ReplicaLagMax         time.Duration
	ReplicaFetchBytes     int64
	ReplicaPartitionBytes int64
	ReplicationBandwidth  int64

	// Dynamic is what tools have set on the running broker, by Kafka's names.
	Dynamic map[string]string
	// Set says which variables the process was given (TIDEMARK_…); the rest are built-in defaults.
	Set map[string]bool
}

// fact is one row of the broker table: a Kafka name, its type, the variable or the sentence that it comes from, and what
// it shows.
type fact struct {
	name string
	kind Type
	from string
	show func(BrokerFacts) (shown string, null bool)
}

func text(get func(BrokerFacts) string) func(BrokerFacts) (string, bool) {
	return func(f BrokerFacts) (string, bool) { s := get(f); return s, s == "" }
}

func number[N ~int | ~int32 | ~int64](get func(BrokerFacts) N) func(BrokerFacts) (string, bool) {
	return func(f BrokerFacts) (string, bool) { return strconv.FormatInt(int64(get(f)), 10), false }
}

// unlimited is number for settings whose zero means "no limit", which Kafka writes as the largest value.
func unlimited[N ~int | ~int64](most int64, get func(BrokerFacts) N) func(BrokerFacts) (string, bool) {
	return func(f BrokerFacts) (string, bool) {
		if n := int64(get(f)); n > 0 {
			return strconv.FormatInt(n, 10), false
		}
		return strconv.FormatInt(most, 10), false
	}
}

func millis(get func(BrokerFacts) time.Duration) func(BrokerFacts) (string, bool) {
	return number(func(f BrokerFacts) int64 { return get(f).Milliseconds() })
}

func minutes(get func(BrokerFacts) time.Duration) func(BrokerFacts) (string, bool) {
	return number(func(f BrokerFacts) int64 { return int64(get(f) / time.Minute) })
}

func fixed(value string) func(BrokerFacts) (string, bool) {
	return func(BrokerFacts) (string, bool) { return value, false }
}

const (
	maxInt32 = 1<<31 - 1
	maxInt64 = 1<<63 - 1
)

// brokerFacts maps Kafka's broker names to our settings. Names that are the broker-wide default of a topic config are not
// here: they come from the topic table.
var brokerFacts = []fact{
	{"broker.id", Int, "TIDEMARK_BROKER_ID", number(func(f BrokerFacts) int32 { return f.ID })},
	{"node.id", Int, "TIDEMARK_BROKER_ID", number(func(f BrokerFacts) int32 { return f.ID })},
	{"broker.rack", String, "TIDEMARK_RACK", text(func(f BrokerFacts) string { return f.Rack })},
	{"process.roles", List, "Every broker can be the controller.", fixed("broker,controller")},
	{"listeners", List, "TIDEMARK_LISTENERS", text(func(f BrokerFacts) string { return f.Listeners })},
	{"advertised.listeners", List, "TIDEMARK_ADVERTISED_LISTENERS", text(func(f BrokerFacts) string { return f.AdvertisedListeners })},
	{"inter.broker.listener.name", String, "TIDEMARK_INTER_BROKER_LISTENER", text(func(f BrokerFacts) string { return f.InterBrokerListener })},
	{"security.inter.broker.protocol", String, "How brokers talk.", fixed("PLAINTEXT")},
	{"log.dir", List, "TIDEMARK_DATA_DIR", text(func(f BrokerFacts) string { return f.DataDir })},
	{"log.dirs", List, "TIDEMARK_DATA_DIR", text(func(f BrokerFacts) string { return f.DataDir })},
	{"auto.create.topics.enable", Boolean, "TIDEMARK_AUTO_CREATE_TOPICS",
		func(f BrokerFacts) (string, bool) { return strconv.FormatBool(f.AutoCreateTopics), false }},
	{"delete.topic.enable", Boolean, "Topics can always be deleted.", fixed("true")},
	{"controlled.shutdown.enable", Boolean, "SIGTERM hands over first.", fixed("true")},
	{"num.partitions", Int, "TIDEMARK_DEFAULT_PARTITIONS", number(func(f BrokerFacts) int { return f.DefaultPartitions })},
	{"default.replication.factor", Int, "TIDEMARK_DEFAULT_REPLICATION_FACTOR", number(func(f BrokerFacts) int { return f.DefaultReplication })},
	{"remote.log.storage.system.enable", Boolean, "The object tier is always there.", fixed("true")},
	{"remote.log.manager.copy.max.bytes.per.second", Long, "TIDEMARK_UPLOAD_BANDWIDTH",
		unlimited(maxInt64, func(f BrokerFacts) int64 { return f.UploadBytesPerSecond })},
	{"max.connections", Int, "TIDEMARK_MAX_CONNECTIONS", unlimited(maxInt32, func(f BrokerFacts) int { return f.MaxConnections })},
	{"max.connections.per.ip", Int, "TIDEMARK_MAX_CONNECTIONS_PER_IP", unlimited(maxInt32, func(f BrokerFacts) int { return f.MaxConnectionsPerIP })},
	{"connections.max.idle.ms", Long, "TIDEMARK_CONNECTION_IDLE", millis(func(f BrokerFacts) time.Duration { return f.ConnectionIdle })},
	{"socket.send.buffer.bytes", Int, "TIDEMARK_SEND_BUFFER", number(func(f BrokerFacts) int64 {
		if f.SendBuffer == 0 {
			return -1
		}
		return f.SendBuffer
	})},
	{"socket.request.max.bytes", Int, "TIDEMARK_MAX_REQUEST_BYTES", number(func(f BrokerFacts) int64 { return f.MaxRequestBytes })},
	{"queued.max.request.bytes", Long, "TIDEMARK_PRODUCE_MEMORY", number(func(f BrokerFacts) int64 { return f.ProduceMemory })},
	{"fetch.max.bytes", Int, "TIDEMARK_FETCH_MAX_BYTES", number(func(f BrokerFacts) int64 { return f.FetchMaxBytes })},
	{"max.incremental.fetch.session.cache.slots", Int, "TIDEMARK_FETCH_SESSIONS", number(func(f BrokerFacts) int { return f.FetchSessions })},
	{"replica.lag.time.max.ms", Long, "TIDEMARK_REPLICA_LAG_MAX", millis(func(f BrokerFacts) time.Duration { return f.ReplicaLagMax })},
	{"replica.fetch.response.max.bytes", Int, "TIDEMARK_REPLICA_FETCH_MAX_BYTES", number(func(f BrokerFacts) int64 { return f.ReplicaFetchBytes })},
	{"replica.fetch.max.bytes", Int, "TIDEMARK_REPLICA_FETCH_PARTITION_BYTES", number(func(f BrokerFacts) int64 { return f.ReplicaPartitionBytes })},
	{LeaderThrottledRate, Long, "Bytes a second that leaders send to throttled replicas that are not in sync; can be set while the broker runs.", fixed("9223372036854775807")},
	{"replica.alter.log.dirs.io.max.bytes.per.second", Long, "Kept for tools that set it: a broker has one data directory.", fixed("9223372036854775807")},
	{FollowerThrottledRate, Long, "TIDEMARK_REPLICATION_BANDWIDTH",
		unlimited(maxInt64, func(f BrokerFacts) int64 { return f.ReplicationBandwidth })},
	{"offsets.retention.minutes", Int, "TIDEMARK_OFFSETS_RETENTION", minutes(func(f BrokerFacts) time.Duration { return f.OffsetsRetention })},
	{"offsets.topic.num.partitions", Int, "Coordinator slots; offsets are kept in the catalog.", fixed("64")},
	{"offset.metadata.max.bytes", Int, "TIDEMARK_OFFSET_METADATA_MAX_BYTES", number(func(f BrokerFacts) int { return f.OffsetMetadataMax })},
	{"group.initial.rebalance.delay.ms", Int, "TIDEMARK_GROUP_INITIAL_REBALANCE_DELAY", millis(func(f BrokerFacts) time.Duration { return f.GroupRebalanceDelay })},
	{"group.min.session.timeout.ms", Int, "TIDEMARK_GROUP_MIN_SESSION_TIMEOUT", millis(func(f BrokerFacts) time.Duration { return f.GroupMinSession })},
	{"group.max.session.timeout.ms", Int, "TIDEMARK_GROUP_MAX_SESSION_TIMEOUT", millis(func(f BrokerFacts) time.Duration { return f.GroupMaxSession })},
	{"group.max.size", Int, "TIDEMARK_GROUP_MAX_SIZE", unlimited(maxInt32, func(f BrokerFacts) int { return f.GroupMaxSize })},
	{"group.coordinator.rebalance.protocols", List, "Group protocols that are spoken.", fixed("classic")},
	{"producer.id.expiration.ms", Int, "TIDEMARK_PRODUCER_ID_EXPIRATION", millis(func(f BrokerFacts) time.Duration { return f.ProducerIDExpiration })},
}

// DescribeBroker answers a broker's configs under Kafka's names, by name: our settings, and the broker-wide defaults of
// topic configs under their broker names (with log.retention.* and log.roll.* in the coarser units that tools ask for).
// All but those of ApplyDynamic are read only: they are variables of the process.
func (d Defaults) DescribeBroker(f BrokerFacts) []Entry {
	var entries []Entry
	for _, row := range brokerFacts {
		shown, null := row.show(f)
		e := Entry{Name: row.name, Value: shown, Null: null, Type: row.kind, Source: SourceDefault, Doc: row.from, ReadOnly: true}
		if f.Set[row.from] {
			e.Source = SourceStaticBroker
		}
		e.Synonyms = []Synonym{{row.name, shown, e.Source}}
		e.showDynamic(f.Dynamic)
		entries = append(entries, e)
	}
	for i := range topicTable {
		def := &topicTable[i]
		if def.BrokerName == "" {
			continue
		}
		shown, source := d.layered(def, nil, f.DefaultReplication)
		entries = append(entries, Entry{Name: def.BrokerName, Value: shown, Type: def.Type, Source: source, ReadOnly: true,
			Doc: def.Variable() + ". " + def.describeDoc(), Synonyms: []Synonym{{def.BrokerName, shown, source}}})
		entries = append(entries, coarser(def, shown, source)...)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries
}

// coarser gives the values that Kafka also has in minutes or hours.
func coarser(def *Definition, shown string, source Source) []Entry {
	units := map[string][]struct {
		name string
		ms   int64
	}{
		"log.retention.ms": {{"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}},
		"log.roll.ms":      {{"log.roll.hours", 3_600_000}},
	}
	var entries []Entry
	for _, u := range units[def.BrokerName] {
		ms, err := strconv.ParseInt(shown, 10, 64)
		if err != nil {
			continue
		}
		n := ms
		if ms > 0 {
			n = min(ms/u.ms, maxInt32)
		}
		value := strconv.FormatInt(n, 10)
		entries = append(entries, Entry{Name: u.name, Value: value, Type: Int, Source: source, ReadOnly: true,
			Doc: def.BrokerName + " in a coarser unit.", Synonyms: []Synonym{{u.name, value, source}}})
	}
	return entries
}

// BrokerName is one row of the page that lists what DescribeConfigs says about a broker.
type BrokerName struct {
	Name string
	Type Type
	Doc  string
}

// BrokerNames lists the names of DescribeBroker with their sources among our settings.
func BrokerNames() []BrokerName {
	var out []BrokerName
	for _, e := range (Defaults{}).DescribeBroker(BrokerFacts{}) {
		out = append(out, BrokerName{e.Name, e.Type, e.Doc})
	}
	return out
}
