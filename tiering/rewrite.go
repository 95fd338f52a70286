package tiering

import (
	"bytes"
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// maxNoted is of how many rows a broker's record keeps that a rewrite replaced them. One of more is not swapped in again
// by a catalog that has lost it: about 40 bytes each have to fit into one entry.
const maxNoted = 20_000

// Rewrite is an object that is to replace others. It is built in memory, at most as large as they are.
type Rewrite struct {
	t    *Tier
	job  catalog.Job
	over []string // the attempts that it replaces; nil: too many to note
	upto record.Offset
	id   string
	b    *object.Builder
	data []byte
}

// RewriteSpec says what an object replaces.
type RewriteSpec struct {
	Job catalog.Job
	// Rows are the replaced ones, adjacent, in offset order; Last is the last of them.
	Rows []catalog.Segment
	Last *Input
	// Aborted lists the aborted transactions of all of them.
	Aborted producer.AbortedList
	// Compacted asks for a digest block. SizeHint is about how large the data will be.
	Compacted bool
	SizeHint  int64
	// Relies is catalog.Publication's.
	Relies record.Offset
}

// BeginRewrite begins an object in place of live ones: it has their union as its range, and the state at
// the end of the last of them (R2). Errors as OpenInput.
func (t *Tier) BeginRewrite(ctx context.Context, s RewriteSpec) (*Rewrite, error) {
	end, err := s.Last.State(ctx)
	if err != nil {
		return nil, err
	}
	first, last := s.Rows[0], s.Rows[len(s.Rows)-1]
	w := &Rewrite{t: t, job: s.Job, id: object.NewAttempt(), data: make([]byte, 0, s.SizeHint), upto: s.Relies}
	spec := object.Spec{
		Cluster: object.ID(t.o.Cluster), Topic: object.ID(first.Partition.Topic), TopicName: s.Last.tail.TopicName,
		Partition: first.Partition.Partition, LeaderEpoch: last.LeaderEpoch, Attempt: w.id, Base: first.Base, Next: last.Next,
		AppendTime: last.AppendTime, Compacted: s.Compacted, Aborted: s.Aborted, Rewrite: &end,
	}
	for _, r := range s.Rows {
		spec.Generation = max(spec.Generation, r.Generation+1)
		spec.AppendTime = max(spec.AppendTime, r.AppendTime)
		if len(s.Rows) <= maxNoted {
			w.over = append(w.over, r.Attempt)
		}
	}
	if w.b, err = object.NewBuilder(spec); err != nil {
		return nil, err
	}
	return w, nil
}

// Append copies the next batch, which is judged as at produce (R4). Error: object.ErrBatch.
func (w *Rewrite) Append(batch []byte) error {
	if err := w.b.Append(batch); err != nil {
		return err
	}
	w.data = append(w.data, batch...)
	return nil
}

// AppendUnread copies a batch that nobody can decode (H19).
func (w *Rewrite) AppendUnread(batch []byte) error {
	if err := w.b.AppendUnread(batch); err != nil {
		return err
	}
	w.data = append(w.data, batch...)
	return nil
}

// Commit announces the object under the job, puts it and reads its tail back; then the row it returns is
// ready to be swapped in. aborted lists the transactions that still have a record or their marker in the
// object (C2). After an error the intent is left to the end of the job, which makes it garbage (R9).
func (w *Rewrite) Commit(ctx context.Context, aborted producer.AbortedList, cleanSince int64) (catalog.Segment, error) {
	w.b.Restrict(aborted)
	w.b.CleanSince(cleanSince)
	built, err := w.b.Finish(bytes.NewReader(w.data))
	if err != nil {
		return catalog.Segment{}, err
	}
	row, t := rowOf(&built.Footer, built.SHA256), w.t
	call, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	err = t.o.Catalog.PutJobIntent(call, w.job, catalog.Intent{
		Attempt: w.id, Partition: row.Partition, Base: row.Base, Next: row.Next, Key: row.Key,
	})
	cancel()
	if err != nil {
		return row, err
	}
	guard := catalog.Guard{Broker: w.job.Broker, Incarnation: w.job.Incarnation, Epoch: record.Epoch(w.job.Epoch)}
	put, cancel := context.WithTimeout(ctx, t.o.PutTimeout)
	defer cancel()
	err = t.rewriteStore.Put(put, row.Key, objstore.Source{
		ReaderAt: built, Size: built.ObjectBytes, SHA256: built.SHA256, CRC32C: built.CRC32C,
	}, objstore.PutOptions{
		Attempt: w.id,
		OnUpload: func(ctx context.Context, uploadID string) error {
			return t.o.Catalog.SetUploadID(ctx, w.id, guard, uploadID)
		},
	})
	if err != nil {
		return row, fmt.Errorf("tiering: put a rewrite of [%d,%d): %w", row.Base, row.Next, err)
	}
	if err := t.readBackFrom(ctx, t.rewriteStore, row.Key, built); err != nil {
		return row, err
	}
	return row, t.note(catalog.Publication{Segment: row, Replaced: w.over, Relies: w.upto})
}

// Replaced tells that a swap has committed: readers of this broker go to the new object at once (R8).
func (t *Tier) Replaced(by catalog.Segment) { t.rows.put(by) }
