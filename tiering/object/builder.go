package object

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"tidemark/record"
	"tidemark/record/producer"
)

// ErrBatch: a batch that record.Judge refuses, or that does not continue the ones before it. Nothing
// of the run may be published (A8).
var ErrBatch = errors.New("object: the batches are not a sound run")

// errFull: the batch begins the next object.
var errFull = errors.New("object: full")

// Builder computes an object's blocks from its batches, in one pass. The batches themselves stay where
// they are. Not for concurrent use.
type Builder struct {
	spec      Spec
	sha       hash.Hash
	crc       uint32 // of the data
	position  int64
	next      record.Offset
	epoch     record.Epoch
	index     index
	minTime   int64
	maxTime   int64
	records   int64
	batches   int64
	epochs    record.EpochHistory
	producers *producer.State
	digests   *digester // nil unless compacted
}

// NewBuilder begins an object. The spec's Producers are not changed.
func NewBuilder(s Spec) (*Builder, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b := &Builder{
		spec: s, sha: sha256.New(), next: s.Base, epoch: record.NoEpoch,
		minTime: record.NoTimestamp, maxTime: record.NoTimestamp, epochs: s.Epochs,
	}
	switch {
	case s.Rewrite != nil:
		b.epochs, b.producers = s.Rewrite.Epochs, s.Rewrite.Producers
	case s.Producers != nil:
		b.producers = s.Producers.Clone()
		b.producers.SkipTo(s.Base)
	default:
		b.producers = producer.New(s.Base, 0)
	}
	if s.Compacted {
		b.digests = newDigester(&s)
	}
	return b, nil
}

// Append takes the next batch, which it judges. It keeps nothing of it. Error: ErrBatch, which names
// the position and wraps the cause.
func (b *Builder) Append(batch []byte) error {
	sum, err := record.Judge(batch, record.Rules{AllowEmpty: true})
	if err != nil {
		return b.fault(err)
	}
	h := sum.Header
	if err := b.admit(h); err != nil {
		return err
	}
	control, err := controlOf(batch, h)
	if err != nil {
		return b.fault(err)
	}
	if b.digests != nil {
		if err := b.digests.add(batch, h); err != nil {
			return b.fault(err)
		}
	}
	if b.spec.Rewrite == nil {
		b.producers.Apply(h, control, b.spec.AppendTime)
		b.epochs.Assign(h.LeaderEpoch, h.BaseOffset)
	}
	b.note(batch, &sum)
	return nil
}

// AppendUnread takes the next batch of a rewrite without looking at its records, which nobody can
// decode: only its header and its CRC are judged (H19). Its keys enter no digest. Error: ErrBatch.
func (b *Builder) AppendUnread(batch []byte) error {
	h, err := record.ParseHeader(batch)
	if err != nil {
		return b.fault(err)
	}
	if h.Size() != len(batch) || b.spec.Rewrite == nil {
		return b.fault(fmt.Errorf("%d bytes for a batch of %d that is not read", len(batch), h.Size()))
	}
	if err := record.CheckCRC(batch); err != nil {
		return b.fault(err)
	}
	if err := b.admit(h); err != nil {
		return err
	}
	b.note(batch, &record.Summary{Header: h, MinTimestamp: h.MaxTimestamp, MaxTimestamp: h.MaxTimestamp, Records: int(h.Count)})
	return nil
}

// Restrict replaces the list of aborted transactions before Finish: those that still have a record or
// their marker in a rewrite (C2).
func (b *Builder) Restrict(aborted producer.AbortedList) { b.spec.Aborted = aborted }

// CleanSince sets what the footer says of it, before Finish.
func (b *Builder) CleanSince(ms int64) { b.spec.CleanSince = ms }

// note counts a batch that was judged.
func (b *Builder) note(batch []byte, sum *record.Summary) {
	h := sum.Header
	b.noteTimes(sum)
	b.sha.Write(batch)
	b.crc = crc32.Update(b.crc, castagnoli, batch)
	b.position += int64(len(batch))
	b.next, b.epoch = h.NextOffset(), h.LeaderEpoch
	b.records += int64(sum.Records)
	b.batches++
}

// admit holds the batch against the ones before it and the object's limits.
func (b *Builder) admit(h record.Header) error {
	first := b.batches == 0
	switch {
	case first && b.spec.Rewrite == nil && h.BaseOffset != b.spec.Base:
		return b.fault(fmt.Errorf("first batch at offset %d, not %d", h.BaseOffset, b.spec.Base))
	case h.BaseOffset < b.next:
		return b.fault(fmt.Errorf("batch at offset %d below %d", h.BaseOffset, b.next))
	case h.NextOffset() > b.spec.Next:
		return b.fault(fmt.Errorf("batch ends at offset %d above %d", h.NextOffset(), b.spec.Next))
	case h.LeaderEpoch < b.epoch:
		return b.fault(fmt.Errorf("leader epoch %d after %d", h.LeaderEpoch, b.epoch))
	case b.spec.Rewrite != nil && h.LastOffset()-b.spec.Base > MaxSpan:
		return b.fault(fmt.Errorf("batch ends at offset %d, more than %d above %d", h.LastOffset(), MaxSpan, b.spec.Base))
	case first || b.spec.Rewrite != nil:
		return nil
	case h.LastOffset()-b.spec.Base > MaxSpan,
		b.spec.MaxBytes > 0 && b.position+int64(h.Size()) > b.spec.MaxBytes:
		b.spec.Next = h.BaseOffset
		return errFull
	}
	return nil
}

func (b *Builder) fault(err error) error {
	return fmt.Errorf("%w: byte %d, offset %d: %w", ErrBatch, b.position, b.next, err)
}

func (b *Builder) noteTimes(s *record.Summary) {
	if s.Records == 0 {
		b.index.note(s.Header.BaseOffset, b.position, record.NoTimestamp)
		return
	}
	b.index.note(s.Header.BaseOffset, b.position, s.MaxTimestamp)
	if b.records == 0 {
		b.minTime = s.MinTimestamp
	}
	b.minTime = min(b.minTime, s.MinTimestamp)
	b.maxTime = max(b.maxTime, s.MaxTimestamp)
}

func controlOf(batch []byte, h record.Header) (*producer.Control, error) {
	if !h.IsControl() || h.Count == 0 {
		return nil, nil
	}
	t, epoch, err := record.ParseControl(batch)
	if err != nil {
		return nil, err
	}
	return &producer.Control{Type: t, CoordinatorEpoch: epoch}, nil
}

// Finish ends the object. data holds the batches that were appended, from byte 0 on.
func (b *Builder) Finish(data io.ReaderAt) (*Built, error) {
	if b.batches == 0 {
		return nil, b.fault(errors.New("no batches"))
	}
	s := &b.spec
	if s.Rewrite == nil {
		b.producers.SkipTo(s.Next)
		b.producers.Settle(b.producers.End())
		if s.ProducerIdle > 0 {
			b.producers.Expire(s.AppendTime, s.ProducerIdle)
		}
	}
	f := Footer{
		Cluster: s.Cluster, Topic: s.Topic, TopicName: s.TopicName, Partition: s.Partition,
		LeaderEpoch: s.LeaderEpoch, Generation: s.Generation, Base: s.Base, Next: s.Next,
		MinTimestamp: b.minTime, MaxTimestamp: b.maxTime, Records: b.records, Batches: b.batches,
		AppendTime: s.AppendTime, CleanSince: s.CleanSince, Attempt: s.Attempt, DataBytes: b.position,
		Blocks: []Block{{Type: BlockData, CRC: b.crc, Length: b.position, RawBytes: b.position}},
	}
	out := &Built{Epochs: b.epochs, Producers: b.producers, data: data}
	out.rest = b.blocks(&f)
	out.Footer = f
	b.sha.Write(out.rest)
	b.sha.Sum(out.SHA256[:0])
	out.CRC32C = crc32.Update(b.crc, castagnoli, out.rest)
	return out, nil
}

// blocks writes everything after the data.
func (b *Builder) blocks(f *Footer) []byte {
	var rest []byte
	add := func(t BlockType, write func(dst []byte) []byte) {
		begin := len(rest)
		rest = write(rest)
		n := int64(len(rest) - begin)
		f.Blocks = append(f.Blocks, Block{
			Type: t, CRC: crc32.Checksum(rest[begin:], castagnoli),
			Position: f.DataBytes + int64(begin), Length: n, RawBytes: n,
		})
	}
	if b.digests != nil {
		add(BlockDigests, b.digests.appendTo)
	}
	add(BlockProducers, b.producers.AppendTo)
	f.TailPosition = f.DataBytes + int64(len(rest))
	var aborted producer.AbortedList
	for a := range b.spec.Aborted.Overlapping(b.spec.Base, b.spec.Next) {
		aborted = append(aborted, a)
	}
	add(BlockAborted, aborted.AppendTo)
	add(BlockEpochs, b.epochs.AppendTo)
	add(BlockTimes, b.index.appendTimes)
	add(BlockOffsets, b.index.appendOffsets)
	f.ObjectBytes = f.DataBytes + int64(len(rest)) + f.size(len(f.Blocks))
	return f.appendTo(rest)
}
