package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes; its text may carry a unit: KiB, MiB, GiB, TiB, PiB, or KB, MB, GB, TB for powers of ten.
type Bytes int64

var units = []struct {
	name string
	size int64
}{
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// UnmarshalText reads "64MiB", "1 GiB" or "1048576".
func (b *Bytes) UnmarshalText(text []byte) error {
	s, size := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if head, ok := strings.CutSuffix(s, u.name); ok {
			s, size = strings.TrimSpace(head), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n < 0:
		return errors.New("not a size")
	case n > math.MaxInt64/size:
		return errors.New("too large")
	}
	*b = Bytes(n * size)
	return nil
}

// String writes the largest binary unit that divides the number.
func (b Bytes) String() string {
	for _, u := range units[:5] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Secret is a text that is never printed.
type Secret string

// Reveal gives the text itself, for the one place that compares it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogFormat is how log lines are written.
type LogFormat string

// The formats.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// UnmarshalText accepts the two formats only.
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch got := LogFormat(strings.ToLower(strings.TrimSpace(string(text)))); got {
	case LogText, LogJSON:
		*f = got
		return nil
	}
	return fmt.Errorf("not a log format")
}
