package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
)

// PullInterval is how often the catalog is asked for changes (R12).
const PullInterval = 250 * time.Millisecond

// hurriedInterval is the least time between pulls that Hurry causes.
const hurriedInterval = 50 * time.Millisecond

// Source is where changes come from: the catalog.
type Source interface {
	// Pull is catalog.States.Pull.
	Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error)
}

// Follower keeps the newest image. Its lock is held over the pull so that images are published in
// order; readers use Image, which takes no lock.
type Follower struct {
	source   Source
	defaults *topicconfig.Defaults
	log      *slog.Logger
	onChange func(context.Context, *Image)
	// onRewound presents what the catalog has lost, and says where its repair stands (H2).
	onRewound func(context.Context, catalog.Copy) (catalog.Rewound, error)

	image    atomic.Pointer[Image]
	lastPull atomic.Int64 // monotonic nanoseconds since start of the last successful pull
	started  time.Time

	hurry chan struct{}
	mu    sync.Mutex // one pull at a time
}

// NewFollower returns a follower with an empty image. onChange is called with each new image, one
// after the other, before Image returns it: what it opens is there when a handler sees the topic.
func NewFollower(s Source, d *topicconfig.Defaults, onChange func(context.Context, *Image), log *slog.Logger) *Follower {
	f := &Follower{source: s, defaults: d, log: log, onChange: onChange, started: time.Now(),
		hurry: make(chan struct{}, 1)}
	f.image.Store((&Image{}).apply(catalog.Changes{Full: true}, d))
	return f
}

// OnRewound says what is done while the catalog does not hold the image's position; called before the
// first pull. Without it such a catalog is an error of Refresh and Run ends with it.
func (f *Follower) OnRewound(do func(context.Context, catalog.Copy) (catalog.Rewound, error)) {
	f.onRewound = do
}

// Image returns the newest image; never nil.
func (f *Follower) Image() *Image { return f.image.Load() }

// Age is the time since the catalog last answered a pull, on the monotonic clock.
func (f *Follower) Age() time.Duration {
	return time.Since(f.started) - time.Duration(f.lastPull.Load())
}

// Refresh pulls now and returns when the image holds everything that was committed before the call.
func (f *Follower) Refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	im := f.image.Load()
	ch, err := f.source.Pull(ctx, im.Position)
	if errors.Is(err, catalog.ErrRewound) && f.onRewound != nil {
		ch, err = f.pullRewound(ctx, im, err)
	}
	if err != nil {
		return fmt.Errorf("pull cluster state after version %d: %w", im.Position.Version, err)
	}
	f.lastPull.Store(int64(time.Since(f.started)))
	if !ch.Full && ch.Position == im.Position {
		return nil
	}
	next := im.apply(ch, f.defaults)
	f.onChange(ctx, next)
	f.image.Store(next)
	return nil
}

// pullRewound presents the image to a catalog that has gone back in time, and reads everything once the
// catalog has taken in what the brokers know. Until then it fails with rewound: nothing that such a
// catalog says is acted on (H2).
func (f *Follower) pullRewound(ctx context.Context, im *Image, rewound error) (catalog.Changes, error) {
	stands, err := f.onRewound(ctx, im.Copy())
	switch {
	case err != nil:
		return catalog.Changes{}, err
	case stands == catalog.Repaired:
		return f.source.Pull(ctx, catalog.Position{})
	case stands == catalog.Fits:
		return f.source.Pull(ctx, im.Position)
	}
	return catalog.Changes{}, rewound
}

// Hurry makes Run's next pull come soon: a client has named what this broker does not know, perhaps since another one has just
// created it. It does not wait.
func (f *Follower) Hurry() {
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// Run pulls every PullInterval, and sooner where Hurry asks for it, until ctx ends. An unreachable catalog is logged once per outage, and so is
// one that has gone back in time.
func (f *Follower) Run(ctx context.Context) error {
	tick := time.NewTicker(PullInterval)
	defer tick.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-f.hurry:
			if f.Age() < hurriedInterval {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(hurriedInterval):
				}
			}
		}
		pullCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := f.Refresh(pullCtx)
		cancel()
		switch {
		case err == nil && away:
			f.log.Info("catalog is back")
			away = false
		case errors.Is(err, catalog.ErrRewound) && f.onRewound == nil:
			return err
		case err != nil && !away && ctx.Err() == nil:
			f.log.Warn("catalog does not answer; going on with what is known", "error", err)
			away = true
		}
	}
}
