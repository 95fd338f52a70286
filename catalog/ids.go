package catalog

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"tidemark/record"
)

// UUID is a random 128-bit id as Kafka's Uuid. The zero value means "none".
type UUID [16]byte

// TopicID identifies a topic for ever; a topic that is deleted and created again has a new one (D18).
type TopicID = UUID

// NewUUID returns a random, non-zero id whose text does not begin with '-', as Kafka's randomUuid.
func NewUUID() UUID {
	for {
		var id UUID
		if _, err := rand.Read(id[:]); err != nil {
			panic(fmt.Sprintf("catalog: the system's random source failed: %v", err))
		}
		if id != (UUID{}) && id.String()[0] != '-' {
			return id
		}
	}
}

// String is Kafka's form: URL-safe base64 without padding, 22 characters.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Hex is the form used in directory names and object keys: 32 characters of [0-9a-f] (R3).
func (id UUID) Hex() string { return hex.EncodeToString(id[:]) }

// ParseUUID reads either form.
func ParseUUID(s string) (UUID, error) {
	var id UUID
	var raw []byte
	var err error
	if len(s) == 32 {
		raw, err = hex.DecodeString(s)
	} else {
		raw, err = base64.RawURLEncoding.DecodeString(s)
	}
	if err != nil || len(raw) != 16 {
		return UUID{}, fmt.Errorf("%q is not a 128-bit id (22 characters of base64 or 32 of hex)", s)
	}
	copy(id[:], raw)
	return id, nil
}

// BrokerID is a broker's number, unique in the cluster. NoBroker stands for "none".
type BrokerID int32

// NoBroker means that no broker holds the role.
const NoBroker BrokerID = -1

// Incarnation is the random positive number that the catalog gives a broker at registration (H4,
// H29). Zero means "none".
type Incarnation int64

// Version is a value of the one counter that orders cluster changes (R12).
type Version int64

// SegmentID names one row of the segments table for ever.
type SegmentID int64

// PartitionID names one partition of one topic.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

// String is "<topic id>-<partition>".
func (p PartitionID) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Guard is what every write by a leader carries (R10). It holds as long as the partition row names
// this broker, its incarnation is the registered one, and the epoch is the partition's.
type Guard struct {
	Broker      BrokerID
	Incarnation Incarnation
	Epoch       record.Epoch
}
