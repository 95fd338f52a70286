package topicconfig

// retentionTable: how long records stay, in all and on local disk.
var retentionTable = []Definition{
	{Name: "cleanup.policy", Type: List, Default: "delete", valid: someOf("compact", "delete"), BrokerName: "log.cleanup.policy",
		Doc: "`delete` removes what retention.ms or retention.bytes no longer covers; `compact` keeps the last record of each key; " +
			"both may be given. `compact` needs the object tier. An empty list keeps everything.",
		set: func(t *Topic, v value) {
			for _, policy := range v.list {
				t.CleanupDelete = t.CleanupDelete || policy == "delete"
				t.CleanupCompact = t.CleanupCompact || policy == "compact"
			}
		}},
	{Name: "retention.ms", Type: Long, Default: "604800000", valid: atLeast(-1), BrokerName: "log.retention.ms",
		Doc: "Time that records are kept over both tiers, by their timestamps. -1 keeps them for ever.",
		set: func(t *Topic, v value) { t.RetentionMs = Millis(v.num) }},
	{Name: "retention.bytes", Type: Long, Default: "-1", valid: atLeast(-1), BrokerName: "log.retention.bytes",
		Doc: "Bytes of a partition that are kept over both tiers. -1 sets no limit.",
		set: func(t *Topic, v value) { t.RetentionBytes = v.num }},
	{Name: "local.retention.ms", Type: Long, Default: "-2", valid: atLeast(-2), BrokerName: "log.local.retention.ms",
		Doc: "Time that records which are in the object tier also stay on local disk. -2 follows retention.ms; -1 sets no limit.",
		set: func(t *Topic, v value) { t.LocalRetentionMs = Millis(v.num) }},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", valid: atLeast(-2), BrokerName: "log.local.retention.bytes",
		Doc: "Bytes of a partition that stay on local disk once they are in the object tier, the active segment included. " +
			"-2 follows retention.bytes; -1 sets no limit.",
		set: func(t *Topic, v value) { t.LocalRetentionBytes = v.num }},
}
