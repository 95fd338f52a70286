package hotlog

import "errors"

// What a caller can act on. Each is wrapped with the partition's directory and
// the offending numbers.
var (
	// ErrBelowLocal: the offset is below localStart. The caller asks the tier, and
	// then the catalog (R16).
	ErrBelowLocal = errors.New("hotlog: offset is below the local log")
	// ErrOutOfRange: the offset is above the log's end.
	ErrOutOfRange = errors.New("hotlog: offset is above the end of the log")
	// ErrDiskFull: nothing of the append is in the log; it may be tried again
	// when there is space.
	ErrDiskFull = errors.New("hotlog: no space left on the data disk")
	// ErrFailed: an earlier write or fsync failed, or the files cannot be trusted.
	// The partition resigns; only a new process may open the log again (H28).
	ErrFailed = errors.New("hotlog: the log has failed and is not touched again")
	// ErrNoFiles: the process has no descriptor, or no memory, to open the log's file with. Nothing has happened; it
	// may be tried again.
	ErrNoFiles = errors.New("hotlog: no descriptor left to open the log with")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("hotlog: the log is closed")
	// ErrNotNext: a follower's batch does not begin at the log's end; the replica
	// compares epochs with its leader again.
	ErrNotNext = errors.New("hotlog: batch does not continue the log")
	// ErrBadAppend: the request contradicts itself (a bug, or a client that sent
	// several idempotent batches where one is allowed).
	ErrBadAppend = errors.New("hotlog: malformed append")
	// ErrInUse: another process holds the data directory (H27).
	ErrInUse = errors.New("hotlog: the data directory is in use")
	// ErrForeign: the data directory belongs to another cluster or broker (H27).
	ErrForeign = errors.New("hotlog: the data directory belongs to somebody else")
)
