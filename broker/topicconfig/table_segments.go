package topicconfig

// segmentTable: how the local log is cut into files, indexed and flushed.
var segmentTable = []Definition{
	{Name: "segment.bytes", Type: Int, Default: "67108864", valid: atLeast(14), BrokerName: "log.segment.bytes",
		Doc: "Size at which the active segment is sealed. Larger segments than 64 MiB are cut into objects of at most 64 MiB. " +
			"Kafka's default is 1 GiB and its least is 1 MiB; here small segments are allowed.",
		set: func(t *Topic, v value) { t.SegmentBytes = v.num }},
	{Name: "segment.ms", Type: Long, Default: "604800000", valid: atLeast(1), BrokerName: "log.roll.ms",
		Doc: "Age, since the broker appended its first batch, at which the active segment is sealed even if nothing more is produced.",
		set: func(t *Topic, v value) { t.SegmentMs = Millis(v.num) }},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", valid: atLeast(0), BrokerName: "log.roll.jitter.ms",
		Doc: "Most random time taken off segment.ms, so that many partitions do not roll at once.",
		set: func(t *Topic, v value) { t.SegmentJitterMs = Millis(v.num) }},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", valid: atLeast(4), BrokerName: "log.index.size.max.bytes",
		Doc: "Size of a segment's offset index at which the segment is sealed. Less than one entry, 8 bytes, counts as 8.",
		set: func(t *Topic, v value) { t.SegmentIndexBytes = max(v.num, 8) }},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", valid: atLeast(0), BrokerName: "log.index.interval.bytes",
		Doc: "Bytes of log between two entries of the offset index.",
		set: func(t *Topic, v value) { t.IndexIntervalBytes = v.num }},
	{Name: "flush.messages", Type: Long, Default: "9223372036854775807", valid: atLeast(1), BrokerName: "log.flush.interval.messages",
		Doc: "Records after which the log is fsynced. 1 makes every acknowledged record survive a power loss on its own.",
		set: func(t *Topic, v value) { t.FlushMessages = v.num }},
	{Name: "flush.ms", Type: Long, Default: "9223372036854775807", valid: atLeast(0), BrokerName: "log.flush.interval.ms",
		Doc: "Longest time that an appended record waits for an fsync.",
		set: func(t *Topic, v value) { t.FlushMs = Millis(v.num) }},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", valid: atLeast(0), BrokerName: "log.segment.delete.delay.ms", Effect: NoEffect,
		Doc: "Wait before a file is removed from disk. TIDEMARK_FREE_DELAY governs that here."},
	{Name: "preallocate", Type: Boolean, Default: "false", valid: anything, BrokerName: "log.preallocate", Effect: NoEffect,
		Doc: "Whether a segment's file is given its full size when it is made. Files here grow as they are written."},
}
