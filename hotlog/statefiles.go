package hotlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
	"tidemark/record/producer"
)

// The small files of a log, all sealed (disk.Seal). Payloads, big-endian:
//
//	recovery-point            int64 offset, int64 base of the active segment,
//	                          int64 its size in bytes, int64 wall ms of its first append
//	leader-epoch-checkpoint   record.EpochHistory
//	<offset>.snapshot         producer.State at offset
//	reset                     int64 start, uint32 length and bytes of the
//	                          EpochHistory, producer.State
const (
	pointFile  = "recovery-point"
	epochsFile = "leader-epoch-checkpoint"
	resetFile  = "reset"
)

var (
	pointKind    = disk.Kind{Magic: "TMRP", Version: 1}
	epochsKind   = disk.Kind{Magic: "TMLE", Version: 1}
	snapshotKind = disk.Kind{Magic: "TMPS", Version: 1}
	resetKind    = disk.Kind{Magic: "TMRS", Version: 1}
)

// recoveryPoint says that all below offset is synced, and where the log ended
// then: if the last segment still has that base and size, nothing was appended
// since, and a start need not scan (I4).
type recoveryPoint struct {
	offset    record.Offset
	base      record.Offset
	size      int64
	firstWall int64
}

// noPoint trusts nothing.
var noPoint = recoveryPoint{base: record.NoOffset, size: -1}

const pointSize = 32

func (p recoveryPoint) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, pointSize), uint64(p.offset))
	b = binary.BigEndian.AppendUint64(b, uint64(p.base))
	b = binary.BigEndian.AppendUint64(b, uint64(p.size))
	return binary.BigEndian.AppendUint64(b, uint64(p.firstWall))
}

func readPoint(dir string) (recoveryPoint, error) {
	b, err := disk.ReadSealed(filepath.Join(dir, pointFile), pointKind)
	if err != nil {
		return noPoint, err
	}
	if len(b) != pointSize {
		return noPoint, fmt.Errorf("%w: recovery point of %d bytes", disk.ErrDamaged, len(b))
	}
	return decodePoint(b), nil
}

func decodePoint(b []byte) recoveryPoint {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return recoveryPoint{record.Offset(at(0)), record.Offset(at(1)), at(2), at(3)}
}

func readEpochs(dir string) (record.EpochHistory, error) {
	b, err := disk.ReadSealed(filepath.Join(dir, epochsFile), epochsKind)
	if err != nil {
		return record.EpochHistory{}, err
	}
	history, rest, err := record.DecodeEpochHistory(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after the epochs", disk.ErrDamaged, len(rest))
	}
	return history, err
}

func readSnapshot(dir string, at record.Offset, maxProducers int) (*producer.State, error) {
	b, err := disk.ReadSealed(filepath.Join(dir, segment.Name(at, segment.SnapshotSuffix)), snapshotKind)
	if err != nil {
		return nil, err
	}
	return producer.Decode(b, maxProducers)
}

// resetPlan is what a Reset will have done, whatever happens in between.
type resetPlan struct {
	start  record.Offset
	epochs record.EpochHistory
	state  []byte
}

func (p resetPlan) encode() []byte {
	history := p.epochs.AppendTo(nil)
	b := binary.BigEndian.AppendUint64(nil, uint64(p.start))
	b = binary.BigEndian.AppendUint32(b, uint32(len(history)))
	return append(append(b, history...), p.state...)
}

func readReset(dir string) (resetPlan, bool, error) {
	b, err := disk.ReadSealed(filepath.Join(dir, resetFile), resetKind)
	if errors.Is(err, fs.ErrNotExist) {
		return resetPlan{}, false, nil
	}
	if err != nil {
		return resetPlan{}, false, err
	}
	if len(b) < 12 || int64(binary.BigEndian.Uint32(b[8:])) > int64(len(b)-12) {
		return resetPlan{}, false, fmt.Errorf("%w: reset plan of %d bytes", disk.ErrDamaged, len(b))
	}
	p := resetPlan{start: record.Offset(binary.BigEndian.Uint64(b))}
	n := binary.BigEndian.Uint32(b[8:])
	p.epochs, _, err = record.DecodeEpochHistory(b[12 : 12+n])
	p.state = b[12+n:]
	return p, err == nil, err
}

// listing is what lies in a log's directory.
type listing struct {
	bases     []record.Offset // of .log files, rising (20 digits sort as numbers)
	snapshots []record.Offset // rising
	temps     []string
	indexes   map[record.Offset][]string
}

func list(dir string) (listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}, err
	}
	out := listing{indexes: map[record.Offset][]string{}}
	for _, e := range entries {
		base, suffix, ok := segment.ParseName(e.Name())
		switch {
		case disk.IsTemp(e.Name()):
			out.temps = append(out.temps, e.Name())
		case !ok:
		case suffix == segment.LogSuffix:
			out.bases = append(out.bases, base)
		case suffix == segment.SnapshotSuffix:
			out.snapshots = append(out.snapshots, base)
		default:
			out.indexes[base] = append(out.indexes[base], e.Name())
		}
	}
	return out, nil
}
