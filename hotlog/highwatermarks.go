package hotlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tidemark/hotlog/disk"
	"tidemark/record"
)

// high-watermarks, sealed; big-endian, for each partition:
//
//	16 bytes topic id, int32 partition, int64 high watermark
const (
	watermarksName = "high-watermarks"
	watermarkSize  = 16 + 4 + 8
)

var watermarksKind = disk.Kind{Magic: "TMHW", Version: 1}

// StoreHighWatermarks replaces what HighWatermarks will return, durably.
func (d *DataDir) StoreHighWatermarks(marks map[[16]byte]map[int32]record.Offset) error {
	var b []byte
	for topic, parts := range marks {
		for part, hw := range parts {
			b = append(b, topic[:]...)
			b = binary.BigEndian.AppendUint32(b, uint32(part))
			b = binary.BigEndian.AppendUint64(b, uint64(hw))
		}
	}
	if err := disk.WriteSealed(d.fs, d.file(watermarksName), watermarksKind, b); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	return nil
}

// HighWatermarks are the stored ones. They are hints: none is as good as an old one, so a file that is absent or
// damaged is an empty one.
func (d *DataDir) HighWatermarks() map[[16]byte]map[int32]record.Offset {
	b, err := disk.ReadSealed(d.file(watermarksName), watermarksKind)
	if errors.Is(err, disk.ErrDamaged) {
		d.logger.Warn("stored high watermarks are damaged; going on without", "dir", d.path, "err", err)
	}
	if err != nil {
		return nil
	}
	marks := map[[16]byte]map[int32]record.Offset{}
	for ; len(b) >= watermarkSize; b = b[watermarkSize:] {
		topic := [16]byte(b[:16])
		if marks[topic] == nil {
			marks[topic] = map[int32]record.Offset{}
		}
		marks[topic][int32(binary.BigEndian.Uint32(b[16:]))] = record.Offset(binary.BigEndian.Uint64(b[20:]))
	}
	return marks
}
