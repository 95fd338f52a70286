package record

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Rules are what a batch is judged by besides the format. A leader that appends
// for a client sets Client and Dense, and KeyRequired and MaxBytes as the topic
// says; one that appends a marker, Dense alone. A follower and a publisher set
// AllowEmpty alone: the topic's settings may be younger than the batch.
type Rules struct {
	// Client: the batch comes from a client, which may not write control batches,
	// append times, delete horizons, base offsets or a producer without sequence. It
	// waits where many are decompressed at once.
	Client bool
	// Dense: one record per offset, as before compaction.
	Dense bool
	// KeyRequired: the topic is compacted. Control records are exempt.
	KeyRequired bool
	// AllowEmpty: a batch whose records compaction took out is legal.
	AllowEmpty bool
	// MaxBytes bounds the batch as it is stored; 0: MaxBatchSize alone does.
	MaxBytes int
}

// Summary is what Judge learned on its way.
type Summary struct {
	Header Header
	// MinTimestamp and MaxTimestamp are the records' own, in milliseconds, or the
	// header's MaxTimestamp where it holds for all (append time) or there are no
	// records. MaxTimestamp is at least NoTimestamp. A header that disagrees is no
	// fault: Kafka's LogValidator overwrites it, and so must a leader
	// (StampMaxTimestamp) before it appends.
	MinTimestamp, MaxTimestamp int64
	Records                    int
	UncompressedBytes          int64 // of the records, without the batch header
}

// Judge checks one whole batch: length, format, size, CRC-32C, offsets, codec, and
// every record down to its headers, as Kafka's LogValidator and DefaultRecord do.
// A compressed body is decoded through a window and never held. The same function
// judges at produce, at a follower and at publish, under rules that only narrow
// towards the client (R4, H19). It does not allocate once its pools are warm.
//
// Stricter than Kafka 4.4, where no client goes: offset deltas that are not 0..n-1
// (Kafka stores them as they are), lengths below -1, timestamps that overflow, a
// transaction without producer, an append time from a client (Kafka clears it
// on a topic of create time, and refuses it on the other), and a delete horizon from
// one (Kafka believes it: the tombstones would go at once).
//
// Errors: ErrTruncated, ErrCorrupt, ErrMagic, ErrTooLarge, ErrCodec,
// ErrInvalidTimestamp, ErrInvalidRecord; for clients, ErrBusy.
func Judge(batch []byte, rules Rules) (Summary, error) {
	h, err := judgeHeader(batch, rules)
	if err != nil {
		return Summary{Header: h}, err
	}
	s := Summary{Header: h, MinTimestamp: h.MaxTimestamp, MaxTimestamp: h.MaxTimestamp}
	body := batch[HeaderSize:]
	if h.Count == 0 {
		if !rules.AllowEmpty || len(body) > 0 {
			return s, fmt.Errorf("%w: batch at %d: no records, %d bytes", ErrInvalidRecord, h.BaseOffset, len(body))
		}
		return s, nil
	}
	w := walker{h: h, rules: rules, minTime: math.MaxInt64, maxTime: NoTimestamp, last: -1}
	switch {
	case h.Codec() == CodecNone:
		w.buf = body
		err = w.walk()
	case rules.Client:
		err = w.walkGated(body)
	default:
		err = w.walkCompressed(body, MaxUncompressed)
	}
	if err != nil {
		return s, err
	}
	s.Records = int(h.Count)
	s.UncompressedBytes = w.at()
	if !h.LogAppendTime() {
		s.MinTimestamp, s.MaxTimestamp = w.minTime, w.maxTime
	}
	return s, nil
}

// judgeHeader checks everything that needs no walk. Sizes come before the CRC, as
// in Kafka, so that an oversized batch costs nothing.
func judgeHeader(batch []byte, rules Rules) (Header, error) {
	h, err := readHeader(batch)
	if err != nil {
		return h, err
	}
	switch size := h.Size(); {
	case size > len(batch):
		return h, fmt.Errorf("%w: %d of %d bytes", ErrTruncated, len(batch), size)
	case size < len(batch):
		return h, fmt.Errorf("%w: %d bytes after a batch of %d", ErrCorrupt, len(batch)-size, size)
	case rules.MaxBytes > 0 && size > rules.MaxBytes:
		return h, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, rules.MaxBytes)
	}
	if err := CheckCRC(batch); err != nil {
		return h, err
	}
	if fault := h.rangeFault(); fault != "" {
		return h, fmt.Errorf("%w: %s: base %d, last delta %d, count %d",
			ErrInvalidRecord, fault, h.BaseOffset, h.LastOffsetDelta, h.Count)
	}
	if rules.Dense && h.Count != 0 && int64(h.Count) != int64(h.LastOffsetDelta)+1 {
		return h, fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, h.Count, h.LastOffsetDelta)
	}
	if !h.Codec().Known() {
		return h, fmt.Errorf("%w: %s", ErrCodec, h.Codec())
	}
	if rules.Client {
		return h, judgeClient(h)
	}
	return h, nil
}

func judgeClient(h Header) error {
	switch {
	case h.BaseOffset != 0:
		return fmt.Errorf("%w: base offset %d from a client", ErrInvalidRecord, h.BaseOffset)
	case h.IsControl():
		return fmt.Errorf("%w: control batch from a client", ErrInvalidRecord)
	case h.HasProducer() && (h.BaseSequence < 0 || h.ProducerEpoch < 0):
		return fmt.Errorf("%w: producer %d with epoch %d, sequence %d",
			ErrInvalidRecord, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.IsTransactional() && !h.HasProducer():
		return fmt.Errorf("%w: transactional batch without producer", ErrInvalidRecord)
	case h.LogAppendTime():
		return fmt.Errorf("%w: append time from a client", ErrInvalidTimestamp)
	case h.Attributes&attrDeleteHorizon != 0:
		return fmt.Errorf("%w: delete horizon from a client", ErrInvalidRecord)
	}
	return nil
}

// walker judges the records of one batch.
type walker struct {
	cursor
	h                Header
	rules            Rules
	last             int64 // offset delta of the record before
	minTime, maxTime int64
	head             [8]byte // start's answer
}

var (
	errDelta     = errors.New("offset delta out of order or range")
	errTimestamp = errors.New("timestamp overflows")
	errKey       = errors.New("no key on a compacted topic")
	errLength    = errors.New("negative length")
	errLong      = errors.New(faultLong)
	errRest      = errors.New("bytes or records beyond the header's count")
)

var windows = sync.Pool{New: func() any { return new([windowSize]byte) }}

// walkGated walks a client's body within the gates. One that turns out to be more than a gate is for begins anew in the
// next, so that those who wait for it hold no decoder.
func (w *walker) walkGated(body []byte) error {
	fresh := *w
	quick, brief := quickLimit(len(body)), briefLimit(len(body))
	if brief < MaxUncompressed && !needsWide(body, w.h.Codec()) {
		entered := wideGate.tryEnter()
		if !entered && quick < brief {
			if err := w.walkIn(quickGate, body, quick); w.err != errBomb {
				return err
			}
			*w = fresh
		}
		if !entered {
			if err := wideGate.enter(); err != nil {
				return err
			}
		}
		if err := w.walkInside(wideGate, body, brief); w.err != errBomb {
			return err
		}
		*w = fresh
	}
	return w.walkIn(narrowGate, body, MaxUncompressed)
}

func (w *walker) walkIn(g gate, body []byte, limit int64) error {
	if err := g.enter(); err != nil {
		return err
	}
	return w.walkInside(g, body, limit)
}

// walkInside walks a body within a gate that has let it in.
func (w *walker) walkInside(g gate, body []byte, limit int64) error {
	defer g.leave()
	return w.walkCompressed(body, limit)
}

// walkCompressed walks a body that decompresses to at most limit bytes.
func (w *walker) walkCompressed(body []byte, limit int64) error {
	s, err := openStream(body, w.h.Codec())
	if err != nil {
		return fmt.Errorf("batch at %d: %w", w.h.BaseOffset, err)
	}
	window := windows.Get().(*[windowSize]byte)
	w.src, w.window, w.limit = s, window[:], limit
	err = w.walk()
	w.src, w.window, w.buf = nil, nil, nil
	windows.Put(window)
	s.release()
	return err
}

func (w *walker) walk() error {
	for i := range w.h.Count {
		w.record()
		if w.err != nil {
			return w.fault(i)
		}
	}
	if !w.end() {
		w.fail(errRest)
		return w.fault(w.h.Count)
	}
	return nil
}

func (w *walker) fault(i int32) error {
	kind := ErrInvalidRecord
	if w.err == errBomb {
		kind = ErrTooLarge
	}
	return fmt.Errorf("%w: batch at %d, record %d of %d: %w", kind, w.h.BaseOffset, i, w.h.Count, w.err)
}

// record judges the next record; see parser.record for its layout.
func (w *walker) record() {
	n := w.varint()
	if n < 1 || n > MaxUncompressed {
		w.fail(errLength)
		return
	}
	end := w.at() + n
	w.skip(1)
	ts, delta := w.varint(), w.varint()
	if w.err != nil {
		return
	}
	w.offset(delta)
	w.timestamp(ts)
	if w.h.IsControl() {
		w.control(end)
	} else {
		if w.field(end) < 0 && w.rules.KeyRequired {
			w.fail(errKey)
		}
		w.field(end)
	}
	w.headers(end)
	switch at := w.at(); {
	case at < end:
		w.fail(errLong)
	case at > end:
		w.fail(errShort)
	}
}

func (w *walker) offset(delta int64) {
	if delta <= w.last || delta > int64(w.h.LastOffsetDelta) || w.rules.Dense && delta != w.last+1 {
		w.fail(errDelta)
	}
	w.last = delta
}

func (w *walker) timestamp(delta int64) {
	ts := w.h.BaseTimestamp + delta
	if (ts < w.h.BaseTimestamp) != (delta < 0) {
		w.fail(errTimestamp)
	}
	w.minTime = min(w.minTime, ts)
	w.maxTime = max(w.maxTime, ts)
}

// field passes over a length and its bytes, which must end by end, and returns
// the length; -1 is null.
func (w *walker) field(end int64) int64 {
	n := w.varint()
	if n <= 0 {
		if n < -1 {
			w.fail(errLength)
		}
		return n
	}
	if n > end-w.at() {
		w.fail(errShort)
		return n
	}
	w.skip(n)
	return n
}

func (w *walker) headers(end int64) {
	count := w.varint()
	if count < 0 || count > end-w.at() {
		w.fail(errShort)
	}
	for ; count > 0 && w.err == nil; count-- {
		if w.field(end) < 0 {
			w.fail(errLength)
		}
		w.field(end)
	}
}

// control judges key and value of a control record.
func (w *walker) control(end int64) {
	key := w.start(end, controlKeySize)
	t, err := parseControlKey(key)
	if err != nil {
		w.fail(err)
		return
	}
	if t > ControlCommit {
		w.field(end)
		return
	}
	if !w.h.HasProducer() {
		w.fail(errors.New("transaction marker without producer"))
	}
	value := w.start(end, controlValueSize)
	var fixedKey [controlKeySize]byte
	fixedKey[3] = byte(t)
	if _, _, err := parseControlRecord(fixedKey[:], value); err != nil {
		w.fail(err)
	}
}

// start passes over a field like field does and returns its first n bytes, fewer
// if it is shorter. They hold until the next read.
func (w *walker) start(end int64, n int) []byte {
	length := w.varint()
	if length > end-w.at() {
		w.fail(errShort)
	}
	if length <= 0 || w.err != nil {
		return nil
	}
	b := w.peek(int(min(length, int64(n))))
	kept := w.head[:copy(w.head[:], b)]
	w.skip(length)
	return kept
}
