package topicconfig

// tierTable: what goes to the object tier, and when.
var tierTable = []Definition{
	{Name: "remote.storage.enable", Type: Boolean, Default: "true", valid: anything,
		Doc: "Whether sealed segments move to the object tier. Kafka's default is false. It cannot be taken back once the topic exists.",
		set: func(t *Topic, v value) { t.RemoteStorageEnable = v.flag }},
	{Name: "remote.copy.max.delay.ms", Type: Long, Default: "3600000", valid: atLeast(1), Ours: true,
		Doc: "Age at which a non-empty active segment is sealed for upload, so that no record waits longer for the object tier.",
		set: func(t *Topic, v value) { t.RemoteCopyMaxDelayMs = Millis(v.num) }},
	{Name: "remote.copy.lag.ms", Type: Long, Default: "0", valid: atLeast(-1), BrokerName: "log.remote.copy.lag.ms",
		Doc: "A sealed segment is uploaded when this long has passed since its latest record, or when remote.copy.lag.bytes is met. " +
			"0 uploads at once; -1 waits as long as local retention keeps it.",
		set: func(t *Topic, v value) { t.RemoteCopyLagMs = Millis(v.num) }},
	{Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", valid: atLeast(-1), BrokerName: "log.remote.copy.lag.bytes",
		Doc: "A sealed segment is uploaded when so many bytes follow it, or when remote.copy.lag.ms is met. " +
			"0 uploads at once; -1 takes the size of the local retention.",
		set: func(t *Topic, v value) { t.RemoteCopyLagBytes = v.num }},
	{Name: "remote.log.copy.disable", Type: Boolean, Default: "false", valid: anything, Effect: NoEffect,
		Doc: "Whether the object tier of this topic is read only (KIP-950)."},
	{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", valid: anything, Effect: NoEffect,
		Doc: "Whether tiered data goes when remote.storage.enable is set to false (KIP-950). That change is refused here."},
}
