package record

import (
	"fmt"
	"strings"
)

// Codec is how the records of a batch are compressed, by Kafka's numbers.
type Codec int8

// The codecs of Kafka.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is Kafka's name of the codec, as in compression.type.
func (c Codec) String() string {
	if c.Known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Known reports that the codec exists.
func (c Codec) Known() bool { return c >= CodecNone && c <= CodecZstd }

// ParseCodec reads a name as in compression.type; "uncompressed" is "none".
// Error: ErrCodec.
func ParseCodec(name string) (Codec, error) {
	name = strings.ToLower(name)
	if name == "uncompressed" {
		return CodecNone, nil
	}
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrCodec, name)
}
