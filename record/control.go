package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is what a control record says, by Kafka's numbers.
type ControlType int16

// The ends of a transaction. Types above are KRaft's; they are stored, not read.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

const (
	controlKeySize   = 4 // version int16, type int16
	controlValueSize = 6 // version int16, coordinator epoch int32
)

// ControlOptions describes one transaction marker.
type ControlOptions struct {
	Type             ControlType
	BaseOffset       Offset
	LeaderEpoch      Epoch
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Timestamp        int64 // milliseconds
}

// ControlBatch builds the batch that ends a transaction, byte for byte as Kafka
// writes it: one record, key (version 0, type), value (version 0, coordinator
// epoch), no sequence, transactional and control bits set.
func ControlBatch(o ControlOptions) []byte {
	key := binary.BigEndian.AppendUint16(nil, 0)
	key = binary.BigEndian.AppendUint16(key, uint16(o.Type))
	value := binary.BigEndian.AppendUint16(nil, 0)
	value = binary.BigEndian.AppendUint32(value, uint32(o.CoordinatorEpoch))
	b := NewBuilder(BuilderOptions{
		BaseOffset:    o.BaseOffset,
		LeaderEpoch:   o.LeaderEpoch,
		Producer:      &Producer{ID: o.ProducerID, Epoch: o.ProducerEpoch, BaseSequence: NoSequence},
		Transactional: true,
		Control:       true,
	})
	b.Add(o.Timestamp, key, value)
	return b.Build()
}

// ParseControl reads the first record of a control batch. Types other than abort
// and commit come with coordinator epoch -1. An empty control batch (compaction
// took its marker) and one that is not control: ErrInvalidRecord.
func ParseControl(batch []byte) (t ControlType, coordinatorEpoch int32, err error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return 0, 0, err
	}
	if !h.IsControl() || h.Count == 0 {
		return 0, 0, fmt.Errorf("%w: no control record in batch at %d", ErrInvalidRecord, h.BaseOffset)
	}
	for r, err := range Records(batch, nil) {
		if err != nil {
			return 0, 0, err
		}
		return parseControlRecord(r.Key, r.Value)
	}
	return 0, 0, fmt.Errorf("%w: no control record in batch at %d", ErrInvalidRecord, h.BaseOffset)
}

func parseControlRecord(key, value []byte) (ControlType, int32, error) {
	t, err := parseControlKey(key)
	if err != nil || t > ControlCommit {
		return t, -1, err
	}
	if len(value) < controlValueSize || int16(binary.BigEndian.Uint16(value)) < 0 {
		return t, 0, fmt.Errorf("%w: control value of %d bytes", ErrInvalidRecord, len(value))
	}
	return t, int32(binary.BigEndian.Uint32(value[2:])), nil
}

func parseControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize {
		return 0, fmt.Errorf("%w: control key of %d bytes", ErrInvalidRecord, len(key))
	}
	version, t := int16(binary.BigEndian.Uint16(key)), ControlType(binary.BigEndian.Uint16(key[2:]))
	if version < 0 || t < 0 {
		return 0, fmt.Errorf("%w: control key version %d, type %d", ErrInvalidRecord, version, t)
	}
	return t, nil
}
