package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Pauses between the tries of [Patience.Await]: they double from the first to the longest.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// Teller is what Patience says, as a slog.Logger's.
type Teller interface {
	Info(text string, args ...any)
	Warn(text string, args ...any)
}

// Patience is how long a process that starts bears a catalog that cannot be reached or does not answer. nil bears nothing.
// It counts from its making, over all calls together; one goroutine uses it.
type Patience struct {
	limit  time.Duration
	log    Teller
	remedy func(error) string
	began  time.Time
	told   map[string]bool // by remedy
}

// NewPatience begins to wait at most limit. remedy says what can be done about an error; what it says is told once in log,
// with the first error of its kind.
func NewPatience(limit time.Duration, log Teller, remedy func(error) string) *Patience {
	return &Patience{limit: limit, log: log, remedy: remedy, began: time.Now(), told: map[string]bool{}}
}

// Await makes a call again, with growing pauses, while it fails with an error that is [Unavailable]: one that waiting may
// mend. The call must bear being repeated after an unclear outcome. Any other error is returned as it is, at once; the last
// one when the limit has passed, with the time, or when ctx has ended, joined with its error.
func (p *Patience) Await(ctx context.Context, call func(context.Context) error) error {
	for pause, tries := firstPause, 1; ; pause, tries = min(2*pause, longestPause), tries+1 {
		err := call(ctx)
		switch {
		case err == nil:
			if tries > 1 {
				p.log.Info("the catalog answers; the start goes on", "tries", tries)
			}
			return nil
		case p == nil || !Unavailable(err):
			return err
		case ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		}
		left := p.limit - time.Since(p.began)
		if left <= 0 {
			return p.spent(err)
		}
		p.tell(err, left)
		timer := time.NewTimer(min(pause-rand.N(pause/4), left)) // not all brokers at once
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		case <-timer.C:
		}
	}
}

func (p *Patience) spent(err error) error {
	if p.limit == 0 {
		return err
	}
	return fmt.Errorf("after %v of waiting: %w", time.Since(p.began).Round(time.Millisecond), err)
}

func (p *Patience) tell(err error, left time.Duration) {
	remedy := p.remedy(err)
	if p.told[remedy] {
		return
	}
	p.told[remedy] = true
	p.log.Warn("the catalog does not answer; the start waits for it", "at_most", left.Round(time.Second), "remedy", remedy, "error", err)
}
