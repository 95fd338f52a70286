package topicconfig

import "fmt"

// crossFaults judges what configs mean together. Local retention and copy lags are judged only where the topic sets them
// itself: a broker-wide default that is too long is held down by Resolve instead.
func crossFaults(t Topic, overrides map[string]string) []error {
	var faults []error
	if t.CleanupCompact && !t.RemoteStorageEnable {
		faults = append(faults, refuse("Invalid value compact for configuration cleanup.policy: compaction works on the object tier, "+
			"so it needs remote.storage.enable=true."))
	}
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		faults = append(faults, refuse("Invalid value %d for configuration min.compaction.lag.ms: it must not be more than "+
			"max.compaction.lag.ms, which is %d.", t.MinCompactionLagMs, t.MaxCompactionLagMs))
	}
	if !t.RemoteStorageEnable {
		return faults
	}
	limits := []struct {
		name, wholeName string
		local, whole    int64
	}{
		{"local.retention.ms", "retention.ms", int64(t.LocalRetentionMs), int64(t.RetentionMs)},
		{"local.retention.bytes", "retention.bytes", t.LocalRetentionBytes, t.RetentionBytes},
		{"remote.copy.lag.ms", "local.retention.ms", int64(t.RemoteCopyLagMs), within(int64(t.LocalRetentionMs), int64(t.RetentionMs))},
		{"remote.copy.lag.bytes", "local.retention.bytes", t.RemoteCopyLagBytes, within(t.LocalRetentionBytes, t.RetentionBytes)},
	}
	for i, l := range limits {
		text, set := overrides[l.name]
		if !set || l.whole == -1 {
			continue
		}
		retention := i < 2 // a copy lag of -1 follows the local retention, a local retention of -1 has no limit
		if l.local > l.whole {
			faults = append(faults, invalid(l.name, text, fmt.Sprintf("Value must not be more than that of %s, which is %d", l.wholeName, l.whole)))
		} else if l.local == -1 && retention {
			faults = append(faults, invalid(l.name, text, fmt.Sprintf("Value must not be -1 (no limit) while %s is %d", l.wholeName, l.whole)))
		}
	}
	return faults
}

// CheckChange judges a change of a topic that exists, beyond what its new configs must satisfy by themselves.
func CheckChange(before, after Topic) error {
	if before.RemoteStorageEnable && !after.RemoteStorageEnable {
		return refuse("Invalid value false for configuration remote.storage.enable: the topic has history in the object tier, " +
			"which cannot be given up by a config; make a new topic with remote.storage.enable=false.")
	}
	return nil
}
