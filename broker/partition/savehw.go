package partition

import (
	"context"
	"maps"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// hwRound is how often high watermarks are stored. They are a hint: a restarted broker may serve up to there before
// it has heard of its leader. What is lost costs nothing but that.
const hwRound = 5 * time.Second

// runHW stores the high watermarks of replicated partitions until ctx ends.
func (s *Set) runHW(ctx context.Context) error {
	tick := time.NewTicker(hwRound)
	defer tick.Stop()
	last := s.savedHW
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := s.replicatedHW(); !maps.Equal(now, last) && s.storeHW(now) {
			last = now
		}
	}
}

// replicatedHW is the high watermark of each partition that has other replicas; elsewhere it is the log's end.
func (s *Set) replicatedHW() map[catalog.PartitionID]record.Offset {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[catalog.PartitionID]record.Offset{}
	for id, p := range s.parts {
		if len(s.want[id].row.Replicas) > 1 {
			out[id] = record.Offset(p.hw.Load())
		}
	}
	return out
}

func (s *Set) saveHW() {
	if now := s.replicatedHW(); len(now) > 0 {
		s.storeHW(now)
	}
}

func (s *Set) storeHW(now map[catalog.PartitionID]record.Offset) bool {
	marks := make(map[[16]byte]map[int32]record.Offset)
	for id, hw := range now {
		if marks[id.Topic] == nil {
			marks[id.Topic] = map[int32]record.Offset{}
		}
		marks[id.Topic][id.Partition] = hw
	}
	if err := s.opts.Data.StoreHighWatermarks(marks); err != nil {
		s.opts.Log.Warn("store the high watermarks", "error", err)
		return false
	}
	return true
}

func (s *Set) loadHW() map[catalog.PartitionID]record.Offset {
	out := map[catalog.PartitionID]record.Offset{}
	if s.opts.Data == nil {
		return out
	}
	for topic, parts := range s.opts.Data.HighWatermarks() {
		for part, hw := range parts {
			out[catalog.PartitionID{Topic: topic, Partition: part}] = hw
		}
	}
	return out
}
