package partition

import "errors"

// What a request can meet; handler/errors.go knows the wire code of each.
var (
	// ErrNotLeader: this broker does not lead the partition, or not any more.
	ErrNotLeader = errors.New("this broker does not lead the partition")
	// ErrUnknown: there is no such partition here.
	ErrUnknown = errors.New("no such partition on this broker")
	// ErrOutOfRange: the offset lies below start or above the log's end.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrStorage: bytes that should be there cannot be read or written now (R16).
	ErrStorage = errors.New("the partition's storage does not answer")
	// ErrFencedEpoch: the client's leader epoch is older than ours (KIP-320).
	ErrFencedEpoch = errors.New("the client's leader epoch is older than the leader's")
	// ErrUnknownEpoch: the client's leader epoch is newer than ours.
	ErrUnknownEpoch = errors.New("the client's leader epoch is newer than the leader's")
	// ErrNotEnoughReplicas: acks=all with fewer in-sync replicas than min.insync.replicas; nothing
	// was appended.
	ErrNotEnoughReplicas = errors.New("fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughAfterAppend: the in-sync set became too small before the records were acknowledged; they are
	// in the log and may stay there.
	ErrNotEnoughAfterAppend = errors.New("fewer in-sync replicas than min.insync.replicas; the records are appended")
	// ErrOffsetNotAvailable: a new leader's high watermark has not reached its epoch yet (KIP-207), or a follower
	// does not have the offset yet (KIP-392).
	ErrOffsetNotAvailable = errors.New("the offset is not known here yet")
	// ErrMovedToTier: a replica asked below what is on the leader's disk (H23).
	ErrMovedToTier = errors.New("the offset is in the object tier only")
	// ErrTimestamp: a record's timestamp lies outside message.timestamp.before/after.max.ms.
	ErrTimestamp = errors.New("record timestamp outside the topic's limits")
	// ErrTransaction: a transactional batch without a transaction that the coordinator knows.
	ErrTransaction = errors.New("no ongoing transaction for this batch")
	// ErrDeleteNotAllowed: DeleteRecords on a topic that is compacted only.
	ErrDeleteNotAllowed = errors.New("the topic's cleanup.policy does not allow DeleteRecords")
	// ErrHole: the local log begins above what the tier holds: records between are nowhere (A15).
	ErrHole = errors.New("records between the object tier and the local log are missing")
)
