package tiering

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// State is what the tier says of a partition at tiered, for a replica that begins there (R11, R18).
type State struct {
	catalog.Bounds
	// Epochs since start, of what lies below tiered.
	Epochs record.EpochHistory
	// Producers at tiered; transactions that the last object leaves open are open in it. Never nil.
	Producers *producer.State
}

// State reads the partition's bounds and the state at tiered: at most two small GETs. A tier that holds
// nothing has empty state at tiered. Errors: catalog.ErrNotFound (unknown partition), ErrStorage,
// ErrClosed.
func (t *Tier) State(ctx context.Context, p catalog.PartitionID) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.ReadTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	for {
		row, err := t.o.Catalog.Partition(ctx, p)
		if errors.Is(err, catalog.ErrNotFound) || errors.Is(err, catalog.ErrUnknownTopic) {
			return State{}, err
		}
		if err != nil {
			return State{}, t.readError(ReadRequest{Partition: p}, err)
		}
		empty := State{Bounds: row.Bounds, Producers: producer.New(row.Tiered, 0)}
		if row.Tiered == 0 {
			return empty, nil
		}
		req := ReadRequest{Partition: p, From: row.Tiered - 1}
		if !t.Ready() {
			return State{}, t.readError(req, errors.New("the bucket has not been reached yet"))
		}
		seg, err := t.o.Catalog.SegmentAt(ctx, p, row.Tiered-1)
		if errors.Is(err, catalog.ErrNotFound) {
			return empty, nil // start has jumped past all objects
		}
		if err == nil && seg.Next != row.Tiered {
			continue // published between the two statements
		}
		var st State
		if err == nil {
			st, err = t.stateOf(ctx, seg)
		}
		if err != nil {
			return State{}, t.readError(req, err)
		}
		st.Bounds = row.Bounds
		st.Epochs.TrimBelow(row.Start)
		return st, nil
	}
}

// stateOf reads the epochs and the producers at an object's end.
func (t *Tier) stateOf(ctx context.Context, seg catalog.Segment) (State, error) {
	tail, err := waiting{t}.tail(ctx, seg)
	if err != nil {
		return State{}, err
	}
	b, ok := tail.ProducerBlock()
	if !ok {
		return State{}, fmt.Errorf("%s: no producer state", seg.Key)
	}
	raw := make([]byte, b.Length)
	rctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	if err := t.store.ReadRange(rctx, seg.Key, b.Position, raw); err != nil {
		return State{}, err
	}
	s, err := tail.ParseProducers(raw)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", seg.Key, err)
	}
	return State{Epochs: tail.Epochs, Producers: s}, nil
}

// Epochs is the epoch history of [start, tiered): what OffsetForLeaderEpoch knows of the part that the
// local log may not have (E11). Errors as State.
func (t *Tier) Epochs(ctx context.Context, p catalog.PartitionID) (record.EpochHistory, catalog.Bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.ReadTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	var none record.EpochHistory
	row, err := t.o.Catalog.Partition(ctx, p)
	if errors.Is(err, catalog.ErrNotFound) || errors.Is(err, catalog.ErrUnknownTopic) {
		return none, catalog.Bounds{}, err
	}
	req := ReadRequest{Partition: p, From: row.Tiered}
	if err != nil {
		return none, catalog.Bounds{}, t.readError(req, err)
	}
	if row.Tiered == 0 {
		return none, row.Bounds, nil
	}
	seg, err := t.rows.at(ctx, t, p, row.Tiered-1)
	if errors.Is(err, catalog.ErrNotFound) {
		return none, row.Bounds, nil
	}
	if err != nil {
		return none, row.Bounds, t.readError(req, err)
	}
	tail, err := waiting{t}.tail(ctx, seg)
	if err != nil {
		return none, row.Bounds, t.readError(req, err)
	}
	e := tail.Epochs
	e.TruncateTo(row.Tiered)
	e.TrimBelow(row.Start)
	return e, row.Bounds, nil
}

// EpochEnd answers OffsetForLeaderEpoch from the tier alone: the largest epoch of [start, tiered) not
// above the asked one and where it ends, tiered at most; (NoEpoch, NoOffset) if the tier knows none.
func (t *Tier) EpochEnd(ctx context.Context, p catalog.PartitionID, epoch record.Epoch) (record.Epoch, record.Offset, error) {
	e, b, err := t.Epochs(ctx, p)
	if err != nil {
		return record.NoEpoch, record.NoOffset, err
	}
	found, end := e.EndOffset(epoch, b.Tiered)
	return found, end, nil
}
