package hotlog

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidemark/hotlog/disk"
	"tidemark/record"
)

// Config is what a topic's settings say of its logs. Any of it may change while
// the log runs ([Log.SetConfig]).
type Config struct {
	// SegmentBytes is the size at which a segment is rolled, before the append
	// that would pass it. A single batch may be larger.
	SegmentBytes int64
	// SegmentIndexBytes bounds the offset index of a segment; a full one rolls.
	SegmentIndexBytes int
	// IndexIntervalBytes is how many bytes lie between two index entries.
	IndexIntervalBytes int
	// FlushMessages: an append returns only when fewer than this many records
	// are unsynced. 1 syncs every append, 0 never asks.
	FlushMessages int64
	// FlushInterval is how long the oldest unsynced record may wait; see
	// [Log.FlushIn]. 0: for ever.
	FlushInterval time.Duration
	// MaxProducers bounds the producer ids that are remembered (P7).
	MaxProducers int
	// ProducerExpiry is how long an idle producer id is remembered (F6).
	ProducerExpiry time.Duration
}

// DefaultConfig returns the defaults of a topic.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       64 << 20,
		SegmentIndexBytes:  10 << 20,
		IndexIntervalBytes: 4096,
		MaxProducers:       10_000,
		ProducerExpiry:     24 * time.Hour,
	}
}

// Validate reports every fault.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.SegmentBytes > 0 && c.SegmentBytes <= maxSegmentBytes,
		"segment bytes %d: want 1 to %d", c.SegmentBytes, int64(maxSegmentBytes))
	check(c.SegmentIndexBytes >= 8, "segment index bytes %d: want at least 8", c.SegmentIndexBytes)
	check(c.IndexIntervalBytes >= 0, "index interval bytes %d: want 0 or more", c.IndexIntervalBytes)
	check(c.FlushMessages >= 0, "flush messages %d: want 0 or more", c.FlushMessages)
	check(c.FlushInterval >= 0, "flush interval %v: want 0 or more", c.FlushInterval)
	check(c.MaxProducers > 0, "max producers %d: want at least 1", c.MaxProducers)
	check(c.ProducerExpiry > 0, "producer expiry %v: want more than 0", c.ProducerExpiry)
	return errors.Join(faults...)
}

// maxSegmentBytes keeps every position inside Kafka's index format, an int32.
const maxSegmentBytes = 1<<31 - 1

// Clock gives both times (R13). The zero value is the system's.
type Clock struct {
	Wall func() time.Time
	Mono func() time.Duration

	// steady is the wall time in ms at which the log was opened and what has passed since by the monotonic clock: how long
	// a producer has been idle does not depend on a wall clock that is set (L5).
	steady func() int64
}

// steadied adds steady.
func (c Clock) steadied() Clock {
	began, from, mono := c.Wall(), c.Mono(), c.Mono
	c.steady = func() int64 { return began.Add(mono() - from).UnixMilli() }
	return c
}

// Options say where a log lives and what it shares with others.
type Options struct {
	// Dir is the partition's directory ([DataDir.Path]); it is created if absent.
	Dir    string
	Config Config
	Clock  Clock
	// Logger gets recoveries and failures; nil discards.
	Logger *slog.Logger
	// Files bounds file reads in flight and open sealed segments over all logs of
	// a broker (R20, P4); nil: a limit of this log's own.
	Files *FileLimit
	// FS is the file system; nil: the real one.
	FS disk.FS

	known []byte // what the last clean stop says of the log, if anything ([DataDir.OpenLog])
}

// Validate reports every fault.
func (o Options) Validate() error {
	var missing error
	if o.Dir == "" {
		missing = errors.New("no directory")
	}
	return errors.Join(missing, o.Config.Validate())
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Files == nil {
		o.Files = NewFileLimit(16, 16)
	}
	if o.Clock.Wall == nil {
		o.Clock.Wall = time.Now
	}
	if o.Clock.Mono == nil {
		began := time.Now()
		o.Clock.Mono = func() time.Duration { return time.Since(began) }
	}
	o.Clock = o.Clock.steadied()
	return o
}

// AppendRequest is one call's batches for one partition.
type AppendRequest struct {
	// Batches are whole v2 batches back to back. A client's are stamped in place;
	// the log keeps no reference to them.
	Batches []byte
	// Summaries are record.Judge's, one per batch; a client's headers are made to say
	// what was stamped into the bytes.
	Summaries []record.Summary
	// Epoch is stamped into a client's batches.
	Epoch record.Epoch
	// AppendTime is the broker's wall clock in milliseconds.
	AppendTime int64
	// LogAppendTime makes AppendTime the time of every record (KIP-32).
	LogAppendTime bool
	// Follower: offsets and epochs stay as the leader gave them and must continue
	// the log; producer sequences are not judged.
	Follower bool
}

// Appended says where an append's records are.
type Appended struct {
	// Base and Last are the first and last offset; for a duplicate, the original's.
	Base, Last record.Offset
	// Next is the log's end after the call. A caller that waits for the high
	// watermark waits for Last+1 (a duplicate too: H11).
	Next record.Offset
	// Rolled: a segment was sealed by this append, so there may be something to upload.
	Rolled bool
	// Duplicate: the batch was in the log already; nothing was appended.
	Duplicate bool
	// AppendTime is what a LogAppendTime topic answers, in milliseconds; -1 where
	// records keep their own time.
	AppendTime int64
}

// Bounds is a lock-free look at the log.
type Bounds struct {
	// LocalStart is the first offset on this disk.
	LocalStart record.Offset
	// End is the log end offset (leo); every byte below it is written.
	End record.Offset
	// Flushed is the end of what is known to be synced.
	Flushed record.Offset
	// Acked is the end that this replica may count as its own for the high
	// watermark: Flushed where FlushMessages is 1, else End (R17).
	Acked record.Offset
}

// SegmentInfo describes one local segment.
type SegmentInfo struct {
	Base, Next   record.Offset
	Bytes        int64
	MaxTimestamp int64 // ms; record.NoTimestamp if no record has one
	// FirstAppendMono is when the first batch was appended, on Clock.Mono; after a
	// restart reckoned back from the stored wall time, so it may be negative (R13).
	FirstAppendMono time.Duration
	// FirstAppendWall and LastAppendWall are the broker's wall clock in ms, 0 for an
	// empty segment.
	FirstAppendWall, LastAppendWall int64
	Sealed                          bool
}

// RollReason says who wanted a roll; it is logged.
type RollReason string

// Why a segment ends.
const (
	RollSize     RollReason = "size"
	RollIndex    RollReason = "index full"
	RollSpan     RollReason = "offset span"
	RollTime     RollReason = "segment.ms"
	RollCopy     RollReason = "remote.copy.max.delay.ms"
	RollPressure RollReason = "disk pressure"
	RollExpired  RollReason = "all of it expired"
	RollHandover RollReason = "handover"
)
