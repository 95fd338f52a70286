package repeats

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Every is how long a trouble's repetitions are counted before a line tells of them, and how long it must be silent to be
// over.
const Every = time.Minute

// pause is how long it may take until a line that is due is written.
const pause = 5 * time.Second

// freshSubjects is how many different things one message may be about within Every, each with a line of its own; further
// ones are counted.
const freshSubjects = 5

// maxSubjects bounds what is remembered of one message's subjects.
const maxSubjects = 1000

// changing are attributes that say how it goes, not what it is about: lines that differ in nothing else repeat each other.
// So are all that are durations, times and fractions.
var changing = map[string]bool{
	"err": true, "error": true, "failures": true, "entries": true, "partitions": true, "remote": true,
	"free_bytes": true, "epoch": true, "heard_of": true, "stack": true, "below": true,
}

// Handler is a slog.Handler. Handlers that are derived from it by With count together. Safe for concurrent use.
type Handler struct {
	core *core
	next slog.Handler
	// prefix is the subject that With has given.
	prefix string
}

// core is what derived handlers share.
type core struct {
	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu       sync.Mutex // guards what follows; not held while lines are written
	troubles map[trouble]*course
}

// trouble is what is said: the same message at the same level.
type trouble struct {
	level   slog.Level
	message string
}

// course is how a trouble has gone so far.
type course struct {
	began    time.Time
	latest   time.Time
	looked   time.Time // when it was looked at last
	subjects map[string]bool
	fresh    int // subjects that were new since the last look
	seen     int // lines since the last look
	held     int // those of them that were not written
	repeated int // all that were not written before
	// last is the latest line, for the next that tells of many, and next its writer.
	last slog.Record
	next slog.Handler
}

// New returns a handler that writes to next and works until Close.
func New(next slog.Handler) *Handler {
	h := &Handler{next: next, core: &core{stop: make(chan struct{}), done: make(chan struct{}), troubles: map[trouble]*course{}}}
	go h.core.run()
	return h
}

// Close writes what has been counted and not told, and ends the handler's work. Lines that come later are counted and never
// told. It is idempotent.
func (h *Handler) Close() error {
	h.core.once.Do(func() { close(h.core.stop) })
	<-h.core.done
	return nil
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(as []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.prefix)
	for _, a := range as {
		about(&b, a)
	}
	return &Handler{h.core, h.next.WithAttrs(as), b.String()}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.core, h.next.WithGroup(name), h.prefix + name + "."}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || h.core.news(h, r) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// about adds an attribute to a subject.
func about(b *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case changing[a.Key], v.Kind() == slog.KindDuration, v.Kind() == slog.KindTime, v.Kind() == slog.KindFloat64:
		return
	}
	b.WriteString(a.Key)
	b.WriteByte('=')
	b.WriteString(strconv.Quote(v.String()))
}

// news counts a line and says whether it is to be written.
func (c *core) news(h *Handler, r slog.Record) bool {
	var b strings.Builder
	b.WriteString(h.prefix)
	r.Attrs(func(a slog.Attr) bool { about(&b, a); return true })
	subject, what := b.String(), trouble{r.Level, r.Message}

	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.troubles[what]
	if t == nil {
		t = &course{began: time.Now(), looked: time.Now(), subjects: map[string]bool{}}
		c.troubles[what] = t
	}
	t.seen++
	t.latest = time.Now()
	if !t.subjects[subject] && t.fresh < freshSubjects && len(t.subjects) < maxSubjects {
		t.subjects[subject] = true
		t.fresh++
		return true
	}
	t.held++
	t.last, t.next = r.Clone(), h.next
	return false
}

// run tells of what was held back, each Every of a trouble and at the end.
func (c *core) run() {
	defer close(c.done)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.tell(false)
		case <-c.stop:
			c.tell(true)
			return
		}
	}
}

// line is one that tells of others.
type line struct {
	to slog.Handler
	r  slog.Record
}

// tell writes the lines that are due.
func (c *core) tell(closing bool) {
	var lines []line
	c.mu.Lock()
	now := time.Now()
	for what, t := range c.troubles {
		if !closing && now.Sub(t.looked) < Every {
			continue
		}
		if l, ok := t.look(what, now, closing); ok {
			lines = append(lines, l)
		}
		if t.seen == 0 {
			delete(c.troubles, what)
		}
		t.repeated += t.held
		t.looked, t.seen, t.held, t.fresh = now, 0, 0, 0
	}
	c.mu.Unlock()
	var errs []error
	for _, l := range lines {
		errs = append(errs, l.to.Handle(context.Background(), l.r))
	}
	_ = errors.Join(errs...) // an output that takes no lines takes none about itself
}

// look makes the line that is due for a trouble, if one is.
func (t *course) look(what trouble, now time.Time, closing bool) (line, bool) {
	switch {
	case t.held > 0:
		r := t.last.Clone()
		r.AddAttrs(slog.Int("repeated", t.held), slog.Duration("lasts", t.latest.Sub(t.began).Round(time.Second)))
		return line{t.next, r}, true
	case t.seen == 0 && t.repeated > 0 && !closing:
		r := slog.NewRecord(now, slog.LevelInfo, "over: "+what.message, 0)
		r.AddAttrs(slog.Int("repeated", t.repeated), slog.Duration("lasted", t.latest.Sub(t.began).Round(time.Second)))
		return line{t.next, r}, true
	}
	return line{}, false
}
