package topicconfig

// compactionTable: when a compacted topic is cleaned.
var compactionTable = []Definition{
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", valid: fraction(),
		BrokerName: "log.cleaner.min.cleanable.ratio",
		Doc:        "Share of bytes not yet cleaned at which a partition is cleaned.",
		set:        func(t *Topic, v value) { t.MinCleanableDirtyRatio = v.float }},
	{Name: "min.compaction.lag.ms", Type: Long, Default: "0", valid: atLeast(0),
		BrokerName: "log.cleaner.min.compaction.lag.ms",
		Doc:        "Least age at which a record may be removed because a newer one has its key.",
		set:        func(t *Topic, v value) { t.MinCompactionLagMs = Millis(v.num) }},
	{Name: "max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", valid: atLeast(1),
		BrokerName: "log.cleaner.max.compaction.lag.ms",
		Doc:        "Age at which a record must have been through a cleaning, whatever the dirty ratio.",
		set:        func(t *Topic, v value) { t.MaxCompactionLagMs = Millis(v.num) }},
	{Name: "delete.retention.ms", Type: Long, Default: "86400000", valid: atLeast(0),
		BrokerName: "log.cleaner.delete.retention.ms",
		Doc:        "Time that a tombstone is kept after everything that it deletes has gone.",
		set:        func(t *Topic, v value) { t.DeleteRetentionMs = Millis(v.num) }},
}

// replicationTable: who must have a record, and who may lead.
var replicationTable = []Definition{
	{Name: "min.insync.replicas", Type: Int, Default: "1", valid: atLeast(1), BrokerName: "min.insync.replicas",
		Doc: "Replicas that must have a record before acks=all is answered. If nothing sets it: 2 where a topic has three replicas or more, else 1.",
		set: func(t *Topic, v value) { t.MinInsyncReplicas = int(v.num) }},
	{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", valid: anything,
		BrokerName: "unclean.leader.election.enable",
		Doc:        "Whether a replica that may lack acknowledged records may lead when no other is left.",
		set:        func(t *Topic, v value) { t.UncleanLeaderElectionEnable = v.flag }},
	{Name: "leader.replication.throttled.replicas", Type: List, Default: "", valid: throttledReplicas(), Effect: Effective,
		Doc: "Leaders, as partition:broker, that send no more than their broker's `leader.replication.throttled.rate` to replicas that are not in sync.",
		set: func(t *Topic, v value) { t.LeaderThrottled = throttledOf(v) }},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "", valid: throttledReplicas(), Effect: Effective,
		Doc: "Replicas, as partition:broker, that copy no more than their broker's `follower.replication.throttled.rate` while they are not in sync.",
		set: func(t *Topic, v value) { t.FollowerThrottled = throttledOf(v) }},
}
