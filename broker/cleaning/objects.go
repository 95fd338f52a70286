package cleaning

import (
	"context"
	"errors"
	"fmt"

	"tidemark/broker/pace"
	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering"
	"tidemark/tiering/object"
)

// Objects is the object tier as compaction sees it.
type Objects struct {
	Tier *tiering.Tier
	// Pace is asked for the batches that are read; nil: compaction waits for nobody.
	Pace *pace.Pace
}

// Open implements compaction.Objects.
func (o Objects) Open(ctx context.Context, row catalog.Segment) (compaction.Object, error) {
	in, err := o.Tier.OpenInput(ctx, row)
	if err != nil {
		return nil, input(err)
	}
	return live{in, o.Pace}, nil
}

// Begin implements compaction.Objects.
func (o Objects) Begin(ctx context.Context, out compaction.Output) (compaction.Writer, error) {
	w, err := o.Tier.BeginRewrite(ctx, tiering.RewriteSpec{
		Job: out.Job, Rows: out.Rows, Last: out.Last.(live).Input, Aborted: out.Aborted, Compacted: out.Digests, SizeHint: out.SizeHint, Relies: out.Relies,
	})
	if err != nil {
		return nil, input(err)
	}
	return writer{w}, nil
}

// Replaced implements compaction.Objects.
func (o Objects) Replaced(row catalog.Segment) { o.Tier.Replaced(row) }

// input marks errors that say that an object is at fault.
func input(err error) error {
	if errors.Is(err, tiering.ErrStorage) || errors.Is(err, object.ErrBatch) {
		return fmt.Errorf("%w: %w", compaction.ErrInput, err)
	}
	return err
}

// live is a live object.
type live struct {
	*tiering.Input
	pace *pace.Pace
}

func (l live) ReadDigests(from [16]byte, buffer int) compaction.DigestReader {
	return &pacedDigests{l.Input.ReadDigests(from, buffer), debt{pace: l.pace}}
}

func (l live) ReadBatches(ctx context.Context, buffer int) compaction.BatchReader {
	return &pacedBatches{l.Input.ReadBatches(ctx, buffer), debt{pace: l.pace}}
}

func (l live) Producers(ctx context.Context) (*producer.State, error) {
	end, err := l.State(ctx)
	return end.Producers, input(err)
}

// paceStep is how much compaction does before it asks its pace: some milliseconds of work.
const paceStep = 512 << 10

// debt is what was done and not paid for yet.
type debt struct {
	pace *pace.Pace
	owed int
}

func (d *debt) add(n int) {
	if d.owed += n; d.owed >= paceStep {
		d.pace.Step(d.owed)
		d.owed = 0
	}
}

// pacedBatches reads batches at a pace. What reads ahead of it stops when its windows are full, so it keeps that pace too.
type pacedBatches struct {
	compaction.BatchReader
	debt debt
}

// Next implements compaction.BatchReader.
func (r *pacedBatches) Next(ctx context.Context) (batch []byte, last bool, err error) {
	batch, last, err = r.BatchReader.Next(ctx)
	r.debt.add(len(batch))
	return batch, last, input(err)
}

// pacedDigests reads digests at a pace.
type pacedDigests struct {
	compaction.DigestReader
	debt debt
}

// Next implements compaction.DigestReader.
func (r *pacedDigests) Next(ctx context.Context) (key [16]byte, last record.Offset, tombstone bool, err error) {
	r.debt.add(object.DigestSize)
	key, last, tombstone, err = r.DigestReader.Next(ctx)
	return key, last, tombstone, input(err)
}

// writer is an object in the making.
type writer struct{ *tiering.Rewrite }

func (w writer) Append(batch []byte) error       { return input(w.Rewrite.Append(batch)) }
func (w writer) AppendUnread(batch []byte) error { return input(w.Rewrite.AppendUnread(batch)) }
