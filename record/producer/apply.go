package producer

import "tidemark/record"

// Control is what record.ParseControl said of a control batch.
type Control struct {
	Type             record.ControlType
	CoordinatorEpoch int32
}

// Ended is a transaction that a marker has just ended.
type Ended struct {
	Aborted      // its range; of a committed one too
	Commit  bool // false: it belongs on the list of aborted ones
}

// Apply follows a batch that is in the log: after an append by the leader, and for
// every batch in offset order at a follower, on recovery and on a walk of the
// tier. It refuses nothing. control is nil for data, and for a control batch whose
// marker compaction took. at is when the batch was appended here, wall time in
// milliseconds; where that is not known (recovery), the caller's best guess, and
// the same at every replica where the result is stored for others. If the batch
// ends a transaction that was open, Apply returns it and true.
func (s *State) Apply(h record.Header, control *Control, at int64) (Ended, bool) {
	s.end = max(s.end, h.NextOffset())
	switch {
	case !h.HasProducer():
		return Ended{}, false
	case control != nil && control.Type <= record.ControlCommit:
		return s.applyMarker(h, *control, at)
	case h.IsControl():
		return Ended{}, false
	}
	e := s.touch(h.ProducerID, at)
	e.setEpoch(h.ProducerEpoch)
	if h.HasSequence() {
		e.remember(batch{
			lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp,
			lastSeq: h.LastSequence(), delta: h.LastOffsetDelta,
		})
	}
	// A batch that compaction emptied has no record that could be undecided, and
	// its marker may be gone (R15).
	if h.IsTransactional() && e.txnFirst == noTxn && h.Count > 0 {
		s.begin(e, h.BaseOffset)
	}
	return Ended{}, false
}

// setEpoch begins a new epoch: its sequence begins again.
func (e *entry) setEpoch(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.count = epoch, 0
	}
}

func (s *State) applyMarker(h record.Header, c Control, at int64) (Ended, bool) {
	e := s.touch(h.ProducerID, at)
	e.setEpoch(h.ProducerEpoch)
	e.coordinator = c.CoordinatorEpoch
	if e.txnFirst == noTxn {
		return Ended{}, false
	}
	ended := Ended{
		Aborted: Aborted{ProducerID: h.ProducerID, First: e.txnFirst, Last: h.LastOffset()},
		Commit:  c.Type == record.ControlCommit,
	}
	s.finish(e)
	s.unreplicated = append(s.unreplicated, span{ended.First, ended.Last})
	ended.LastStable = h.NextOffset()
	if first, ok := s.FirstOpen(); ok {
		ended.LastStable = first
	}
	return ended, true
}
