package topicconfig

// groupTable holds the group configs of Kafka 4.4 (KIP-848, KIP-932, KIP-1071). They belong to group protocols that are
// not spoken here, so none has an effect; they are described, read only, for the tools that ask.
var groupTable = sorted([]Definition{
	groupInt("consumer.assignment.interval.ms", "1000", 0, "Time between two assignments of a consumer group."),
	groupFlag("consumer.assignor.offload.enable", "true", "Whether assignments are computed in the background."),
	groupInt("consumer.heartbeat.interval.ms", "5000", 1, "Time between two heartbeats of a member of a consumer group."),
	groupInt("consumer.session.timeout.ms", "45000", 1, "Time after which a silent member of a consumer group is taken out."),
	groupFlag("errors.deadletterqueue.copy.record.enable", "false", "Whether a dead-letter record holds the whole record."),
	{Name: "errors.deadletterqueue.topic.name", Type: String, Default: "", valid: anything, Effect: NoEffect,
		Doc: "Topic for records that a share group cannot deliver."},
	groupInt("share.assignment.interval.ms", "1000", 0, "Time between two assignments of a share group."),
	groupFlag("share.assignor.offload.enable", "true", "Whether assignments are computed in the background."),
	{Name: "share.auto.offset.reset", Type: String, Default: "latest", valid: anything, Effect: NoEffect,
		Doc: "Where a share group begins: latest, earliest or by_duration:<ISO 8601 duration>."},
	groupInt("share.delivery.count.limit", "5", 2, "Most deliveries of one record to a share group."),
	groupInt("share.heartbeat.interval.ms", "5000", 1, "Time between two heartbeats of a member of a share group."),
	{Name: "share.isolation.level", Type: String, Default: "read_uncommitted", valid: oneOf("read_committed", "read_uncommitted"),
		Effect: NoEffect, Doc: "Whether a share group sees records of aborted transactions."},
	groupInt("share.partition.max.record.locks", "2000", 100, "Most records of a partition that a share group holds."),
	groupInt("share.record.lock.duration.ms", "30000", 1000, "Time that a share group's member holds a record."),
	groupFlag("share.renew.acknowledge.enable", "true", "Whether a member may prolong its hold on a record."),
	groupInt("share.session.timeout.ms", "45000", 1, "Time after which a silent member of a share group is taken out."),
	{Name: "streams.acceptable.recovery.lag", Type: Long, Default: "10000", valid: atLeast(0), Effect: NoEffect,
		Doc: "Records that a streams client may lag and still take an active task."},
	groupInt("streams.assignment.interval.ms", "1000", 0, "Time between two assignments of a streams group."),
	{Name: "streams.assignor.name", Type: String, Default: "", valid: anything, Effect: NoEffect,
		Doc: "Assignor of a streams group."},
	groupFlag("streams.assignor.offload.enable", "true", "Whether assignments are computed in the background."),
	groupInt("streams.heartbeat.interval.ms", "5000", 1, "Time between two heartbeats of a member of a streams group."),
	groupInt("streams.initial.rebalance.delay.ms", "3000", 0, "Wait for more members before a new streams group's first assignment."),
	groupInt("streams.num.standby.replicas", "0", 0, "Standby replicas of each task."),
	groupInt("streams.num.warmup.replicas", "2", 0, "Most warm-up replicas of each task."),
	{Name: "streams.rack.aware.assignment.tags", Type: List, Default: "", valid: anything, Effect: NoEffect,
		Doc: "Client tags over which standby replicas are spread."},
	groupInt("streams.session.timeout.ms", "45000", 1, "Time after which a silent member of a streams group is taken out."),
	groupInt("streams.task.offset.interval.ms", "60000", 1, "Time between two reports of task offsets."),
})

func groupInt(name, def string, least int64, doc string) Definition {
	return Definition{Name: name, Type: Int, Default: def, valid: atLeast(least), Effect: NoEffect, Doc: doc}
}

func groupFlag(name, def, doc string) Definition {
	return Definition{Name: name, Type: Boolean, Default: def, valid: anything, Effect: NoEffect, Doc: doc}
}

// Groups returns the definitions of all group configs, by name. The caller must not change the slice.
func Groups() []Definition { return groupTable }

// DescribeGroup answers every group config with its value and source, by name.
func DescribeGroup(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(groupTable))
	for _, def := range groupTable {
		e := Entry{Name: def.Name, Value: def.Default, Type: def.Type, Source: SourceDefault, ReadOnly: true, Doc: def.describeDoc()}
		e.Synonyms = []Synonym{{def.Name, def.Default, SourceDefault}}
		if text, ok := overrides[def.Name]; ok {
			e.Value, e.Source = text, SourceGroup
			e.Synonyms = append([]Synonym{{def.Name, text, SourceGroup}}, e.Synonyms...)
		}
		entries = append(entries, e)
	}
	return entries
}
