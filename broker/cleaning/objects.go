package cleaning

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/record/producer"
	"tidemark/tiering"
	"tidemark/tiering/object"
)

// Objects is the object tier as compaction sees it.
type Objects struct{ Tier *tiering.Tier }

// Open implements compaction.Objects.
func (o Objects) Open(ctx context.Context, row catalog.Segment) (compaction.Object, error) {
	in, err := o.Tier.OpenInput(ctx, row)
	if err != nil {
		return nil, input(err)
	}
	return live{in}, nil
}

// Begin implements compaction.Objects.
func (o Objects) Begin(ctx context.Context, out compaction.Output) (compaction.Writer, error) {
	w, err := o.Tier.BeginRewrite(ctx, tiering.RewriteSpec{
		Job: out.Job, Rows: out.Rows, Last: out.Last.(live).Input, Aborted: out.Aborted, Compacted: out.Digests, SizeHint: out.SizeHint,
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
type live struct{ *tiering.Input }

func (l live) ReadDigests(buffer int) compaction.DigestReader { return l.Input.ReadDigests(buffer) }
func (l live) ReadBatches() compaction.BatchReader            { return l.Input.ReadBatches() }

func (l live) Producers(ctx context.Context) (*producer.State, error) {
	end, err := l.State(ctx)
	return end.Producers, input(err)
}

// writer is an object in the making.
type writer struct{ *tiering.Rewrite }

func (w writer) Append(batch []byte) error       { return input(w.Rewrite.Append(batch)) }
func (w writer) AppendUnread(batch []byte) error { return input(w.Rewrite.AppendUnread(batch)) }
