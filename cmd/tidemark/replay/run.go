package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/record"
)

const (
	// saveEvery is how often the checkpoint is kept.
	saveEvery = 500 * time.Millisecond
	// tellEvery is how often the progress is told.
	tellEvery = 200 * time.Millisecond
	// requestPause is between two tries of what a cluster cannot do yet.
	requestPause = 200 * time.Millisecond
	// readAhead is how many blocks of a partition wait to be written.
	readAhead = 2
	// fetchBytes is how much is read of a partition at once.
	fetchBytes = 4 << 20
	// maxRewinds is how often a partition looks at its target again without coming any further.
	maxRewinds = 10
)

// Job is one replay. Source, Target and Checkpoint are needed, and stay the caller's.
type Job struct {
	Source     Source
	Target     Target
	Checkpoint *Checkpoint
	// Span is what to copy; a checkpoint that goes on has it fixed already.
	Span Span
	// Parallel bounds the partitions that are copied at once.
	Parallel int
	// Rate bounds the bytes a second that are read; 0 does not.
	Rate int64
	// Progress is told how far it is, a few times a second, if it is set.
	Progress func(Progress)
}

// Progress is how far a replay is.
type Progress struct {
	Partitions int
	// Done of Total offsets have been looked at, by this and earlier processes.
	Done, Total int64
	// Records and Bytes (keys and values, or whole batches) were copied.
	Records, Bytes int64
	// Read is what this process has read from the source.
	Read    int64
	Elapsed time.Duration
	// Left is the time that is left at the present pace; negative while nobody knows.
	Left    time.Duration
	Resumed bool
	// Note is what the user should know at the end, or "".
	Note string
}

// Run copies until the range has been copied, ctx ends, or something fails; then the checkpoint says how far it came.
func Run(ctx context.Context, j Job) (p Progress, err error) {
	r := &running{Job: j, pace: pacer{rate: j.Rate}, began: time.Now()}
	if err := r.prepare(ctx); err != nil {
		return r.progress(), err
	}
	r.doneBefore = r.progress().Done
	if !j.Checkpoint.Done() {
		err = r.copy(ctx)
	}
	if err == nil {
		_ = j.Checkpoint.move(0, func(s *state, _ *lane) error { s.Done = true; return nil })
	}
	// What has been copied is kept, whatever ended the copying.
	return r.progress(), errors.Join(err, j.Checkpoint.save(j.Target.sync))
}

// running is a Job on its way.
type running struct {
	Job
	pace       pacer
	began      time.Time
	doneBefore int64

	mu   sync.Mutex // guards read
	read int64
}

// prepare fixes the range and lets the target get ready; nothing is copied before the checkpoint is on disk.
func (r *running) prepare(ctx context.Context) error {
	c := r.Checkpoint
	if !c.Resumed {
		ranges, err := Resolve(ctx, r.Source, r.Span)
		if err != nil {
			return err
		}
		c.begin(ranges)
	}
	if c.Done() {
		return nil
	}
	if err := r.Target.begin(ctx, c); err != nil {
		return err
	}
	return c.save(func() error { return nil })
}

func (r *running) copy(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan int32)
	lanes := map[int32]writer{}
	for p := range r.Checkpoint.Ranges() {
		lanes[p] = r.Target.lane(p)
	}
	ended := make(chan struct{})
	var saver sync.WaitGroup
	var saveErr error
	saver.Go(func() { saveErr = r.keep(ctx, ended) })
	g.Go(func() error {
		defer close(work)
		for _, p := range slices.Sorted(maps.Keys(lanes)) {
			select {
			case work <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range max(1, r.Parallel) {
		g.Go(func() error {
			for p := range work {
				if err := r.partition(ctx, p, lanes[p]); err != nil {
					return fmt.Errorf("partition %d: %w", p, err)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	close(ended)
	saver.Wait()
	return errors.Join(err, saveErr)
}

// keep saves the checkpoint and tells the progress now and then until the work has ended.
func (r *running) keep(ctx context.Context, ended <-chan struct{}) error {
	save, tell := time.NewTicker(saveEvery), time.NewTicker(tellEvery)
	defer save.Stop()
	defer tell.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-save.C:
			if err := r.Checkpoint.save(r.Target.sync); err != nil {
				return fmt.Errorf("keep the checkpoint: %w", err)
			}
		case <-tell.C:
			if r.Progress != nil {
				r.Progress(r.progress())
			}
		}
	}
}

// partition copies one partition's range, looking at the target again when it is not as it was thought to be.
func (r *running) partition(ctx context.Context, p int32, w writer) error {
	rewinds := 0
	for last := record.NoOffset; ; {
		at, err := w.resume(ctx)
		if err != nil {
			return err
		}
		err = r.blocks(ctx, p, w, at)
		if !errors.Is(err, errRewind) {
			return err
		}
		if rewinds++; at > last {
			rewinds = 0
		}
		if last = at; rewinds > maxRewinds {
			return err
		}
		if err := pause(ctx, requestPause); err != nil {
			return err
		}
	}
}

// blocks reads ahead of what is written.
func (r *running) blocks(ctx context.Context, p int32, w writer, at record.Offset) error {
	until := r.Checkpoint.Ranges()[p].Until
	g, ctx := errgroup.WithContext(ctx)
	blocks := make(chan Block, readAhead)
	g.Go(func() error {
		defer close(blocks)
		return r.readBlocks(ctx, p, Range{at, until}, blocks)
	})
	g.Go(func() error {
		for b := range blocks {
			next, err := w.write(ctx, b, at, until)
			if err != nil {
				return err
			}
			at = next
		}
		return ctx.Err()
	})
	return g.Wait()
}

func (r *running) readBlocks(ctx context.Context, p int32, left Range, blocks chan<- Block) error {
	for at := left.From; at < left.Until; {
		b, err := r.Source.Read(ctx, p, Range{at, left.Until}, r.pace.step())
		if err != nil {
			return err
		}
		next := max(at, b.Next)
		err = b.batches(func(h record.Header, _ []byte) error {
			next = max(next, h.NextOffset())
			return nil
		})
		if err != nil {
			return fmt.Errorf("offset %d of %s: %w", at, r.Source.Topic().Name, err)
		}
		b.checked = true
		if next == at {
			return fmt.Errorf("%w: nothing follows offset %d of %s", ErrGone, at, r.Source.Topic().Name)
		}
		if err := r.pace.wait(ctx, len(b.Batches)); err != nil {
			return err
		}
		r.mu.Lock()
		r.read += int64(len(b.Batches))
		r.mu.Unlock()
		select {
		case blocks <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		at = next
	}
	return nil
}

func (r *running) progress() Progress {
	p := Progress{Resumed: r.Checkpoint.Resumed, Elapsed: time.Since(r.began), Left: -1, Note: r.Target.note()}
	c := r.Checkpoint
	c.mu.Lock()
	for n, g := range c.s.Ranges {
		p.Total += int64(g.Until - g.From)
		p.Done += int64(min(c.s.Lanes[n].Next, g.Until) - g.From)
	}
	p.Partitions, p.Records, p.Bytes = len(c.s.Ranges), c.s.Records, c.s.Bytes
	c.mu.Unlock()
	r.mu.Lock()
	p.Read = r.read
	r.mu.Unlock()
	if now := p.Done - r.doneBefore; now > 0 {
		p.Left = time.Duration(float64(p.Elapsed) * float64(p.Total-p.Done) / float64(now))
	}
	return p
}
