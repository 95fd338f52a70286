package admin

import (
	"context"
	"errors"
	"time"

	"tidemark/record"
)

// ErrUnknown is what a [State] wraps when there is no such topic or partition.
var ErrUnknown = errors.New("there is no such topic or partition")

// State is what is shown. Its methods may be called at any time, from any goroutine, until Run of the
// server has returned.
type State interface {
	// Readiness says whether the broker can serve, why not (one line each), and what is wrong although
	// it can (DESIGN §9).
	Readiness() (ready bool, reasons, warnings []string)
	// Overview describes the cluster as this broker knows it.
	Overview() Overview
	// Topics lists the live topics by name.
	Topics() []Topic
	// Tier describes a topic's partitions by number. ErrUnknown.
	Tier(ctx context.Context, topic string) (TopicTier, error)
	// Segments lists up to limit objects of a partition in offset order, from the one that covers
	// offset from on. ErrUnknown.
	Segments(ctx context.Context, topic string, partition int32, from record.Offset, limit int) ([]Segment, error)
}

// Overview is the cluster in short.
type Overview struct {
	Cluster string   `json:"cluster"` // its id, as Kafka shows it
	Broker  int32    `json:"broker"`  // the one that answers
	Version int64    `json:"version"` // of the cluster state that it has pulled
	Brokers []Broker `json:"brokers"`
}

// Broker is one live broker.
type Broker struct {
	ID        int32    `json:"id"`
	Rack      string   `json:"rack,omitempty"`
	Listeners []string `json:"listeners"` // NAME://host:port, as advertised
}

// Topic is one live topic.
type Topic struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int               `json:"partitions"`
	Replicas   int               `json:"replicas"`
	Configs    map[string]string `json:"configs"` // the topic's own; defaults are left out
}

// TopicTier is a topic's two tiers.
type TopicTier struct {
	Topic      string      `json:"topic"`
	ID         string      `json:"id"`
	Remote     bool        `json:"remote"` // remote.storage.enable
	Partitions []Partition `json:"partitions"`
}

// Partition is where one partition stands. Offsets and bytes are of the answering broker's replica;
// they are missing (Here false) if it has none.
type Partition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"` // -1: none
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`

	Here bool `json:"here"`
	// The offsets of DESIGN §2; Tiered is exclusive.
	Start         record.Offset `json:"start"`
	LocalStart    record.Offset `json:"localStart"`
	Tiered        record.Offset `json:"tiered"`
	Stable        record.Offset `json:"stable"`
	HighWatermark record.Offset `json:"highWatermark"`
	LogEnd        record.Offset `json:"logEnd"`
	LocalBytes    int64         `json:"localBytes"`
	TierBytes     int64         `json:"tierBytes"`

	// Upload is missing if the broker does not lead the partition.
	Upload *Upload `json:"upload,omitempty"`
	// Retention is the next decision of retention and why, in a sentence, or who leads the partition and decides.
	Retention string `json:"retention,omitempty"`
	// LocalRetention is which local segment is freed next and why, or what that waits for.
	LocalRetention string `json:"localRetention,omitempty"`
}

// Upload is how a partition's uploads go.
type Upload struct {
	// Stalled says why the last attempt failed; "" if it did not.
	Stalled      string     `json:"stalled,omitempty"`
	StalledSince *time.Time `json:"stalledSince,omitempty"`
	Failures     int        `json:"failures"` // in a row
	Objects      int64      `json:"objects"`  // published since the broker leads the partition
	Bytes        int64      `json:"bytes"`
}

// Segment is one object of the tier. Times are milliseconds since 1970, -1 if unknown.
type Segment struct {
	Base         record.Offset `json:"base"` // inclusive
	Next         record.Offset `json:"next"` // exclusive
	Bytes        int64         `json:"bytes"`
	Records      int64         `json:"records"`
	MinTimestamp int64         `json:"minTimestamp"`
	MaxTimestamp int64         `json:"maxTimestamp"`
	AppendTime   int64         `json:"appendTime"`
	LeaderEpoch  record.Epoch  `json:"leaderEpoch"`
	Generation   int32         `json:"generation"`
	Key          string        `json:"key"`
	SHA256       string        `json:"sha256"`
}
