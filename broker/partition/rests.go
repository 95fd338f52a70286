package partition

import (
	"context"
	"time"
)

// restRound is how often idle files are looked for; in each round some of them are closed.
const restRound = 5 * time.Second

// runRests closes the files of logs that have been idle for SetOptions.IdleFile, until ctx ends.
func (s *Set) runRests(ctx context.Context) error {
	if s.opts.Files == nil || s.opts.IdleFile <= 0 {
		return nil
	}
	tick := time.NewTicker(min(restRound, s.opts.IdleFile))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.opts.Files.Rest(ctx, s.env.mono(), s.opts.IdleFile)
	}
}
