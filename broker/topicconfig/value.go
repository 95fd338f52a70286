package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid is wrapped by every refusal of this package; on the wire it is INVALID_CONFIG with the error's text.
var ErrInvalid = errors.New("invalid config")

// refusal is an ErrInvalid whose text is a whole sentence for the client.
type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) Unwrap() error { return ErrInvalid }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// invalid is the sentence that Kafka gives for a bad value.
func invalid(name, text, reason string) error {
	return refuse("Invalid value %s for configuration %s: %s.", text, name, reason)
}

// Millis is a duration in milliseconds as configs hold it. It may be as large as 2^63-1 and, where the config says so,
// -1 (no limit) or -2 (follow another config): convert it with Duration, never by multiplication.
type Millis int64

// Duration converts to a time.Duration, the longest one where the value is larger. Negative values give a negative result:
// look at their meaning first.
func (m Millis) Duration() time.Duration {
	const most = Millis(math.MaxInt64 / int64(time.Millisecond))
	if m > most {
		return math.MaxInt64
	}
	return time.Duration(m) * time.Millisecond
}

// value is a parsed config value; the field of its type is set.
type value struct {
	num   int64
	float float64
	flag  bool
	text  string
	list  []string
}

// rule is what a value must satisfy beyond its type: words for people and a test that returns the reason of a refusal.
type rule struct {
	text   string
	refuse func(value) string
}

var anything = rule{text: "any", refuse: func(value) string { return "" }}

func atLeast(n int64) rule {
	return rule{text: fmt.Sprintf("at least %d", n), refuse: func(v value) string {
		if v.num < n {
			return fmt.Sprintf("Value must be at least %d", n)
		}
		return ""
	}}
}

func between(lo, hi int64) rule {
	return rule{text: fmt.Sprintf("%d to %d", lo, hi), refuse: func(v value) string {
		if v.num < lo || v.num > hi {
			return fmt.Sprintf("Value must be between %d and %d", lo, hi)
		}
		return ""
	}}
}

func fraction() rule {
	return rule{text: "0 to 1", refuse: func(v value) string {
		if !(v.float >= 0 && v.float <= 1) {
			return "Value must be between 0 and 1"
		}
		return ""
	}}
}

func oneOf(words ...string) rule {
	all := strings.Join(words, ", ")
	return rule{text: "one of " + all, refuse: func(v value) string {
		for _, w := range words {
			if v.text == w {
				return ""
			}
		}
		return "String must be one of: " + all
	}}
}

func someOf(words ...string) rule {
	all := strings.Join(words, ", ")
	return rule{text: "some of " + all + ", each once", refuse: func(v value) string {
		seen := map[string]bool{}
		for _, item := range v.list {
			if oneOf(words...).refuse(value{text: item}) != "" {
				return fmt.Sprintf("%q is none of: %s", item, all)
			}
			if seen[item] {
				return fmt.Sprintf("%q stands twice", item)
			}
			seen[item] = true
		}
		return ""
	}}
}

func gzipLevel() rule {
	return rule{text: "1 to 9, or -1", refuse: func(v value) string {
		if v.num == -1 || (v.num >= 1 && v.num <= 9) {
			return ""
		}
		return "Value must be between 1 and 9 or equal to -1"
	}}
}

// throttledReplicas accepts "*", "none", or a list of partition:broker pairs.
func throttledReplicas() rule {
	return rule{text: "`*`, or a list of partition:broker", refuse: func(v value) string {
		if len(v.list) == 1 && (v.list[0] == "*" || v.list[0] == "none") {
			return ""
		}
		for _, item := range v.list {
			p, b, ok := strings.Cut(item, ":")
			_, errP := strconv.ParseUint(p, 10, 31)
			_, errB := strconv.ParseUint(b, 10, 31)
			if !ok || errP != nil || errB != nil {
				return fmt.Sprintf("%q is neither `*` nor a list of partition:broker", item)
			}
		}
		return ""
	}}
}

// parse reads a text as Kafka's ConfigDef does: spaces around it are dropped, booleans may have any case.
func (d Definition) parse(text string) (value, error) {
	trimmed := strings.TrimSpace(text)
	v := value{text: trimmed}
	var err error
	switch d.Type {
	case Boolean:
		switch strings.ToLower(trimmed) {
		case "true":
			v.flag = true
		case "false":
		default:
			return v, invalid(d.Name, quoteEmpty(trimmed), "Expected value to be either true or false")
		}
	case Short:
		v.num, err = strconv.ParseInt(trimmed, 10, 16)
	case Int:
		v.num, err = strconv.ParseInt(trimmed, 10, 32)
	case Long:
		v.num, err = strconv.ParseInt(trimmed, 10, 64)
	case Double:
		v.float, err = strconv.ParseFloat(trimmed, 64)
	case List:
		v.list = splitList(trimmed)
	}
	if err != nil {
		return v, invalid(d.Name, quoteEmpty(trimmed), "Not a number of type "+d.Type.String())
	}
	if reason := d.valid.refuse(v); reason != "" {
		return v, invalid(d.Name, quoteEmpty(trimmed), reason)
	}
	return v, nil
}

func quoteEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

// splitList splits at commas and drops the spaces around the items; an empty text is the empty list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
