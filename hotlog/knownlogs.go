package hotlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
	"tidemark/record/producer"
)

// logs, sealed: of each log that a clean stop closed, what it knew then, so that the next start opens it without
// reading its files. It is believed beside the clean mark only, and removed, durably, with it. Big-endian, for each log:
//
//	16 bytes topic id, int32 partition, uint32 length of what follows
//	uint8    1: the epoch checkpoint has the epochs below; 2: some aborted transactions are in no index file
//	int64    offset of the last close's producer state; -1: none
//	32 bytes the recovery point, as in its file
//	uint32   number of segments, each
//	           int64 base, int64 end, int64 size in bytes
//	           int64 largest timestamp, int64 offset of its batch's last record
//	           int64 position and int64 base offset of where the last append began
//	           int64 wall ms of its first append, int64 of its last one
//	           uint32 entries in the offset, time and transaction index
//	           uint8 1: the index files are not the segment's whole index
//	epoch history, aborted transactions, producer state
const (
	knownEpochs  = 1
	knownAborted = 2
	knownStale   = 1

	knownSegment = 9*8 + 3*4 + 1
	// knownMax bounds what is kept of one log; one with more, by its producers above all, is opened by its own files.
	knownMax = 64 << 10
)

var logsKind = disk.Kind{Magic: "TMLS", Version: 1}

type partitionKey struct {
	topic     [16]byte
	partition int32
}

// OpenLog opens a partition's log in this directory; o's Dir and FS are given by it. After a clean stop the log is known
// from what CloseLogs wrote, its files are opened by whoever uses it first. Errors: Open's.
func (d *DataDir) OpenLog(ctx context.Context, topic [16]byte, partition int32, o Options) (*Log, error) {
	d.letGo(partitionKey{topic, partition})
	o.Dir, o.FS, o.known = d.Path(topic, partition), d.fs, d.takeKnown(topic, partition)
	return Open(ctx, o)
}

// takeKnown is what the clean stop left of a log, once: from then on the files may be others.
func (d *DataDir) takeKnown(topic [16]byte, partition int32) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := partitionKey{topic, partition}
	b := d.known[key]
	delete(d.known, key)
	return b
}

// readKnown is a start's. A file that is absent or damaged costs time, nothing else.
func (d *DataDir) readKnown() {
	b, err := disk.ReadSealed(d.file(logsName), logsKind)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.logger.Warn("what the clean stop wrote of the logs is unreadable: each is opened by its own files", "dir", d.path, "err", err)
		}
		return
	}
	d.known = map[partitionKey][]byte{}
	for len(b) >= 24 {
		key := partitionKey{[16]byte(b), int32(binary.BigEndian.Uint32(b[16:]))}
		n := int(binary.BigEndian.Uint32(b[20:]))
		if b = b[24:]; n > len(b) {
			return
		}
		d.known[key], b = b[:n:n], b[n:]
	}
}

// storeKnown writes the file for the logs of this directory that were closed well. It is not durable before the clean mark
// is. A disk that cannot take it costs the next start time.
func (d *DataDir) storeKnown(logs []*Log) {
	var b []byte
	for _, l := range logs {
		key, ok := d.keyOf(l)
		if !ok {
			continue
		}
		known := l.describe()
		if known == nil || len(known) > knownMax {
			continue
		}
		b = append(b, key.topic[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(key.partition))
		b = binary.BigEndian.AppendUint32(b, uint32(len(known)))
		b = append(b, known...)
	}
	if err := disk.WriteSealed(d.fs, d.file(logsName), logsKind, b); err != nil {
		d.logger.Warn("the logs' state is not stored: the next start opens each by its own files", "dir", d.path, "err", err)
	}
}

// describe is what openKnown needs of a closed log; nil if its files know less than it did, or there are none. Nobody else has the log.
func (l *Log) describe() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := *l.segs.Load()
	if !l.settled || l.unmade || l.active.snapshot != nil {
		return nil
	}
	var flags byte
	if epochs := *l.epochs.Load(); l.savedTo.is(epochs) {
		flags |= knownEpochs
	}
	if l.newAborted {
		flags |= knownAborted
	}
	b := binary.BigEndian.AppendUint64([]byte{flags}, uint64(l.snapshotAt))
	b = append(b, l.stored.encode()...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(segs)))
	for _, s := range segs {
		if s != l.active && !s.settled {
			return nil
		}
		b = s.describe(b)
	}
	b = l.epochs.Load().AppendTo(b)
	l.txnMu.Lock()
	b = l.aborted.AppendTo(b)
	l.txnMu.Unlock()
	return l.state.AppendTo(b)
}

func (s *seg) describe(b []byte) []byte {
	e := s.extent()
	for _, x := range [...]int64{
		int64(s.base), int64(e.next), e.size, e.peak.Timestamp, int64(e.peak.At), e.lastPos, int64(e.lastBase),
		s.firstWall.Load(), s.lastWall.Load(),
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(x))
	}
	for _, n := range [...]int{s.onDisk.offsets, s.onDisk.times, s.onDisk.txns} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	stale := s.stale || s.index != nil && (len(s.index.Offsets) != s.onDisk.offsets || len(s.index.Times) != s.onDisk.times)
	if stale {
		return append(b, knownStale)
	}
	return append(b, 0)
}

// known is what describe wrote.
type known struct {
	flags      byte
	snapshotAt record.Offset
	stored     recoveryPoint
	segs       []*seg
	epochs     record.EpochHistory
	aborted    producer.AbortedList
	state      *producer.State
}

// openKnown opens a log without reading its files, whose names and sizes alone are compared with what is known. Nil if
// nothing is known, or the files are others.
func openKnown(o Options) *Log {
	if o.known == nil {
		return nil
	}
	l := newLog(o)
	k, err := l.decodeKnown(o.known)
	if err == nil {
		err = k.compare()
	}
	if err != nil {
		l.logger.Warn("the log is not as the clean stop left it: it is opened by its own files", "dir", l.dir, "err", err)
		return nil
	}
	l.takeOver(k)
	return l
}

func (l *Log) decodeKnown(b []byte) (k known, err error) {
	const head = 1 + 8 + pointSize + 4
	if len(b) < head {
		return k, fmt.Errorf("%w: a log's state of %d bytes", disk.ErrDamaged, len(b))
	}
	k.flags, k.snapshotAt = b[0], record.Offset(binary.BigEndian.Uint64(b[1:]))
	k.stored = decodePoint(b[9:])
	n := int(binary.BigEndian.Uint32(b[9+pointSize:]))
	b = b[head:]
	if n < 1 || n > len(b)/knownSegment {
		return k, fmt.Errorf("%w: a log's state with %d segments in %d bytes", disk.ErrDamaged, n, len(b))
	}
	for ; n > 0; n-- {
		k.segs = append(k.segs, l.decodeSegment(b))
		b = b[knownSegment:]
	}
	if k.epochs, b, err = record.DecodeEpochHistory(b); err != nil {
		return k, err
	}
	if k.aborted, b, err = producer.DecodeAborted(b); err != nil {
		return k, err
	}
	k.state, err = producer.Decode(b, l.config.Load().MaxProducers)
	return k, err
}

func (l *Log) decodeSegment(b []byte) *seg {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	count := func(i int) int { return int(binary.BigEndian.Uint32(b[9*8+4*i:])) }
	s := newSeg(l, record.Offset(at(0)))
	s.ext = extent{
		next: record.Offset(at(1)), size: at(2), peak: segment.Peak{Timestamp: at(3), At: record.Offset(at(4))},
		lastPos: at(5), lastBase: record.Offset(at(6)),
	}
	s.firstWall.Store(at(7))
	s.lastWall.Store(at(8))
	s.onDisk = written{count(0), count(1), count(2)}
	s.stale = b[knownSegment-1] == knownStale
	return s
}

// compare looks at the names and sizes of the log's files.
func (k known) compare() error {
	for i, s := range k.segs {
		if i > 0 && k.segs[i-1].ext.next != s.base {
			return fmt.Errorf("%w: segment %d follows one that ends at %d", disk.ErrDamaged, s.base, k.segs[i-1].ext.next)
		}
		info, err := os.Stat(s.path(segment.LogSuffix))
		if err != nil {
			return err
		}
		if info.Size() != s.ext.size {
			return fmt.Errorf("segment %d has %d bytes, not %d", s.base, info.Size(), s.ext.size)
		}
	}
	return nil
}

// takeOver makes the log what it was when it was closed.
func (l *Log) takeOver(k known) {
	l.stored, l.snapshotAt = k.stored, k.snapshotAt
	l.savedTo = storedEpochs{k.flags&knownEpochs != 0, k.epochs}
	history := k.epochs
	history.TruncateTo(k.segs[len(k.segs)-1].ext.next) // as a start does that reads the files
	l.epochs.Store(&history)
	l.aborted, l.state = k.aborted, k.state
	l.newAborted = k.flags&knownAborted != 0
	for _, s := range k.segs {
		s.sealed.Store(true)
		s.settled = true
		if s.ext.size > 0 { // else its index is empty, and there
			s.index = nil
		}
		if s.firstWall.Load() != 0 {
			l.reckonAge(s)
		}
	}
	active := k.segs[len(k.segs)-1]
	active.sealed.Store(false)
	active.settled, active.pinned = false, true
	l.publishLocked(k.segs)
	l.start.Store(int64(k.segs[0].base))
	l.end.Store(int64(active.ext.next))
	l.flushed.Store(int64(active.ext.next))
	l.settleUndecided()
}
