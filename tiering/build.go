package tiering

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// chainKeep is how many producers' state a lane keeps in memory between uploads; a longer one is read
// back from the last object (R20).
const chainKeep = 1000

// build computes the run's object. Bytes that do not hold what the log promised are reported to the
// source and nothing is published (A8).
func (t *Tier) build(ctx context.Context, l *lane, run *Run) (*object.Built, error) {
	spec := object.Spec{
		Cluster: object.ID(t.o.Cluster), Topic: object.ID(l.p.Topic), TopicName: run.TopicName, Partition: l.p.Partition,
		LeaderEpoch: l.guard.Epoch, Attempt: l.attempt.id, Base: run.Base, Next: run.Next,
		AppendTime: run.AppendTime, Compacted: run.Compacted, Aborted: run.Aborted,
		ProducerIdle: t.o.ProducerIdle.Milliseconds(),
	}
	prev, err := t.chainAt(ctx, l, run)
	if err != nil {
		return nil, err
	}
	spec.Epochs, spec.Producers = prev.epochs, prev.producers
	built, err := object.Build(ctx, spec, run.Data, run.Size)
	if errors.Is(err, object.ErrBatch) {
		err = fmt.Errorf("%w: %s: %w", ErrDamaged, l.p, err)
		t.m.damaged.Inc()
		l.source.Damaged(run.Base, err)
	}
	return built, err
}

// chainAt is the state at run.Base: of the object that ends there, or, if the tier holds none (it is
// empty, start has jumped, or the object is lost), of the run itself.
func (t *Tier) chainAt(ctx context.Context, l *lane, run *Run) (*chain, error) {
	if c := l.chain; c != nil && c.next == run.Base {
		if c.producers.Len() > chainKeep {
			l.chain = nil
		}
		return c, nil
	}
	own := &chain{next: run.Base, epochs: run.Epochs, producers: run.Producers}
	own.epochs.TruncateTo(run.Base)
	if run.Base == 0 {
		return own, nil
	}
	seg, err := t.rows.at(ctx, t, l.p, run.Base-1)
	if errors.Is(err, catalog.ErrNotFound) || err == nil && seg.Next != run.Base {
		return own, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := t.stateOf(ctx, seg)
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, object.ErrFormat) {
		t.log.Error("the object before the upload is lost; its state is taken from the log", "partition", l.p, "key", seg.Key, "err", err)
		return own, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tiering: state before %d of %s: %w", run.Base, l.p, err)
	}
	return &chain{next: seg.Next, epochs: st.Epochs, producers: st.Producers}, nil
}

// put stores the object. Every attempt of the driver reads the local file afresh; the store checks the
// bytes against the sums that were computed before (A7, P10).
func (t *Tier) put(ctx context.Context, l *lane, b *object.Built) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.PutTimeout)
	defer cancel()
	a, g := l.attempt, l.guard
	return t.upStore.Put(ctx, a.key, objstore.Source{
		ReaderAt: b, Size: b.ObjectBytes, SHA256: b.SHA256, CRC32C: b.CRC32C,
	}, objstore.PutOptions{
		Attempt: a.id,
		OnUpload: func(ctx context.Context, uploadID string) error {
			return t.o.Catalog.SetUploadID(ctx, a.id, g, uploadID)
		},
	})
}

// errBadStore: the store said that it has the object, and returns something else or nothing.
var errBadStore = errors.New("tiering: the store accepted an object and does not return it")

// readBack compares the tail group in the store with what was built (H37).
func (t *Tier) readBack(ctx context.Context, key string, b *object.Built) error {
	return t.readBackFrom(ctx, t.upStore, key, b)
}

func (t *Tier) readBackFrom(ctx context.Context, store objstore.Store, key string, b *object.Built) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	got := make([]byte, len(b.Tail()))
	err := store.ReadRange(ctx, key, b.TailPosition, got)
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrRange):
		t.m.mismatched.Inc()
		return fmt.Errorf("%w: %w", errBadStore, err)
	case err != nil:
		return fmt.Errorf("tiering: read back what was put: %w", err)
	case !bytes.Equal(got, b.Tail()):
		t.m.mismatched.Inc()
		return fmt.Errorf("%w: %s", errBadStore, key)
	}
	return nil
}
