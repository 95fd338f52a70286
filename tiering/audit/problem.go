package audit

import (
	"fmt"

	"tidemark/record"
)

// Kind says what is wrong.
type Kind string

// The kinds of problems.
const (
	// Missing: the bucket has no object under a live row's key.
	Missing Kind = "missing"
	// Size: the object is longer or shorter than its row says.
	Size Kind = "size"
	// Footer: the object's footer cannot be read, or tells of another object than the row.
	Footer Kind = "footer"
	// Checksum: the SHA-256 of the object is not the row's, or a block fails its CRC-32C.
	Checksum Kind = "checksum"
	// Unreadable: the store did not give the object, which says nothing of its state.
	Unreadable Kind = "unreadable"
	// Continuity: the rows of a partition leave a hole, overlap, or do not reach from start to tiered.
	Continuity Kind = "continuity"
	// Accounting: the partition's tier_bytes is not the sum of its rows.
	Accounting Kind = "accounting"
	// Unknown: nothing in the catalog names an object of the bucket.
	Unknown Kind = "unknown"
	// Foreign: a key of the bucket that is none of a Tidemark cluster's, or of another cluster.
	Foreign Kind = "foreign"
)

// Kinds are all kinds.
var Kinds = [...]Kind{Missing, Size, Footer, Checksum, Unreadable, Continuity, Accounting, Unknown, Foreign}

// Problem is one thing that is wrong. Topic is "" and Base and Next are 0 where they are not known.
type Problem struct {
	Kind      Kind          `json:"kind"`
	Topic     string        `json:"topic,omitempty"`
	Partition int32         `json:"partition"`
	Base      record.Offset `json:"base"`
	Next      record.Offset `json:"next"`
	Key       string        `json:"key,omitempty"`
	Detail    string        `json:"detail"`
}

func (p Problem) String() string {
	text := string(p.Kind) + ": "
	if p.Topic != "" {
		text += fmt.Sprintf("%s-%d ", p.Topic, p.Partition)
	}
	if p.Next > p.Base {
		text += fmt.Sprintf("[%d, %d) ", p.Base, p.Next)
	}
	if p.Key != "" {
		text += p.Key + " "
	}
	return text + "– " + p.Detail
}
