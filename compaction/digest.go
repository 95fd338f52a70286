package compaction

import (
	"bytes"
	"context"
	"errors"
	"io"

	"tidemark/record"
)

// stream is one object's digests in a merge, standing at one of them.
type stream struct {
	row  int // its place in offset order
	r    DigestReader
	key  [16]byte
	last record.Offset
	tomb bool
}

// next goes to the next digest; false at the end.
func (s *stream) next(ctx context.Context) (bool, error) {
	var err error
	s.key, s.last, s.tomb, err = s.r.Next(ctx)
	if ended(err) {
		return false, nil
	}
	return err == nil, err
}

// errBound: the rest of the digests is not asked for.
var errBound = errors.New("compaction: the digests that are asked for end here")

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, errBound) }

// before orders streams by key, the newest object first among equals.
func (s *stream) before(o *stream) bool {
	if c := bytes.Compare(s.key[:], o.key[:]); c != 0 {
		return c < 0
	}
	return s.row > o.row
}

// streams is a heap.
type streams []*stream

func (h streams) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// entry is one object's digest of the key that a merge stands at.
type entry struct {
	row  int
	last record.Offset
	tomb bool
}

// mergeDigests calls visit once for each key with its entries, the newest first. They hold until it
// returns. Memory is that of the streams.
func mergeDigests(ctx context.Context, all []*stream, visit func([]entry)) error {
	h := make(streams, 0, len(all))
	for _, s := range all {
		ok, err := s.next(ctx)
		if err != nil {
			return err
		}
		if ok {
			h = append(h, s)
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	var same []entry
	for len(h) > 0 {
		key := h[0].key
		same = same[:0]
		for len(h) > 0 && h[0].key == key {
			top := h[0]
			same = append(same, entry{top.row, top.last, top.tomb})
			ok, err := top.next(ctx)
			if err != nil {
				return err
			}
			if !ok {
				h[0] = h[len(h)-1]
				h = h[:len(h)-1]
			}
			h.down(0)
		}
		visit(same)
	}
	return nil
}
