package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
	"tidemark/tiering/objstore"
)

// Catalog is what a writer reads; catalog.Store has it.
type Catalog interface {
	// Pull reads all topics and partitions on one snapshot, from the zero position.
	Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error)
	// SegmentsAfter and OffsetsAfter page through rows and offsets.
	SegmentsAfter(ctx context.Context, after catalog.SegmentID, limit int) ([]catalog.Segment, error)
	OffsetsAfter(ctx context.Context, after catalog.CommittedOffset, limit int) ([]catalog.CommittedOffset, error)
	// Cluster says whose catalog it is, and its generation.
	Cluster(ctx context.Context) (catalog.ClusterRow, error)
	// Time is the database's clock.
	Time(ctx context.Context) (time.Time, error)
}

// Options of a Writer. Store (with the priority of GC) and Catalog are required; zero values of the rest
// mean the default in brackets.
type Options struct {
	Store   objstore.Store
	Catalog Catalog
	// Broker ends the numbers of this writer, so that two writers do not meet.
	Broker catalog.BrokerID
	// Mine is asked before each checkpoint: the bucket is ours, the catalog has not gone back, and this
	// broker is the one that writes.
	Mine func() bool
	// Every is the pause between two checkpoints [10 min]; Least the shortest one after a Wake [1 s].
	Every, Least time.Duration
	// FullEvery is the age at which a full checkpoint is followed by another [24 h].
	FullEvery time.Duration
	// PartRows bounds the rows of one part, up to a page more [50,000: some 5 MB].
	PartRows int
	// MaxOffsets bounds the committed offsets of a checkpoint [500,000].
	MaxOffsets int
	// CallTimeout is the deadline of one call [30 s].
	CallTimeout time.Duration

	Logger  *slog.Logger          // [slog.Default()]
	Metrics prometheus.Registerer // nil: none registered
}

func (o *Options) withDefaults() {
	orDefault(&o.Every, 10*time.Minute)
	orDefault(&o.Least, time.Second)
	orDefault(&o.FullEvery, 24*time.Hour)
	orDefault(&o.PartRows, 50_000)
	orDefault(&o.MaxOffsets, 500_000)
	orDefault(&o.CallTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Mine == nil {
		o.Mine = func() bool { return true }
	}
}

func orDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// overlap is how many row ids below the watermark are read again, because ids are given before COMMIT.
const overlap = 4096

// deltaLeast is how many new rows a checkpoint may always add to the last full one.
const deltaLeast = 20_000

// Writer writes checkpoints. It belongs to one goroutine, save Wake.
type Writer struct {
	o       Options
	wake    chan struct{}
	last    *Checkpoint       // the newest of this generation, nil before the first look
	parts   map[string][]Part // of heads that are kept, by key
	written prometheus.Counter
	failed  prometheus.Counter
	bytes   prometheus.Counter
	at      prometheus.Gauge
}

// NewWriter makes a Writer.
func NewWriter(o Options) (*Writer, error) {
	o.withDefaults()
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	w := &Writer{
		o: o, wake: make(chan struct{}, 1), parts: map[string][]Part{},
		written: count("tidemark_checkpoints_total", "Checkpoints of the catalog written to the bucket by this broker."),
		failed:  count("tidemark_checkpoint_failures_total", "Checkpoints that failed and are tried again."),
		bytes:   count("tidemark_checkpoint_bytes_total", "Size of the checkpoints written by this broker."),
		at:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_checkpoint_time_seconds", Help: "Database time of the newest checkpoint that this broker knows, in seconds since 1970; 0: none."}),
	}
	if o.Metrics != nil {
		for _, c := range []prometheus.Collector{w.written, w.failed, w.bytes, w.at} {
			if err := o.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("checkpoint: register metrics: %w", err)
			}
		}
	}
	return w, nil
}

// Wake asks for a checkpoint soon: topics have changed. It never blocks.
func (w *Writer) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes checkpoints until ctx ends: at once, every Options.Every, and after a Wake.
func (w *Writer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-w.wake:
			timer.Reset(w.o.Least) // what follows shortly goes with it
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
			select {
			case <-w.wake:
			default:
			}
		}
		next := w.o.Every
		if w.o.Mine() {
			if _, err := w.Write(ctx); err != nil && ctx.Err() == nil {
				w.failed.Inc()
				w.o.Logger.Warn("the checkpoint of the catalog failed and will be tried again", "err", err)
				next = min(next, 10*time.Second)
			}
		} else {
			w.last = nil // another one writes: look again when it is this one's turn
			next = min(next, 10*time.Second)
		}
		timer.Reset(next)
	}
}

// Write writes a checkpoint if something has changed since the newest one.
func (w *Writer) Write(ctx context.Context) (wrote bool, err error) {
	cluster, err := w.o.Catalog.Cluster(ctx)
	if err != nil {
		return false, err
	}
	if err := w.recall(ctx, cluster); err != nil {
		return false, err
	}
	c, err := w.gather(ctx, cluster)
	if err != nil {
		return false, err
	}
	full := w.last.FullNumber == 0 || c.At.Sub(w.last.FullAt) >= w.o.FullEvery
	var rows []catalog.Segment
	if !full {
		limit := max(deltaLeast, w.last.FullRows/4)
		if rows, err = w.newRows(ctx, w.last.Watermark, limit); err != nil {
			return false, err
		}
		full = int64(len(rows)) > limit
	}
	if full {
		if err = w.fullParts(ctx, c); err == nil {
			if rows, err = w.newRows(ctx, c.Watermark, deltaLeast); err == nil {
				c.Content = c.digest(rows)
			}
		}
	} else {
		if c.Content = c.digest(rows); c.Content == w.last.Content {
			return false, nil
		}
		err = w.newParts(ctx, c, rows)
	}
	if err != nil {
		return false, err
	}
	if err := w.put(ctx, headKey(c.Generation, c.Number), c.Encode()); err != nil {
		return false, err
	}
	w.last = c
	w.written.Inc()
	w.at.Set(float64(c.At.Unix()))
	return true, w.prune(ctx)
}

// recall makes the newest checkpoint of the catalog's generation the last one.
func (w *Writer) recall(ctx context.Context, cluster catalog.ClusterRow) error {
	if w.last != nil && w.last.Generation == cluster.Generation {
		return nil
	}
	last, damaged, err := Newest(ctx, w.o.Store, cluster.Generation)
	if err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	for _, d := range damaged {
		w.o.Logger.Error("a checkpoint is damaged", "err", d)
	}
	if last == nil || last.Cluster != cluster.ID {
		last = &Checkpoint{Cluster: cluster.ID, Generation: cluster.Generation}
	}
	w.last = last
	if last.Number > 0 {
		w.at.Set(float64(last.At.Unix()))
	}
	return nil
}

// gather reads everything but the rows.
func (w *Writer) gather(ctx context.Context, cluster catalog.ClusterRow) (*Checkpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.CallTimeout)
	defer cancel()
	now, err := w.o.Catalog.Time(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := w.o.Catalog.Pull(ctx, catalog.Position{})
	if err != nil {
		return nil, err
	}
	number := now.UnixMilli()*1000 + int64(w.o.Broker)%1000
	c := &Checkpoint{Cluster: cluster.ID, Generation: cluster.Generation, Number: max(number, w.last.Number+1), At: now, Position: ch.Position}
	for _, b := range ch.Brokers {
		c.Brokers = append(c.Brokers, catalog.Broker{ID: b.ID, Incarnation: b.Incarnation, Rack: b.Rack})
	}
	c.setTopics(ch)
	c.setDeleted(w.last, now)
	for after := (catalog.CommittedOffset{}); ; {
		const page = 2000
		os, err := w.o.Catalog.OffsetsAfter(ctx, after, page)
		if err != nil {
			return nil, err
		}
		c.Offsets = append(c.Offsets, os...)
		if len(os) < page {
			break
		}
		after = os[len(os)-1]
		if len(c.Offsets) > w.o.MaxOffsets {
			c.Offsets, c.OffsetsCut = c.Offsets[:w.o.MaxOffsets], true
			w.o.Logger.Warn("a checkpoint does not hold all committed offsets", "limit", w.o.MaxOffsets)
			break
		}
	}
	return c, nil
}

func (c *Checkpoint) setTopics(ch catalog.Changes) {
	at := map[catalog.TopicID]int{}
	slices.SortFunc(ch.Topics, func(a, b catalog.Topic) int { return strings.Compare(a.ID.Hex(), b.ID.Hex()) })
	for i, t := range ch.Topics {
		at[t.ID] = i
		c.Topics = append(c.Topics, Topic{Topic: t})
	}
	slices.SortFunc(ch.Partitions, func(a, b catalog.Partition) int { return int(a.ID.Partition - b.ID.Partition) })
	for _, p := range ch.Partitions {
		if i, ok := at[p.ID.Topic]; ok {
			c.Topics[i].Partitions = append(c.Topics[i].Partitions, p)
		}
	}
}

// deletedFor is how long a deleted topic is remembered: far longer than its objects can be there.
const deletedFor = 90 * 24 * time.Hour

// setDeleted carries the deleted topics on and adds those that have gone since.
func (c *Checkpoint) setDeleted(last *Checkpoint, now time.Time) {
	live := map[catalog.TopicID]bool{}
	for _, t := range c.Topics {
		live[t.ID] = true
	}
	for _, d := range last.Deleted {
		if now.Sub(d.At) < deletedFor && !live[d.Topic] {
			c.Deleted = append(c.Deleted, d)
		}
	}
	for _, t := range last.Topics {
		if !live[t.ID] {
			c.Deleted = append(c.Deleted, Deleted{t.ID, now})
		}
	}
}

// rowPage is how many rows are asked for at once.
const rowPage = 2000

// eachPage reads rows by id from behind after until each says stop.
func (w *Writer) eachPage(ctx context.Context, after catalog.SegmentID, each func([]catalog.Segment) (more bool, err error)) error {
	for {
		call, cancel := context.WithTimeout(ctx, w.o.CallTimeout)
		rows, err := w.o.Catalog.SegmentsAfter(call, after, rowPage)
		cancel()
		if err != nil {
			return err
		}
		more, err := each(rows)
		if err != nil || !more || len(rows) < rowPage {
			return err
		}
		after = rows[len(rows)-1].ID
	}
}

// newRows reads what is newer than a full checkpoint's watermark, and stops above limit rows.
func (w *Writer) newRows(ctx context.Context, watermark catalog.SegmentID, limit int64) (rows []catalog.Segment, err error) {
	err = w.eachPage(ctx, max(0, watermark-overlap), func(page []catalog.Segment) (bool, error) {
		rows = append(rows, page...)
		return int64(len(rows)) <= limit, nil
	})
	return rows, err
}

// newParts continues the last full checkpoint.
func (w *Writer) newParts(ctx context.Context, c *Checkpoint, rows []catalog.Segment) error {
	c.FullNumber, c.FullAt, c.FullRows, c.Watermark = w.last.FullNumber, w.last.FullAt, w.last.FullRows, w.last.Watermark
	for _, p := range w.last.Parts {
		if n, ok := parseName(p.Key); ok && n.number == c.FullNumber {
			c.Parts = append(c.Parts, p)
		}
	}
	for part := range slices.Chunk(rows, w.o.PartRows) {
		if err := w.putPart(ctx, c, part); err != nil {
			return err
		}
	}
	return nil
}

// fullParts writes all rows.
func (w *Writer) fullParts(ctx context.Context, c *Checkpoint) error {
	c.FullNumber, c.FullAt = c.Number, c.At
	var part []catalog.Segment
	err := w.eachPage(ctx, 0, func(page []catalog.Segment) (bool, error) {
		for _, r := range page {
			c.Watermark = r.ID
		}
		part = append(part, page...)
		c.FullRows += int64(len(page))
		if len(part) < w.o.PartRows {
			return true, nil
		}
		err := w.putPart(ctx, c, part)
		part = part[:0]
		return true, err
	})
	if err == nil && len(part) > 0 {
		err = w.putPart(ctx, c, part)
	}
	return err
}

func (w *Writer) putPart(ctx context.Context, c *Checkpoint, rows []catalog.Segment) error {
	raw, own := encodeRows(rows), 0
	for _, p := range c.Parts {
		if n, ok := parseName(p.Key); ok && n.number == c.Number {
			own++
		}
	}
	sum := sha256.Sum256(raw)
	p := Part{Key: partKey(c.Generation, c.Number, own), Rows: int64(len(rows)), SHA256: sum[:]}
	if err := w.put(ctx, p.Key, raw); err != nil {
		return err
	}
	c.Parts = append(c.Parts, p)
	return nil
}

func (w *Writer) put(ctx context.Context, key string, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.CallTimeout)
	defer cancel()
	if err := w.o.Store.Put(ctx, key, objstore.Bytes(raw), objstore.PutOptions{}); err != nil {
		return fmt.Errorf("put a checkpoint: %w", err)
	}
	w.bytes.Add(float64(len(raw)))
	return nil
}
