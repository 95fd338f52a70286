package config

import (
	"log/slog"
	"time"

	"tidemark/broker/topicconfig"
)

// Config is every setting of one broker. It is a value: made by Load or Dev, checked, and not changed afterwards.
//
// Tags: `env` is the variable without TIDEMARK_; `envDefault` its default; `doc` its meaning; `min` and `max` bound
// numbers, sizes and durations, in the text that the variable would have.
type Config struct {
	Broker      Broker
	Network     Network
	HTTP        HTTP
	Stores      Stores
	Tier        Tier
	Disk        Disk
	Replication Replication
	Topics      Topics
	Groups      Groups
	Log         Log

	// Set holds the variables that were given, by whole name; the rest are defaults.
	Set map[string]bool `env:"-"`
}

// Broker says who this process is and where it keeps its files.
type Broker struct {
	ID              int32         `env:"BROKER_ID" envDefault:"-1" max:"2147483647" doc:"Number of this broker, unique in the cluster. serve has no default; dev is 1."`
	Rack            string        `env:"RACK" doc:"Rack or zone, for placement and for clients that read from the nearest replica."`
	DataDir         string        `env:"DATA_DIR" envDefault:"./tidemark-data" doc:"Folder of local segments and, unless TIDEMARK_CACHE_DIR says otherwise, of the cache. One broker holds its lock."`
	BalanceDelay    time.Duration `env:"BALANCE_DELAY" envDefault:"30s" min:"0s" max:"24h" doc:"How long leaders or coordinator slots must be badly spread over the brokers before they are moved."`
	Memory          Bytes         `env:"MEMORY" envDefault:"0" min:"0" max:"1PiB" doc:"Memory that the whole process may use, e.g. a container's limit: garbage is collected so as to stay below nine tenths of it. 0: collected by Go's own rules."`
	StartTimeout    time.Duration `env:"START_TIMEOUT" envDefault:"5m" min:"0s" max:"24h" doc:"How long a start waits for a catalog in Postgres that cannot be reached or does not answer. What waiting cannot mend, e.g. a wrong password, ends it at once."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" min:"1s" max:"1h" doc:"Longest time that a clean stop may take after SIGTERM."`
}

// Network says where clients and brokers connect and what one of them may use.
type Network struct {
	Listeners           Listeners     `env:"LISTENERS" envDefault:"PLAINTEXT://127.0.0.1:9092" doc:"Addresses to listen on: NAME://host:port, separated by commas. All are plain text so far. Port 0 takes a free port."`
	Advertised          Listeners     `env:"ADVERTISED_LISTENERS" doc:"What clients are told to connect to, by listener name. Default: the listeners."`
	InterBroker         string        `env:"INTER_BROKER_LISTENER" doc:"Name of the listener that brokers use among themselves. Default: the first."`
	MaxConnections      int           `env:"MAX_CONNECTIONS" envDefault:"10000" min:"1" max:"10000000" doc:"Most open connections; further ones are closed at once."`
	MaxConnectionsPerIP int           `env:"MAX_CONNECTIONS_PER_IP" envDefault:"10000" min:"1" max:"10000000" doc:"Most open connections from one address."`
	ConnectionIdle      time.Duration `env:"CONNECTION_IDLE" envDefault:"10m" min:"1s" max:"240h" doc:"Time after which a connection that asks nothing is closed."`
	MaxInFlight         int           `env:"MAX_IN_FLIGHT" envDefault:"64" min:"1" max:"10000" doc:"Requests of one connection that may wait for their answers before reading stops."`
	MaxRequestBytes     Bytes         `env:"MAX_REQUEST_BYTES" envDefault:"100MiB" min:"1KiB" max:"1GiB" doc:"Largest request that is read."`
	ProduceMemory       Bytes         `env:"PRODUCE_MEMORY" envDefault:"256MiB" min:"1KiB" max:"1TiB" doc:"Memory for the produce requests of all connections together; further ones wait unread."`
	RequestMemory       Bytes         `env:"REQUEST_MEMORY" envDefault:"64MiB" min:"16MiB" max:"1TiB" doc:"Memory for all other requests together."`
	AnswerMemory        Bytes         `env:"ANSWER_MEMORY" envDefault:"64MiB" min:"4MiB" max:"1TiB" doc:"Memory for the large answers of all connections together, those of produce and fetch not counted; further ones wait, and clients that do not read theirs are cut off for them. One that is larger than three quarters of it is made alone."`
	SendBuffer          Bytes         `env:"SEND_BUFFER" envDefault:"100KiB" min:"0" max:"1GiB" doc:"Send buffer of each connection, as Kafka's. A small one costs less CPU; far clients need bandwidth times round trip. 0: the system sizes it by need."`
	FetchMaxBytes       Bytes         `env:"FETCH_MAX_BYTES" envDefault:"55MiB" min:"1KiB" max:"1GiB" doc:"Largest fetch answer, whatever the client asks for (one whole batch may exceed it)."`
	FetchSessions       int           `env:"FETCH_SESSIONS" envDefault:"1000" min:"0" max:"1000000" doc:"Incremental fetch sessions that are remembered (KIP-227); clients without one send whole requests."`
	FetchPartitions     int           `env:"FETCH_PARTITIONS" envDefault:"1000000" min:"1000" max:"100000000" doc:"Partitions that the fetch sessions of clients remember and fetches without a session wait for, about 0.5 KiB each. Beyond it no session is kept, and such a fetch is answered at once, asking its client to pause."`
}

// HTTP says where metrics, health and the console are served.
type HTTP struct {
	Listen string `env:"HTTP_LISTEN" envDefault:"127.0.0.1:9644" doc:"Address of metrics, health checks, API and console, or the word none."`
	Token  Secret `env:"HTTP_TOKEN" doc:"Bearer token for changes over HTTP. Without it changes are accepted on a loopback address only."`
}

// Stores says where the catalog and the objects are.
type Stores struct {
	Catalog                  StoreURL      `env:"CATALOG_URL" doc:"postgres://user:password@host/database, or sqlite:///path for a single broker. serve has no default."`
	Objects                  StoreURL      `env:"OBJECT_STORE_URL" doc:"s3://bucket/prefix?region=…&endpoint=…&path_style=true, minio://host:port/bucket/prefix?secure=false, or file:///path. Credentials come from the usual AWS_… or MINIO_… variables. serve has no default."`
	NativeChecksums          bool          `env:"NATIVE_CHECKSUMS" envDefault:"false" doc:"Send the store's own CRC-32C with uploads, for buckets that demand an integrity header. Many stores refuse it."`
	PostgresPool             int           `env:"POSTGRES_POOL" envDefault:"10" min:"2" max:"1000" doc:"Connections to Postgres besides the two for leases. All brokers' together must fit its max_connections."`
	PostgresPooler           bool          `env:"POSTGRES_POOLER" envDefault:"false" doc:"A transaction pooler (pgbouncer) stands between brokers and Postgres: no prepared statements, no settings of a session."`
	PostgresConnectTimeout   time.Duration `env:"POSTGRES_CONNECT_TIMEOUT" envDefault:"5s" min:"100ms" max:"5m" doc:"Longest wait for a new connection to Postgres."`
	PostgresStatementTimeout time.Duration `env:"POSTGRES_STATEMENT_TIMEOUT" envDefault:"5s" min:"100ms" max:"5m" doc:"Longest time of one statement; the server is told a little less."`
}

// Tier says how the object tier is written, read and cleaned.
type Tier struct {
	FreeDelay         time.Duration `env:"FREE_DELAY" envDefault:"1m" min:"0s" max:"720h" doc:"Time for which the catalog must have shown a local segment as tiered before it may be freed locally (dev: 5s)."`
	GCGrace           time.Duration `env:"GC_GRACE" envDefault:"10m" min:"6s" max:"8760h" doc:"Time between the moment that nothing needs an object any more and its deletion (dev: 30s). Longer than TIDEMARK_FREE_DELAY."`
	CacheDir          string        `env:"CACHE_DIR" doc:"Folder of the cache of cold reads. Default: cache in the data folder. It may be lost at any time."`
	CacheBytes        Bytes         `env:"CACHE_BYTES" envDefault:"10GiB" min:"64MiB" max:"1PiB" doc:"Disk for cold reads' chunks. In the data folder it gives way while free space is below twice TIDEMARK_DISK_PRODUCE_MARK."`
	CacheMemory       Bytes         `env:"CACHE_MEMORY" envDefault:"128MiB" min:"1MiB" max:"1TiB" doc:"Memory for cold reads' chunks that are not on the disk yet."`
	TailCacheBytes    Bytes         `env:"TAIL_CACHE_BYTES" envDefault:"64MiB" min:"1MiB" max:"1TiB" doc:"Memory for objects' indexes."`
	ColdReads         int           `env:"COLD_READS" envDefault:"32" min:"1" max:"10000" doc:"Cold reads in progress; others wait in the order in which they came."`
	ColdReadTimeout   time.Duration `env:"COLD_READ_TIMEOUT" envDefault:"1m" min:"1s" max:"1h" doc:"Deadline of one cold read, all its steps together."`
	ColdReadFloor     Bytes         `env:"COLD_READ_FLOOR" envDefault:"64MiB" min:"1MiB" max:"1TiB" doc:"Bytes a second that all cold answers together get at least while producers are at work and the machine is late; without producers they get all there is."`
	UploadConcurrency int           `env:"UPLOAD_CONCURRENCY" envDefault:"4" min:"1" max:"1000" doc:"Uploads in progress."`
	UploadBandwidth   Bytes         `env:"UPLOAD_BANDWIDTH" envDefault:"0" min:"0" max:"1TiB" doc:"Bytes a second of all uploads together. 0: no limit."`

	CompactionWorkers   int           `env:"COMPACTION_WORKERS" envDefault:"1" min:"0" max:"1000" doc:"Partitions that this process compacts or merges at once. 0: none; tidemark compactor or another broker does it."`
	CompactionMemory    Bytes         `env:"COMPACTION_MEMORY" envDefault:"64MiB" min:"1MiB" max:"1TiB" doc:"Memory of one compaction worker besides the object that it makes. Less means more passes over the keys of a large partition."`
	CompactionBandwidth Bytes         `env:"COMPACTION_BANDWIDTH" envDefault:"0" min:"0" max:"1TiB" doc:"Bytes a second that compaction reads and writes. 0: no limit."`
	CompactionFloor     Bytes         `env:"COMPACTION_FLOOR" envDefault:"16MiB" min:"1MiB" max:"1TiB" doc:"Bytes a second that all compaction of a broker gets at least while producers are at work and the machine is late; without producers it gets all there is. More than producers write, or compaction falls behind."`
	CheckpointInterval  time.Duration `env:"CHECKPOINT_INTERVAL" envDefault:"10m" min:"1s" max:"24h" doc:"Time between two checkpoints of the catalog in the bucket; changes of topics are followed by one within seconds. One broker of the cluster writes them."`
	ScrubBandwidth      Bytes         `env:"SCRUB_BANDWIDTH" envDefault:"8MiB" min:"0" max:"1TiB" doc:"Bytes a second with which the background scrub reads the objects of led partitions and compares them with the catalog. 0: no scrub."`
	ScrubInterval       time.Duration `env:"SCRUB_INTERVAL" envDefault:"168h" min:"1s" max:"8760h" doc:"Time from the beginning of one round of the scrub to that of the next."`
}

// Disk says what the local log may use.
type Disk struct {
	FileReads            int           `env:"FILE_READS" envDefault:"64" min:"1" max:"5000" doc:"File reads in progress; each may block a thread."`
	OpenSegments         int           `env:"OPEN_SEGMENTS" envDefault:"1024" min:"16" max:"1000000" doc:"Sealed segments that are kept open for reading."`
	IdleFile             time.Duration `env:"IDLE_FILE" envDefault:"1m" min:"1s" max:"8760h" doc:"Time without use after which the file of a partition's active segment is synced and closed, until it is used again."`
	ProduceMark          Bytes         `env:"DISK_PRODUCE_MARK" envDefault:"1GiB" min:"0" max:"1PiB" doc:"Free space of the data folder's disk below which clients' produce is refused and active segments are sealed early. 0: never."`
	AppendMark           Bytes         `env:"DISK_APPEND_MARK" envDefault:"256MiB" min:"0" max:"1PiB" doc:"Free space below which nothing at all is appended. Below TIDEMARK_DISK_PRODUCE_MARK. 0: never."`
	Reserve              Bytes         `env:"DISK_RESERVE" envDefault:"64MiB" min:"0" max:"1PiB" doc:"Size of the file reserve in the data folder, at most a fiftieth of the disk: space that is given back when the disk is full, so that a start, and what makes data leave, can still write. 0: none."`
	MaxProducerIDs       int           `env:"MAX_PRODUCER_IDS" envDefault:"10000" min:"1" max:"10000000" doc:"Producer ids that a partition remembers; the longest idle are forgotten first."`
	ProducerIDExpiration time.Duration `env:"PRODUCER_ID_EXPIRATION" envDefault:"24h" min:"1s" max:"8760h" doc:"Time after which an idle producer id is forgotten."`
}

// Replication says how this broker follows leaders, and when a follower of its own is out of sync.
type Replication struct {
	LagMax         time.Duration `env:"REPLICA_LAG_MAX" envDefault:"30s" min:"100ms" max:"1h" doc:"Time for which a follower may lack the end of the log before it leaves the in-sync set. One whose broker is gone leaves with its lease. Kafka's replica.lag.time.max.ms."`
	FetchBytes     Bytes         `env:"REPLICA_FETCH_MAX_BYTES" envDefault:"8MiB" min:"1KiB" max:"1GiB" doc:"Memory for the answer of one leader; one whole batch may be larger."`
	PartitionBytes Bytes         `env:"REPLICA_FETCH_PARTITION_BYTES" envDefault:"1MiB" min:"1KiB" max:"1GiB" doc:"One partition's share of it."`
	CatchUp        Bytes         `env:"REPLICATION_BANDWIDTH" envDefault:"0" min:"0" max:"1TiB" doc:"Bytes a second that this broker copies for replicas that are not in sync, all together, so that moves and returns leave room for clients. 0: no limit. Kafka's follower.replication.throttled.rate."`
}

// Topics says how topics come to be and what they have by default.
type Topics struct {
	AutoCreate         bool `env:"AUTO_CREATE_TOPICS" envDefault:"false" doc:"Create a topic that a producer or consumer names (dev: true)."`
	DefaultPartitions  int  `env:"DEFAULT_PARTITIONS" envDefault:"1" min:"1" max:"100000" doc:"Partitions of a topic whose maker names no number."`
	DefaultReplication int  `env:"DEFAULT_REPLICATION_FACTOR" envDefault:"0" min:"0" max:"100" doc:"Replicas of a topic whose maker names no number. 0: as many as there are brokers, at most 3."`

	// Defaults are the broker-wide defaults of topic configs, from TIDEMARK_DEFAULT_<TOPIC_CONFIG> variables.
	Defaults topicconfig.Defaults `env:"-"`
}

// Groups says how consumer groups behave.
type Groups struct {
	InitialRebalanceDelay time.Duration `env:"GROUP_INITIAL_REBALANCE_DELAY" envDefault:"3s" min:"0s" max:"1h" doc:"Wait for more members before a new group's first rebalance (dev: 0s)."`
	MinSession            time.Duration `env:"GROUP_MIN_SESSION_TIMEOUT" envDefault:"6s" min:"1ms" max:"24h" doc:"Least session timeout that a member may ask for."`
	MaxSession            time.Duration `env:"GROUP_MAX_SESSION_TIMEOUT" envDefault:"30m" min:"1ms" max:"240h" doc:"Longest session timeout that a member may ask for."`
	MaxSize               int           `env:"GROUP_MAX_SIZE" envDefault:"0" min:"0" max:"1000000" doc:"Most members of a group. 0: no limit."`
	GroupMemory           Bytes         `env:"GROUP_MEMORY" envDefault:"64MiB" min:"1MiB" max:"1TiB" doc:"Memory for all groups and their members together, what members say of themselves and are assigned included. Beyond it new ones are asked to come again."`
	OffsetsRetention      time.Duration `env:"OFFSETS_RETENTION" envDefault:"168h" min:"1m" max:"876000h" doc:"Time after which the offsets of an empty group are forgotten."`
	OffsetMetadataMax     int           `env:"OFFSET_METADATA_MAX_BYTES" envDefault:"4096" min:"0" max:"1048576" doc:"Longest text that may come with a committed offset."`
}

// Log says what the process writes about itself.
type Log struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"Least level that is written: debug, info, warn or error."`
	Format LogFormat  `env:"LOG_FORMAT" envDefault:"text" doc:"text or json."`
}

// BrokerFacts is what DescribeConfigs shows of this broker under Kafka's names.
func (c Config) BrokerFacts() topicconfig.BrokerFacts {
	return topicconfig.BrokerFacts{
		ID: c.Broker.ID, Rack: c.Broker.Rack, DataDir: c.Broker.DataDir,
		Listeners: c.Network.Listeners.String(), AdvertisedListeners: c.Network.Advertised.String(),
		InterBrokerListener: c.Network.InterBroker,
		AutoCreateTopics:    c.Topics.AutoCreate, DefaultPartitions: c.Topics.DefaultPartitions,
		DefaultReplication: c.Topics.DefaultReplication,
		MaxConnections:     c.Network.MaxConnections, MaxConnectionsPerIP: c.Network.MaxConnectionsPerIP,
		ConnectionIdle: c.Network.ConnectionIdle, SendBuffer: int64(c.Network.SendBuffer), MaxRequestBytes: int64(c.Network.MaxRequestBytes),
		ProduceMemory: int64(c.Network.ProduceMemory), FetchMaxBytes: int64(c.Network.FetchMaxBytes),
		FetchSessions: c.Network.FetchSessions, UploadBytesPerSecond: int64(c.Tier.UploadBandwidth),
		OffsetsRetention: c.Groups.OffsetsRetention, OffsetMetadataMax: c.Groups.OffsetMetadataMax,
		GroupRebalanceDelay: c.Groups.InitialRebalanceDelay, GroupMinSession: c.Groups.MinSession,
		ReplicaLagMax: c.Replication.LagMax, ReplicaFetchBytes: int64(c.Replication.FetchBytes),
		ReplicaPartitionBytes: int64(c.Replication.PartitionBytes), ReplicationBandwidth: int64(c.Replication.CatchUp),
		GroupMaxSession: c.Groups.MaxSession, GroupMaxSize: c.Groups.MaxSize,
		ProducerIDExpiration: c.Disk.ProducerIDExpiration, Set: c.Set,
	}
}
