package topicconfig

import (
	"fmt"
	"strings"
)

// Throttled is a list of throttled replicas: all, none, or partitions on brokers. The zero value is none; equal lists
// are equal values.
type Throttled struct {
	pairs string // "*", or ",partition:broker," with a comma before and after each; empty: none
}

// Any reports whether some replica is throttled.
func (t Throttled) Any() bool { return t.pairs != "" }

// Has reports whether the replica of a partition on a broker is throttled.
func (t Throttled) Has(partition, broker int32) bool {
	return t.pairs == "*" || t.pairs != "" && strings.Contains(t.pairs, fmt.Sprintf(",%d:%d,", partition, broker))
}

// throttledOf reads a value that throttledReplicas accepts.
func throttledOf(v value) Throttled {
	switch {
	case len(v.list) == 0 || v.list[0] == "none":
		return Throttled{}
	case v.list[0] == "*":
		return Throttled{"*"}
	}
	return Throttled{"," + strings.Join(v.list, ",") + ","}
}
