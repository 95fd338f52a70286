package tiering

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/cache"
	"tidemark/tiering/object"
)

// readers are the cold reads of the tier.
type readers struct {
	t     *Tier
	tails *cache.Tails[string, *object.Tail]
	// slots bounds the jobs that work; others wait in the order they came.
	slots chan struct{}
	ahead *readAhead

	mu   sync.Mutex // guards jobs and the counts in them
	jobs map[jobKey]*job
}

type jobKey struct {
	partition catalog.PartitionID
	from      record.Offset
}

// job finds the place of one offset, for all who ask for it meanwhile. It is the tier's own: a caller
// that stops waiting does not end it, and one that comes back joins it (B16).
type job struct {
	key  jobKey
	done chan struct{}
	// waiters hold a share of the result's pin. Guarded by readers.mu.
	waiters  int
	finished bool
	// Set before done is closed.
	at  place
	err error
}

func newReaders(t *Tier) *readers {
	return &readers{
		t: t,
		tails: cache.NewTails[string, *object.Tail](cache.TailOptions{
			MaxBytes: t.o.TailBytes, MaxLoads: t.o.ReadConcurrency, Timeout: min(t.o.CallTimeout, t.o.ReadTimeout),
		}),
		slots: make(chan struct{}, t.o.ReadConcurrency),
		ahead: newReadAhead(t.o.ReadAhead),
		jobs:  make(map[jobKey]*job),
	}
}

// Pending is a read that waits for the bucket or the catalog. Exactly one of Take and Cancel must be
// called on it.
type Pending struct {
	r   *readers
	req ReadRequest
	job *job
}

// Done is closed when Take has an answer.
func (p *Pending) Done() <-chan struct{} { return p.job.done }

// Take returns the answer, as Read; it may be called once Done is closed.
func (p *Pending) Take() (*Chunk, error) {
	<-p.job.done
	if p.job.err != nil {
		p.r.leave(p.job)
		return nil, p.job.err
	}
	at := p.job.at
	if at.pin != nil {
		at.pin.retain()
	}
	p.r.leave(p.job)
	return p.r.answer(at, p.req)
}

// Cancel ends the wait; what was begun goes on and stays in the cache.
func (p *Pending) Cancel() { p.r.leave(p.job) }

// TryRead returns at once: batches, if the caches have them, or a Pending that will. Exactly one of
// chunk, pending and err is not nil. Errors as Read.
func (t *Tier) TryRead(req ReadRequest) (chunk *Chunk, pending *Pending, err error) {
	if req.From >= req.Bound {
		return &Chunk{Next: req.From}, nil, nil
	}
	if t.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	if !t.Ready() {
		return nil, nil, fmt.Errorf("%w: the bucket has not been reached yet", ErrStorage)
	}
	at, err := t.read.find(t.ctx, cached{t}, req)
	if err == nil {
		if chunk, err = t.read.answer(at, req); err == nil {
			return chunk, nil, nil
		}
	}
	// Whatever the fast path could not do is tried again with waiting.
	j := t.read.join(req)
	if j == nil {
		return nil, nil, ErrClosed
	}
	return nil, &Pending{r: t.read, req: req, job: j}, nil
}

// answer cuts the chunk and notes the progress of its reader.
func (r *readers) answer(at place, req ReadRequest) (*Chunk, error) {
	c, err := r.cut(at, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	r.t.m.reads.Inc()
	r.t.m.readBytes.Add(float64(c.Size))
	if c.Size > 0 {
		r.follow(at, req, c.Next)
	}
	return c, nil
}

// join makes the caller a waiter of the job for its offset, a new one if there is none; nil if the tier
// is closed.
func (r *readers) join(req ReadRequest) *job {
	key := jobKey{req.Partition, req.From}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[key]
	if j == nil {
		j = &job{key: key, done: make(chan struct{})}
		if !r.t.begin(func() { r.run(j, req) }) {
			return nil
		}
		r.jobs[key] = j
	}
	j.waiters++
	return j
}

// leave gives a waiter's share back.
func (r *readers) leave(j *job) {
	r.mu.Lock()
	j.waiters--
	last := j.waiters == 0 && j.finished
	r.mu.Unlock()
	if last && j.at.pin != nil {
		j.at.pin.release()
	}
}

func (r *readers) run(j *job, req ReadRequest) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.o.ReadTimeout)
	defer cancel()
	at, err := r.load(ctx, req)
	if err != nil {
		r.t.m.readErrors.Inc()
	}
	r.mu.Lock()
	delete(r.jobs, j.key)
	j.at, j.err, j.finished = at, err, true
	unwanted := j.waiters == 0
	r.mu.Unlock()
	if unwanted && at.pin != nil {
		at.pin.release()
	}
	close(j.done)
}

// load finds the place, waiting for a slot, the catalog and the bucket.
func (r *readers) load(ctx context.Context, req ReadRequest) (place, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return place{}, r.t.readError(req, ctx.Err())
	}
	at, err := r.persist(ctx, req.Partition, func() (place, error) { return r.find(ctx, waiting{r.t}, req) })
	if errors.Is(err, catalog.ErrNotFound) {
		return place{}, r.t.missing(ctx, req.Partition, req.From)
	}
	if err != nil {
		return place{}, r.t.readError(req, err)
	}
	return at, nil
}

// persist calls f again when it met a broken object that another row has replaced meanwhile: a reader
// that meets a 404 reads the row again before it reports anything (R8, B3).
func (r *readers) persist(ctx context.Context, p catalog.PartitionID, f func() (place, error)) (place, error) {
	for {
		at, err := f()
		var b *brokenError
		if !errors.As(err, &b) {
			return at, err
		}
		r.t.rows.drop(p, b.seg.Base)
		r.tails.Forget(b.seg.Key)
		row, rowErr := r.t.rows.at(ctx, r.t, p, b.seg.Base)
		if rowErr == nil && row.Key == b.seg.Key {
			r.t.m.lost.Inc()
			r.t.log.Error("a live object is lost or damaged", "partition", p, "base", int64(b.seg.Base), "key", b.seg.Key, "err", b.err)
			return place{}, err
		}
		if rowErr != nil && !errors.Is(rowErr, catalog.ErrNotFound) {
			return place{}, errors.Join(err, rowErr)
		}
	}
}

// readError is what the caller of a read is told: its partition cannot be served now (R16).
func (t *Tier) readError(req ReadRequest, err error) error {
	if t.ctx.Err() != nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: offset %d of %s: %w", ErrStorage, req.From, req.Partition, err)
}
