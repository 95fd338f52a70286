package handler

import (
	"context"
	"time"

	"tidemark/catalog"
)

// untilKnown repeats a change of the catalog whose outcome is not known (a lost connection, a failover)
// until it is known or ctx ends. Each change has a natural key, so a repeat is answered as the first call
// would have been (K5).
func untilKnown(ctx context.Context, change func() error) error {
	pause := 50 * time.Millisecond
	for {
		err := change()
		if !catalog.Unavailable(err) {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return err
		case <-wait.C:
		}
		pause = min(2*pause, time.Second)
	}
}
