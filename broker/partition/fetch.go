package partition

import (
	"errors"
	"fmt"
	"iter"
	"os"

	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering"
)

// FetchRequest asks for records of one partition.
type FetchRequest struct {
	From record.Offset
	// MaxBytes bounds the answer; with AtLeastOne the first batch comes whole even if it is larger.
	MaxBytes   int
	AtLeastOne bool
	// Committed hides what is not stable and lists aborted transactions (read_committed).
	Committed bool
	// LeaderEpoch is what the client believes, -1 if it does not say.
	LeaderEpoch record.Epoch
	// Owner is whom turns at downloading are given to: the connection (L9).
	Owner uint64
	// Follower lets a broker answer that follows (KIP-392).
	Follower bool

	replica bool // the asker is one: what is not on this disk is not read for it
}

// Piece is a run of whole batches: a range of a local file, or of the cold cache.
type Piece struct {
	hot  *hotlog.Section
	cold *tiering.Chunk
	size int64
}

// Len is its size in bytes.
func (x Piece) Len() int { return int(x.size) }

// IsCold reports whether the bytes come from the object tier.
func (x Piece) IsCold() bool { return x.cold != nil }

// Section is the piece as a range of a file; ok is false if it is in memory only: use ReadAt. The file
// stays the piece's.
func (x Piece) Section() (f *os.File, at int64, ok bool, err error) {
	if x.hot != nil {
		return x.hot.File, x.hot.Pos, true, nil
	}
	return x.cold.Section()
}

// ReadAt reads from the piece's bytes.
func (x Piece) ReadAt(b []byte, at int64) (int, error) {
	if x.hot != nil {
		return x.hot.ReadAt(b, at)
	}
	return x.cold.ReadAt(b, at)
}

// Release gives the bytes back.
func (x Piece) Release() {
	if x.hot != nil {
		x.hot.Release()
		return
	}
	x.cold.Release()
}

// Fetched is the answer for one partition. Release it.
type Fetched struct {
	HW, Stable, Start record.Offset
	Pieces            []Piece
	Bytes             int
	Aborted           []producer.Aborted
	// AtEnd says that there is nothing at the offset for this reader until the partition moves.
	AtEnd bool
	// More says that the reader may have more than this, but for its limits or where an object ends.
	More bool
	// Cold is set if the records are in the object tier and not in the cache yet: the download runs;
	// ask again when it is done.
	Cold *tiering.Pending
}

// Release gives all bytes back and stops waiting for a download (which goes on).
func (f *Fetched) Release() {
	for _, x := range f.Pieces {
		x.Release()
	}
	if f.Cold != nil {
		f.Cold.Cancel()
	}
	f.Pieces, f.Cold, f.Bytes = nil, nil, 0
}

// Fetch reads without waiting. HW, Stable and Start are filled in even where an error is returned, as
// far as they are known. Errors: ErrNotLeader, ErrOutOfRange, ErrFencedEpoch, ErrUnknownEpoch,
// ErrStorage.
func (p *Partition) Fetch(req FetchRequest) (Fetched, error) {
	f := Fetched{HW: -1, Stable: -1, Start: -1}
	follower, err := p.serving(req)
	if err != nil {
		return f, err
	}
	f.HW = record.Offset(p.hw.Load())
	f.Stable = p.stable(f.HW)
	f.Start = record.Offset(p.start.Load())
	b := p.log.Bounds()
	if follower && req.From > f.HW {
		return f, fmt.Errorf("%w: %d, this follower's high watermark is %d", ErrOffsetNotAvailable, req.From, f.HW)
	}
	if req.From < f.Start || req.From > max(b.End, f.HW) {
		return f, fmt.Errorf("%w: %d is outside [%d, %d]", ErrOutOfRange, req.From, f.Start, b.End)
	}
	bound := f.HW
	if req.Committed {
		bound = f.Stable
	}
	if req.From >= bound {
		f.AtEnd = true
		return f, nil
	}
	if cold := p.coldEnd(b.LocalStart); req.From < cold {
		return f, p.fetchCold(&f, req, min(bound, cold))
	}
	return f, p.fetchHot(&f, req, bound)
}

// serving reports whether a consumer may read here now, and whether as from a follower, which serves what it knows to
// be committed.
func (p *Partition) serving(req FetchRequest) (follower bool, err error) {
	lead, err := p.leading()
	if err == nil {
		return false, lead.checkEpoch(req.LeaderEpoch)
	}
	fl := p.follows.Load()
	if !req.Follower || fl == nil || !fl.ready.Load() {
		return false, err
	}
	return true, checkEpoch(req.LeaderEpoch, fl.epoch)
}

// fetchHot collects sections of local segments until the answer is full.
func (p *Partition) fetchHot(f *Fetched, req FetchRequest, bound record.Offset) error {
	from, left, one := req.From, req.MaxBytes, req.AtLeastOne
	for from < bound && (left > 0 || one) {
		s, err := p.log.Read(from, bound, left, one)
		if errors.Is(err, hotlog.ErrBelowLocal) && req.replica {
			if len(f.Pieces) > 0 {
				break
			}
			return fmt.Errorf("%w: %w", ErrMovedToTier, err)
		}
		if errors.Is(err, hotlog.ErrBelowLocal) && len(f.Pieces) == 0 {
			return p.fetchCold(f, req, bound) // freed since we looked (B6)
		}
		if err != nil {
			if len(f.Pieces) > 0 {
				break
			}
			return fmt.Errorf("%w: %w", ErrStorage, err)
		}
		if s.Len == 0 {
			moved := s.Next > from
			from = s.Next
			s.Release()
			if !moved {
				break
			}
			continue
		}
		f.Pieces = append(f.Pieces, Piece{hot: s, size: s.Len})
		f.Bytes += int(s.Len)
		left, one, from = left-int(s.Len), false, s.Next
	}
	f.More = from < bound
	if req.Committed && f.Bytes > 0 {
		f.Aborted = p.log.Aborted(req.From, from)
	}
	return nil
}

// fetchCold asks the tier for what it has now.
func (p *Partition) fetchCold(f *Fetched, req FetchRequest, bound record.Offset) error {
	chunk, pending, err := p.env.tier.TryRead(tiering.ReadRequest{
		Partition: p.ID, From: req.From, Bound: bound,
		MaxBytes: int64(req.MaxBytes), AtLeastOne: req.AtLeastOne, Committed: req.Committed, Owner: req.Owner,
	})
	switch {
	case errors.Is(err, tiering.ErrBelowStart):
		return p.belowStart(f, req.From, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStorage, err)
	case pending != nil:
		f.Cold = pending
		return nil
	}
	return p.takeCold(f, req, chunk)
}

// takeCold puts a chunk of the tier into the answer. A hole that reaches the local log is passed over,
// so that a reader is never answered empty below the high watermark (H9).
func (p *Partition) takeCold(f *Fetched, req FetchRequest, chunk *tiering.Chunk) error {
	if chunk.Size == 0 {
		next := chunk.Next
		chunk.Release()
		if next <= req.From {
			return nil
		}
		req.From = next
		bound := f.HW
		if req.Committed {
			bound = f.Stable
		}
		cold := p.coldEnd(p.log.Bounds().LocalStart)
		if next >= cold {
			return p.fetchHot(f, req, bound)
		}
		return p.fetchCold(f, req, min(bound, cold))
	}
	f.Pieces = append(f.Pieces, Piece{cold: chunk, size: chunk.Size})
	f.Bytes += int(chunk.Size)
	f.More = chunk.Next < f.HW
	if req.Committed {
		f.Aborted = chunk.Aborted
	}
	return nil
}

// Resume goes on with a fetch whose download was not done; it leaves f as it is if that still runs.
func (p *Partition) Resume(f *Fetched, req FetchRequest) error {
	select {
	case <-f.Cold.Done():
	default:
		return nil
	}
	chunk, err := f.Cold.Take()
	f.Cold = nil
	switch {
	case errors.Is(err, tiering.ErrBelowStart):
		return p.belowStart(f, req.From, err)
	case errors.Is(err, tiering.ErrAboveTier):
		return nil // the bounds have moved; the next look finds it in the log
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	if err := p.takeCold(f, req, chunk); err != nil {
		return err
	}
	f.Trim(req.MaxBytes, req.AtLeastOne)
	return nil
}

// IsCold reports whether the answer holds bytes of the object tier.
func (f *Fetched) IsCold() bool { return len(f.Pieces) > 0 && f.Pieces[0].IsCold() }

// Trim cuts cold bytes back to whole batches within limit; with one the first batch stays in any case.
// A fetch asks for several partitions' downloads before it knows how much of each fits (B18).
func (f *Fetched) Trim(limit int, one bool) {
	if !f.IsCold() || f.Bytes <= limit {
		return
	}
	f.More = true
	x := &f.Pieces[0]
	var keep int64
	for h := range x.headers() {
		end := keep + int64(h.Size())
		if end > int64(limit) && !(one && keep == 0) || end > x.size {
			break
		}
		keep = end
	}
	if keep == 0 {
		f.Release()
		return
	}
	x.size, f.Bytes = keep, int(keep)
}

// HasZstd reports whether any batch of the answer is compressed with zstd.
func (f *Fetched) HasZstd() bool {
	for _, x := range f.Pieces {
		for h := range x.headers() {
			if h.Codec() == record.CodecZstd {
				return true
			}
		}
	}
	return false
}

// headers yields the header of each batch, up to one that cannot be read.
func (x Piece) headers() iter.Seq[record.Header] {
	return func(yield func(record.Header) bool) {
		var head [record.HeaderSize]byte
		for at := int64(0); at < x.size; {
			if _, err := x.ReadAt(head[:], at); err != nil {
				return
			}
			h, err := record.ParseHeader(head[:])
			if err != nil || !yield(h) {
				return
			}
			at += int64(h.Size())
		}
	}
}

// belowStart answers a reader whom the tier has told that its offset is gone: out of range, with the start
// that took it (D4). While this leader does not know that start yet, the answer is empty: it is on its way.
func (p *Partition) belowStart(f *Fetched, from record.Offset, err error) error {
	f.Start = record.Offset(p.start.Load())
	if from >= f.Start {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOutOfRange, err)
}
