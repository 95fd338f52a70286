package compaction

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"tidemark/record"
)

const (
	// newShare is the part of all digests that new rows have from which on a pass reads all digests: there is little
	// to save.
	newShare = 4
	// probeBytes is about what it costs to look one key up in an object's digests, mostProbed how many are looked up.
	probeBytes = 8 << 10
	mostProbed = 1024
)

// choose sets rows aside that this pass need not read: clean ones that lose too little to be rewritten, and that hold no
// record that a new tombstone hides. Digests are uniform, so the same small range of them in all rows tells what each
// row has lost, and to which rows; what a new row's tombstones hide is looked up. A row that is set aside stays as it
// is. What is read here in parts is under no checksum and decides nothing else.
//
// Nothing is set aside where much is new, where every loss counts, and where tombstones or markers are due: those go
// only once all rows have been read.
func (p *pass) choose(ctx context.Context) error {
	share, ok, err := p.sampleShare(ctx)
	if err != nil || !ok {
		return err
	}
	tombstones, ok, err := p.newTombstones(ctx)
	if err != nil || !ok {
		return err
	}
	takesPart := make([]bool, len(p.rows))
	if err := p.sample(ctx, share, takesPart); err != nil {
		return err
	}
	for i := range p.rows {
		if takesPart[i] {
			continue
		}
		if takesPart[i], err = p.holdsAny(ctx, i, tombstones); err != nil {
			return err
		}
	}
	for i := range p.rows {
		p.rows[i].aside = !takesPart[i]
	}
	return nil
}

// sampleShare is the share of the digests that the sample takes; false if all of them are to be read.
func (p *pass) sampleShare(ctx context.Context) (share float64, ok bool, err error) {
	var all, fresh int64
	for i, r := range p.rows {
		o, err := p.object(ctx, i)
		if err != nil {
			return 0, false, err
		}
		n, _ := o.Digests()
		if all += n; r.dirty() {
			fresh += n
		}
		if r.due {
			return 0, false, nil
		}
	}
	sampled := int64(p.samples) * int64(len(p.rows))
	if p.policy.MinDirtyRatio == 0 || all < newShare*max(fresh, sampled) {
		return 0, false, nil
	}
	return float64(sampled) / float64(all), true, nil
}

// newTombstones are the sorted keys of the tombstones in new rows, false if they are too many to be looked up.
func (p *pass) newTombstones(ctx context.Context) (keys [][16]byte, ok bool, err error) {
	for i, r := range p.rows {
		if !r.dirty() {
			continue
		}
		s := stream{r: p.countDigests(p.opened[i], leastBuffer*8)}
		for {
			more, err := s.next(ctx)
			if err != nil {
				return nil, false, err
			}
			if !more {
				break
			}
			if s.tomb {
				if keys = append(keys, s.key); len(keys) > mostProbed {
					return nil, false, nil
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(keys), true, nil
}

// sample finds the rows that take part: new ones, those that have lost enough, and those that have what they lost it to.
func (p *pass) sample(ctx context.Context, share float64, takesPart []bool) error {
	seen, lost := make([]int64, len(p.rows)), make([]int64, len(p.rows))
	err := p.mergeBelow(ctx, share, func(entries []entry) {
		for n, e := range entries {
			if seen[e.row]++; n > 0 {
				lost[e.row]++
			}
		}
	})
	if err != nil {
		return err
	}
	victims := make([]bool, len(p.rows))
	for i, r := range p.rows {
		n, _ := p.opened[i].Digests()
		guess := float64(n) * float64(lost[i]) / float64(max(seen[i], 1))
		victims[i] = !r.dirty() && p.policy.loses(int64(math.Ceil(guess)), r.Records)
		takesPart[i] = r.dirty() || victims[i]
	}
	if !slices.Contains(victims, true) {
		return nil
	}
	return p.mergeBelow(ctx, share, func(entries []entry) {
		for _, e := range entries[1:] {
			if victims[e.row] {
				takesPart[entries[0].row] = true
			}
		}
	})
}

// mergeBelow merges the lowest share of all rows' digests.
func (p *pass) mergeBelow(ctx context.Context, share float64, visit func([]entry)) error {
	most, _ := streamsFor(p.memory, len(p.rows))
	bound := uint64(min(share, 1) * math.MaxUint64)
	// Where streams do not fit, groups of neighbours are looked at by themselves: less is found.
	for begin := 0; begin < len(p.rows); begin += most {
		var all []*stream
		for i := begin; i < min(begin+most, len(p.rows)); i++ {
			if n, _ := p.opened[i].Digests(); n > 0 {
				buffer := min(max(int(share*float64(n)*digestBytes*1.1), digestBytes), leastBuffer*8)
				all = append(all, &stream{row: i, r: below{p.countDigests(p.opened[i], buffer), bound}})
			}
		}
		if err := mergeDigests(ctx, all, visit); err != nil {
			return err
		}
	}
	return nil
}

// below ends a reader of digests at a bound.
type below struct {
	DigestReader
	bound uint64
}

// Next implements DigestReader.
func (b below) Next(ctx context.Context) (key [16]byte, last record.Offset, tombstone bool, err error) {
	key, last, tombstone, err = b.DigestReader.Next(ctx)
	if err == nil && binary.BigEndian.Uint64(key[:]) >= b.bound {
		err = errBound
	}
	return key, last, tombstone, err
}

// holdsAny reports whether a row's digests name one of the keys, or so many keys are asked for that the row had better
// be read.
func (p *pass) holdsAny(ctx context.Context, i int, keys [][16]byte) (bool, error) {
	n, _ := p.opened[i].Digests()
	if int64(len(keys))*probeBytes > n*digestBytes/2 {
		return n > 0, nil
	}
	for _, key := range keys {
		at, _, _, err := countedDigests{p.opened[i].ReadDigests(key, probeBytes), &p.done.Read}.Next(ctx)
		if err == nil && at == key {
			return true, nil
		}
		if err != nil && !ended(err) {
			return false, err
		}
	}
	return false, nil
}
