package cleaning

import (
	"context"
	"log/slog"
	"math"
	"time"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
	"tidemark/compaction"
)

// maxObject bounds the data of an object that is made of several, as that of an upload (P12).
const maxObject = 64 << 20

// readerLag is for how long a reader may still be sent to a replaced object (tiering.Options.RowTTL), and a
// little: what a tombstone hides must be out of everybody's sight before its own wait begins.
const readerLag = 6 * time.Second

// Policy is what a topic's settings say to compaction.
func Policy(t *topicconfig.Topic) compaction.Policy {
	p := compaction.Policy{
		Compact: t.CleanupCompact, MinDirtyRatio: t.MinCleanableDirtyRatio,
		MinLagMs: int64(t.MinCompactionLagMs), MaxLagMs: int64(t.MaxCompactionLagMs),
		DeleteRetentionMs: int64(min(t.DeleteRetentionMs, math.MaxInt64-topicconfig.Millis(readerLag.Milliseconds()))) + readerLag.Milliseconds(),
		RetentionMs:       -1, ObjectBytes: min(t.SegmentBytes, maxObject),
	}
	if t.CleanupDelete {
		p.RetentionMs = int64(t.RetentionMs)
	}
	return p
}

// Partition is one that a process cares for. Mark changes whenever its rows may have.
type Partition struct {
	ID     catalog.PartitionID
	Policy compaction.Policy
	Mark   int64
}

// lookEvery is how often Follow looks.
const lookEvery = 500 * time.Millisecond

// boundsTimeout is the deadline of one look at the catalog.
const boundsTimeout = 3 * time.Second

// Follow tells a worker of the partitions that list gives, until ctx ends. It is level-triggered: each look
// compares the list with the one before.
func Follow(ctx context.Context, w *compaction.Worker, list func(context.Context) ([]Partition, error), log *slog.Logger) error {
	known := map[catalog.PartitionID]Partition{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, err := list(ctx)
		if err == nil {
			known = tell(w, known, now)
		} else if ctx.Err() == nil {
			log.Debug("the partitions to compact cannot be listed", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell passes on what has changed and returns what is known now.
func tell(w *compaction.Worker, known map[catalog.PartitionID]Partition, now []Partition) map[catalog.PartitionID]Partition {
	next := make(map[catalog.PartitionID]Partition, len(now))
	for _, p := range now {
		next[p.ID] = p
		old, ok := known[p.ID]
		if !ok || old.Policy != p.Policy {
			w.Set(p.ID, p.Policy)
		}
		if ok && old.Mark != p.Mark {
			w.Wake(p.ID)
		}
	}
	for id := range known {
		if _, ok := next[id]; !ok {
			w.Drop(id)
		}
	}
	return next
}
