package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidemark/record"
)

// Errors.
var (
	// ErrNoTopic: there is no such topic.
	ErrNoTopic = errors.New("there is no such topic")
	// ErrNoBucket: the bucket of a direct source cannot be read, or is not there.
	ErrNoBucket = errors.New("the bucket cannot be used")
	// ErrGone: records of the range have been removed meanwhile, or were never there.
	ErrGone = errors.New("the range is not there")
)

// Topic is what is copied, or copied to.
type Topic struct {
	Name       string
	ID         string
	Partitions int32
}

// Source gives batches of one topic. Safe for concurrent use.
type Source interface {
	Topic() Topic
	// Bounds are the first offset of a partition and the end, exclusive, of what can be copied now: nothing at or
	// above an open transaction.
	Bounds(ctx context.Context, partition int32) (start, end record.Offset, err error)
	// AtTime is the offset of the first record with a timestamp of at least ms; false if there is none.
	AtTime(ctx context.Context, partition int32, ms int64) (record.Offset, bool, error)
	// Read waits for batches from the one that holds from on, about limit bytes, at least one batch. ErrGone if
	// from lies outside of what there is.
	Read(ctx context.Context, partition int32, left Range, limit int64) (Block, error)
	// Close gives connections and files back.
	Close() error
}

// Block is a run of whole batches. The receiver owns it.
type Block struct {
	Batches []byte
	// Aborted are the aborted transactions with records in it, by rising first offset.
	Aborted []Aborted
	// Next is where to go on at least.
	Next record.Offset

	checked bool // the CRCs of the batches
}

// Aborted is an aborted transaction.
type Aborted struct {
	ProducerID int64
	First      record.Offset
}

// batches calls do for each whole batch, after checking its CRC unless that has been done.
func (b Block) batches(do func(h record.Header, batch []byte) error) error {
	for rest := b.Batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if errors.Is(err, record.ErrTruncated) {
			return nil // a fetch may end within a batch
		}
		if err != nil {
			return err
		}
		if !b.checked {
			err = record.CheckCRC(batch)
		}
		if err != nil {
			return err
		}
		h, err := record.ParseHeader(batch)
		if err != nil {
			return err
		}
		if err := do(h, batch); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

var errEnough = errors.New("replay: the range has ended")

// committed calls do for each record of [from, until) whose transaction, if it has one, committed; the record holds
// until do returns. next is where to go on.
func (b Block) committed(from, until record.Offset, scratch *record.Scratch, do func(record.Header, record.Record) error) (next record.Offset, err error) {
	next = max(from, b.Next)
	aborted, bad := b.Aborted, map[int64]bool{}
	err = b.batches(func(h record.Header, batch []byte) error {
		if h.BaseOffset >= until {
			return errEnough
		}
		next = max(next, h.NextOffset())
		for len(aborted) > 0 && aborted[0].First <= h.LastOffset() {
			bad[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if h.IsControl() {
			delete(bad, h.ProducerID)
			return nil
		}
		if h.IsTransactional() && bad[h.ProducerID] || h.NextOffset() <= from {
			return nil
		}
		for r, err := range record.Records(batch, scratch) {
			if err != nil {
				return err
			}
			if r.Offset < from || r.Offset >= until {
				continue
			}
			if err := do(h, r); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		next, err = until, nil
	}
	return min(next, until), err
}

// Range is what is copied of a partition; both ends are fixed when a replay begins.
type Range struct {
	From  record.Offset `json:"from"`
	Until record.Offset `json:"until"`
}

// Span is a range as the user asks for it. What is nil or zero is open: from the start, or to the present end.
type Span struct {
	FromOffset, UntilOffset *record.Offset
	FromTime, UntilTime     time.Time
	// Partitions; nil: all.
	Partitions []int32
}

// Resolve turns a span into offsets, as a consumer that seeks by time would: from the first record at or after
// FromTime up to the first at or after UntilTime. ErrGone if an offset is asked for that is not there.
func Resolve(ctx context.Context, src Source, s Span) (map[int32]Range, error) {
	t := src.Topic()
	parts := s.Partitions
	if parts == nil {
		for p := range t.Partitions {
			parts = append(parts, p)
		}
	}
	out := make(map[int32]Range, len(parts))
	for _, p := range slices.Sorted(slices.Values(parts)) {
		if p < 0 || p >= t.Partitions {
			return nil, fmt.Errorf("%w: %s has no partition %d; it has 0 to %d", ErrGone, t.Name, p, t.Partitions-1)
		}
		r, err := resolve(ctx, src, p, s)
		if err != nil {
			return nil, err
		}
		out[p] = r
	}
	return out, nil
}

func resolve(ctx context.Context, src Source, p int32, s Span) (Range, error) {
	start, end, err := src.Bounds(ctx, p)
	if err != nil {
		return Range{}, err
	}
	at := func(t time.Time, otherwise record.Offset) (record.Offset, error) {
		if t.IsZero() {
			return otherwise, nil
		}
		o, ok, err := src.AtTime(ctx, p, t.UnixMilli())
		if !ok || err != nil {
			return end, err
		}
		return min(o, end), nil
	}
	r := Range{}
	if r.From, err = at(s.FromTime, start); err != nil {
		return r, err
	}
	if r.Until, err = at(s.UntilTime, end); err != nil {
		return r, err
	}
	for _, o := range []*record.Offset{s.FromOffset, s.UntilOffset} {
		if o != nil && (*o < start || *o > end) {
			return r, fmt.Errorf("%w: offset %d of partition %d; it has [%d, %d)", ErrGone, *o, p, start, end)
		}
	}
	if s.FromOffset != nil {
		r.From = *s.FromOffset
	}
	if s.UntilOffset != nil {
		r.Until = *s.UntilOffset
	}
	r.Until = max(r.From, r.Until)
	return r, nil
}
