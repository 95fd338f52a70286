package tiering

import "errors"

// Sentinels; wrapped with the partition, the offsets and the key at fault.
var (
	// ErrBelowStart: the offset lies below the partition's start: OFFSET_OUT_OF_RANGE.
	ErrBelowStart = errors.New("tiering: below the log start")
	// ErrAboveTier: the offset is at or above tiered: the local log has it, or nobody.
	ErrAboveTier = errors.New("tiering: above the object tier")
	// ErrStorage: the object is lost or damaged, or the bucket or the catalog cannot be asked. The
	// reader stays where it is: KAFKA_STORAGE_ERROR (R16).
	ErrStorage = errors.New("tiering: the object tier cannot serve the range")
	// ErrOtherCluster: the bucket's cluster.json names another cluster; the broker must not start.
	ErrOtherCluster = errors.New("tiering: the bucket belongs to another cluster")
	// ErrNewerBucket: the bucket has seen a later generation than the catalog's: the catalog has gone back
	// in time; the broker must not start (H2).
	ErrNewerBucket = errors.New("tiering: the catalog is older than the bucket")
	// ErrClosed: the tier is being closed.
	ErrClosed = errors.New("tiering: closed")
	// ErrDamaged: bytes of the local log are not what the log promised (A8). Nothing was published.
	ErrDamaged = errors.New("tiering: the local segment is damaged")
)
