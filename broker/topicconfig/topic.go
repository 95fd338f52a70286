package topicconfig

// Topic holds the settings of one topic, merged and typed: a snapshot, never changed after Resolve made it. Sizes are
// bytes; -1 means "no limit" where a field's comment says so.
type Topic struct {
	// Segments on local disk.
	SegmentBytes       int64
	SegmentMs          Millis
	SegmentJitterMs    Millis
	SegmentIndexBytes  int64
	IndexIntervalBytes int64
	FlushMessages      int64 // fsync after so many records; 2^63-1: never by count
	FlushMs            Millis

	// Retention over both tiers, and on local disk.
	CleanupDelete       bool
	CleanupCompact      bool
	RetentionMs         Millis // -1: for ever
	RetentionBytes      int64  // -1: no limit
	LocalRetentionMs    Millis // -1: for ever; never -2 and never above RetentionMs: Resolve has followed it
	LocalRetentionBytes int64  // -1: no limit; as LocalRetentionMs

	// What a record may be.
	MaxMessageBytes      int64
	CompressionType      string // producer, uncompressed, gzip, snappy, lz4 or zstd
	LogAppendTime        bool   // message.timestamp.type
	TimestampBeforeMaxMs Millis
	TimestampAfterMaxMs  Millis

	// The object tier.
	RemoteStorageEnable  bool
	RemoteCopyMaxDelayMs Millis
	RemoteCopyLagMs      Millis // -1: the local retention's time
	RemoteCopyLagBytes   int64  // -1: the local retention's size

	// Compaction.
	DeleteRetentionMs      Millis
	MinCompactionLagMs     Millis
	MaxCompactionLagMs     Millis
	MinCleanableDirtyRatio float64

	// Replication.
	MinInsyncReplicas           int
	UncleanLeaderElectionEnable bool
	LeaderThrottled             Throttled // leaders that are held to their broker's rate
	FollowerThrottled           Throttled // replicas that are
}

// follow replaces the values of local retention that point to another config, and holds them below the whole retention:
// a broker-wide default may be longer than a topic's own retention without being an error of the topic's owner.
func (t *Topic) follow() {
	t.LocalRetentionMs = Millis(within(int64(t.LocalRetentionMs), int64(t.RetentionMs)))
	t.LocalRetentionBytes = within(t.LocalRetentionBytes, t.RetentionBytes)
}

// within returns local held below whole, where -1 is no limit and a local of -2 is the whole.
func within(local, whole int64) int64 {
	switch {
	case local == -2:
		return whole
	case whole == -1:
		return local
	case local == -1 || local > whole:
		return whole
	}
	return local
}
