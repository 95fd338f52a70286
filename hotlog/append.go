package hotlog

import (
	"errors"
	"fmt"
	"math"

	"tidemark/hotlog/disk"
	"tidemark/record"
	"tidemark/record/producer"
)

// Append puts the request's batches at the end of the log: all of them or none
// (of several runs, if a roll parts them, a failed write fails the log). One lock,
// one write(2) unless segments part the batches; it returns when the bytes are
// written, and synced if FlushMessages asks for it. A client's batches are checked
// against their producers, stamped with offsets, epoch and, if asked, append time.
//
// Errors: ErrBadAppend, ErrNotNext (follower), ErrDiskFull, ErrFailed, ErrClosed,
// and producer's errors for a client's batch.
func (l *Log) Append(req AppendRequest) (Appended, error) {
	if err := req.check(); err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	out, flush, err := l.appendLocked(&req)
	l.mu.Unlock()
	if err != nil || !flush {
		return out, err
	}
	return out, l.sync(out.Last+1, false)
}

func (r *AppendRequest) check() error {
	size := 0
	for i := range r.Summaries {
		size += r.Summaries[i].Header.Size()
		if !r.Follower && len(r.Summaries) > 1 && r.Summaries[i].Header.HasProducer() {
			return fmt.Errorf("%w: %d batches with a producer in one call", ErrBadAppend, len(r.Summaries))
		}
	}
	if size == 0 || size != len(r.Batches) {
		return fmt.Errorf("%w: %d bytes, summaries of %d batches say %d", ErrBadAppend, len(r.Batches), len(r.Summaries), size)
	}
	return nil
}

func (l *Log) appendLocked(req *AppendRequest) (out Appended, flush bool, err error) {
	if err := l.usableLocked(); err != nil {
		return out, false, err
	}
	config := l.config.Load()
	if req.Follower {
		err = l.followLocked(req)
	} else {
		var dup bool
		if out, dup, err = l.judgeLocked(req); dup {
			// The original may still wait for its own sync.
			return out, config.FlushMessages == 1, nil
		}
	}
	if err != nil {
		return out, false, err
	}
	base := req.Summaries[0].Header.BaseOffset
	if !req.Follower {
		base = record.Offset(l.end.Load())
		stamp(req, base)
	}
	active := l.active
	if err := l.writeLocked(req, base, config); err != nil {
		return out, false, err
	}
	next := record.Offset(l.end.Load())
	out = Appended{Base: base, Last: next - 1, Next: next, AppendTime: record.NoTimestamp, Rolled: l.active != active}
	if req.LogAppendTime {
		out.AppendTime = req.AppendTime
	}
	return out, config.FlushMessages > 0 && l.unflushed >= config.FlushMessages, nil
}

// judgeLocked checks a client's batch against its producer. Several batches have
// none (check), so the call is one verdict.
func (l *Log) judgeLocked(req *AppendRequest) (Appended, bool, error) {
	h := req.Summaries[0].Header
	if !h.HasProducer() {
		return Appended{}, false, nil
	}
	if h.IsControl() {
		t, coordinator, err := record.ParseControl(req.Batches)
		if err == nil && t <= record.ControlCommit {
			err = l.state.CheckMarker(h.ProducerID, h.ProducerEpoch, coordinator)
		}
		return Appended{}, false, err
	}
	v, err := l.state.Check(h)
	if err != nil || !v.Duplicate {
		return Appended{}, false, err
	}
	out := Appended{
		Base: v.BaseOffset, Last: v.LastOffset, Next: record.Offset(l.end.Load()),
		Duplicate: true, AppendTime: record.NoTimestamp,
	}
	if req.LogAppendTime {
		out.AppendTime = v.Timestamp
	}
	return out, true, nil
}

// followLocked checks that a leader's batches continue the log. One that begins
// below an empty log's start and reaches into it (the log begins at a start that
// lies inside a batch: H15) moves the start down to the batch.
func (l *Log) followLocked(req *AppendRequest) error {
	end := record.Offset(l.end.Load())
	first := req.Summaries[0].Header
	if first.BaseOffset < end && end < first.NextOffset() && l.start.Load() == int64(end) {
		if err := l.rebaseLocked(first.BaseOffset); err != nil {
			return err
		}
		end = first.BaseOffset
	}
	for i := range req.Summaries {
		h := &req.Summaries[i].Header
		if h.BaseOffset != end {
			return fmt.Errorf("%w: %s: batch at %d, end %d", ErrNotNext, l.dir, h.BaseOffset, end)
		}
		end = h.NextOffset()
	}
	return nil
}

// stamp writes what the leader gives: it makes the summaries' headers say the same
// as the bytes.
func stamp(req *AppendRequest, next record.Offset) {
	rest := req.Batches
	for i := range req.Summaries {
		s := &req.Summaries[i]
		h := &s.Header
		batch := rest[:h.Size()]
		rest = rest[h.Size():]
		record.StampOffset(batch, next, req.Epoch)
		h.BaseOffset, h.LeaderEpoch = next, req.Epoch
		switch {
		case h.IsControl():
		case req.LogAppendTime:
			record.StampAppendTime(batch, req.AppendTime)
			s.MaxTimestamp = req.AppendTime
		case s.MaxTimestamp != h.MaxTimestamp && s.Records > 0:
			record.StampMaxTimestamp(batch, s.MaxTimestamp)
		}
		if !h.IsControl() {
			h.MaxTimestamp = max(s.MaxTimestamp, record.NoTimestamp)
		}
		next = h.NextOffset()
	}
}

// writeLocked writes the batches in runs that each lie in one segment.
func (l *Log) writeLocked(req *AppendRequest, base record.Offset, config *Config) error {
	if err := l.readyLocked(); err != nil {
		return err
	}
	batches, summaries := req.Batches, req.Summaries
	for len(summaries) > 0 {
		if err := l.makeRoomLocked(&summaries[0].Header, config); err != nil {
			return l.partedLocked(base, err)
		}
		ext := l.active.extent()
		n, size := 0, int64(0)
		for n < len(summaries) {
			h := &summaries[n].Header
			if n > 0 && (ext.size+size+int64(h.Size()) > config.SegmentBytes || !l.spans(h)) {
				break
			}
			size += int64(h.Size())
			n++
		}
		run := AppendRequest{Batches: batches[:size], Summaries: summaries[:n], AppendTime: req.AppendTime}
		if err := l.writeRunLocked(&run, ext, config); err != nil {
			return l.partedLocked(base, err)
		}
		batches, summaries = batches[size:], summaries[n:]
	}
	return nil
}

// partedLocked judges a write that did not come off: if an earlier run of the same
// call is in the log already, the call is neither done nor undone.
func (l *Log) partedLocked(base record.Offset, err error) error {
	if record.Offset(l.end.Load()) != base && !errors.Is(err, ErrFailed) {
		return l.fail("append", fmt.Errorf("only part of a call is written, [%d, %d): %w", base, l.end.Load(), err))
	}
	return err
}

func (l *Log) spans(h *record.Header) bool {
	return int64(h.LastOffset()-l.active.base) <= math.MaxInt32
}

// makeRoomLocked rolls before the write if the batch does not fit.
func (l *Log) makeRoomLocked(h *record.Header, config *Config) error {
	ext := l.active.extent()
	switch {
	case ext.size == 0:
		return nil
	case ext.size+int64(h.Size()) > config.SegmentBytes:
		return l.rollLocked(RollSize)
	case !l.spans(h):
		return l.rollLocked(RollSpan)
	case l.indexFull(config):
		return l.rollLocked(RollIndex)
	}
	return nil
}

func (l *Log) indexFull(config *Config) bool {
	l.active.extentMu.RLock()
	defer l.active.extentMu.RUnlock()
	return l.active.index.Bytes() >= config.SegmentIndexBytes
}

// writeRunLocked is the one write(2), and then, in this order: what the batches say
// of producers and epochs, the segment's new extent, the log's end.
func (l *Log) writeRunLocked(run *AppendRequest, ext extent, config *Config) error {
	s := l.active
	if _, err := s.handle.file.WriteAt(run.Batches, ext.size); err != nil {
		return l.writeFailedLocked(s, ext.size, err)
	}
	if s.firstWall.Load() == 0 {
		s.firstWall.Store(run.AppendTime)
		s.firstMono.Store(l.monoNow())
	}
	s.lastWall.Store(run.AppendTime)
	s.dirty = true
	l.waitingSince.CompareAndSwap(0, l.monoNow())
	rest, at := run.Batches, l.clock.steady()
	for i := range run.Summaries {
		h := &run.Summaries[i].Header
		l.learnLocked(*h, rest[:h.Size()], at)
		l.unflushed += int64(h.LastOffsetDelta) + 1
		rest = rest[h.Size():]
	}
	next := l.extendLocked(run, ext, config)
	l.end.Store(int64(next))
	return nil
}

// extendLocked publishes the run to the segment's readers.
func (l *Log) extendLocked(run *AppendRequest, ext extent, config *Config) record.Offset {
	s := l.active
	s.extentMu.Lock()
	defer s.extentMu.Unlock()
	ext.lastPos, ext.lastBase = ext.size, run.Summaries[0].Header.BaseOffset
	for i := range run.Summaries {
		h := run.Summaries[i].Header
		ext.peak = ext.peak.With(h.MaxTimestamp, h.LastOffset())
		s.index.Add(h, ext.size, config.IndexIntervalBytes, ext.peak)
		ext.size += int64(h.Size())
		ext.next = h.NextOffset()
	}
	s.ext = ext
	return ext.next
}

// learnLocked follows one batch that is in the log; at is when its producer was last seen, by the steady clock.
func (l *Log) learnLocked(h record.Header, batch []byte, at int64) {
	l.assignLocked(h.LeaderEpoch, h.BaseOffset)
	var control *producer.Control
	if h.IsControl() && h.Count > 0 {
		if t, coordinator, err := record.ParseControl(batch); err == nil {
			control = &producer.Control{Type: t, CoordinatorEpoch: coordinator}
		}
	}
	ended, ok := l.state.Apply(h, control, at)
	if ok && !ended.Commit {
		l.txnMu.Lock()
		l.aborted.Add(ended.Aborted)
		l.txnMu.Unlock()
		l.newAborted = true
	}
	if h.IsTransactional() {
		l.countUndecidedLocked(ok)
	}
}

// writeFailedLocked tells a full disk, after which the log is as it was, from a
// failed one. What a partial write left is cut off: a batch's front must not stand
// where the next one is written shorter.
func (l *Log) writeFailedLocked(s *seg, size int64, cause error) error {
	if !disk.IsFull(cause) {
		return l.fail("write", cause)
	}
	if err := s.handle.file.Truncate(size); err != nil {
		return l.fail("cut a partial write", errors.Join(cause, err))
	}
	return fmt.Errorf("%w: %s: %w", ErrDiskFull, l.dir, cause)
}
