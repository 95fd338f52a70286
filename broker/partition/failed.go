package partition

import (
	"fmt"

	"tidemark/catalog"
)

// logFailed is called once for each log that has failed. The next start of the directory gets a new incarnation. If
// others can lead the partition, this broker stops and hands over what it leads: there is one disk under all of
// it, and a broker that only refuses would keep the leadership as long as it keeps its lease (H28).
func (s *Set) logFailed(p *Partition, err error) {
	if e := s.opts.Data.MarkFailed(); e != nil {
		s.opts.Log.Error("the data directory does not even take the mark of its failure", "error", e)
	}
	s.mu.RLock()
	replicas := len(s.want[p.ID].row.Replicas)
	s.mu.RUnlock()
	if replicas < 2 {
		return
	}
	select {
	case s.broken <- fmt.Errorf("%s-%d: %w", p.Name, p.ID.Partition, err):
	default:
	}
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
