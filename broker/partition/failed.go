package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/hotlog"
)

// logFailed is called once for each log that has failed: it is not touched again by this process, and the next start of
// the directory gets a new incarnation. The partition resigns; the others of this broker go on (H28).
func (s *Set) logFailed() {
	if err := s.opts.Data.MarkFailed(); err != nil {
		s.opts.Log.Error("the data directory does not even take the mark of its failure", "error", err)
	}
	s.poke()
}

// resignTime bounds one resignation.
const resignTime = 3 * time.Second

// resign takes this broker out of the leadership and the sets of the partitions whose log has failed, as long as the
// image shows it there and another member has the records.
func (s *Set) resign(ctx context.Context) {
	var ids []catalog.PartitionID
	for _, id := range s.Failed() {
		s.mu.RLock()
		row := s.want[id].row
		s.mu.RUnlock()
		if _, changes := catalog.ResignFrom(row, s.opts.Broker); changes {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resignTime)
	defer cancel()
	err := s.opts.Catalog.Resign(ctx, s.opts.Broker, s.opts.Incarnation, ids)
	if err == nil && s.opts.Refresh != nil {
		err = s.opts.Refresh(ctx)
	}
	if err != nil && !catalog.Unavailable(err) && !errors.Is(err, catalog.ErrRewound) {
		s.opts.Log.Warn("resign from partitions whose local log has failed; trying again", "partitions", len(ids), "error", err)
	}
}

// resigned ends what a partition with a failed log did here, and is the reason why it is not served.
func (p *Partition) resigned() error {
	if !p.failed.Load() {
		return nil
	}
	p.Unlead()
	p.Unfollow()
	return fmt.Errorf("%w: the partition has been given up until the next start", hotlog.ErrFailed)
}

// Failed lists the open partitions whose log has failed: they stay here, without service, until the next start.
func (s *Set) Failed() []catalog.PartitionID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []catalog.PartitionID
	for id, p := range s.parts {
		if p.failed.Load() {
			out = append(out, id)
		}
	}
	return out
}
