package record

import "errors"

// What is wrong with bytes that should be a batch. Callers ask with errors.Is;
// the wrapped text carries the numbers. In brackets: Kafka's error code.
var (
	// ErrTruncated: the bytes end before the batch does. At the end of a log it
	// is a torn tail, in a request a malformed one [CORRUPT_MESSAGE].
	ErrTruncated = errors.New("record: truncated batch")
	// ErrCorrupt: a length that cannot be or a CRC that does not fit
	// [CORRUPT_MESSAGE].
	ErrCorrupt = errors.New("record: corrupt batch")
	// ErrMagic: a message format other than 2
	// [UNSUPPORTED_FOR_MESSAGE_FORMAT].
	ErrMagic = errors.New("record: unsupported message format")
	// ErrInvalidRecord: intact bytes that break the format's rules or the
	// topic's [INVALID_RECORD].
	ErrInvalidRecord = errors.New("record: invalid record")
	// ErrInvalidTimestamp: a client claims to know the broker's append time
	// [INVALID_TIMESTAMP].
	ErrInvalidTimestamp = errors.New("record: invalid timestamp type")
	// ErrTooLarge: more bytes than the rules or this package's guards allow
	// [MESSAGE_TOO_LARGE].
	ErrTooLarge = errors.New("record: batch too large")
	// ErrBusy: too many batches that decompress to very much are judged already; the same
	// batch may be sent again [REQUEST_TIMED_OUT].
	ErrBusy = errors.New("record: batches are decompressed slower than they come")
	// ErrCodec: attributes name a codec that does not exist
	// [UNSUPPORTED_COMPRESSION_TYPE].
	ErrCodec = errors.New("record: unknown compression codec")
	// ErrOffsetRange: a builder was given an offset that one batch cannot hold:
	// out of order, or more than 2^31-1 above the base (C7).
	ErrOffsetRange = errors.New("record: offset out of the batch's range")
)
