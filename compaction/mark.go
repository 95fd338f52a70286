package compaction

import (
	"context"
	"fmt"
	"slices"

	"tidemark/record"
)

const (
	// leastBuffer and mostBuffer bound what one stream of digests holds.
	leastBuffer = 8 << 10
	mostBuffer  = 1 << 20
	// streamCost is what a stream costs besides its buffer.
	streamCost = 1 << 10
	deltaBytes = 4
)

// marks is what a merge has found of one row's records, by their offset's distance from the row's base.
type marks struct {
	// gone are superseded by a newer record.
	gone []uint32
	// fade are tombstones that are due, the newest of their key; blocked are those of them of whose key
	// an older record is in the rows.
	fade, blocked []uint32
	// tombstones counts the keys whose last record in the row is one.
	tombstones int64
	// forced: a record here is hidden by a tombstone, which has to wait until it has gone.
	forced bool
	// settled: gone is what removed returns.
	settled bool
}

// removed are the deltas of fade and gone that go in this pass, sorted. It takes fade and blocked into gone: no merge may
// follow.
func (m *marks) removed() []uint32 {
	if m.settled {
		return m.gone
	}
	slices.Sort(m.blocked)
	for _, d := range m.fade {
		if _, is := slices.BinarySearch(m.blocked, d); !is {
			m.gone = append(m.gone, d)
		}
	}
	slices.Sort(m.gone)
	m.gone = slices.Compact(m.gone)
	m.fade, m.blocked, m.settled = nil, nil, true
	return m.gone
}

func (m *marks) size() int { return len(m.gone) + len(m.fade) + len(m.blocked) }

// marking finds the marks of the victims, rows [from, to). Where they do not fit into memory, to falls and
// the rows above are left for another marking.
type marking struct {
	rows     []row
	from, to int
	found    []marks // of row from+i
	budget   int     // deltas that still fit
	own      bool    // the merge is of the victims alone: each tombstone is seen for the first time
}

// streamsFor is how many streams fit into memory and how large the buffer of each of n is.
func streamsFor(memory int64, n int) (most, buffer int) {
	half := memory / 2
	most = int(max(half/(leastBuffer+streamCost), 2))
	buffer = int(min(max(half/int64(max(min(n, most), 1))-streamCost, leastBuffer), mostBuffer))
	return most, buffer
}

// mark merges the digests of all rows and finds the marks of as many rows from `from` on as fit. All rows
// are merged at once if their streams fit, else the victims with one group after the other, so that
// memory stays bounded and each digest is read once for each group of victims (P6).
func (p *pass) mark(ctx context.Context, from int) (*marking, error) {
	most, buffer := streamsFor(p.memory, len(p.rows))
	m := &marking{rows: p.rows, from: from, to: len(p.rows), budget: int(p.memory / 2 / deltaBytes)}
	m.found = make([]marks, m.to-from)
	if len(p.rows) <= most {
		m.own = true
		return m, p.merge(ctx, m, buffer, 0, len(p.rows))
	}
	group := max(most/2, 1)
	m.to = min(from+group, len(p.rows))
	m.own = true
	if err := p.merge(ctx, m, buffer, from, m.to); err != nil {
		return nil, err
	}
	m.own = false
	victims := m.to
	for begin := 0; begin < len(p.rows); {
		end := min(begin+group, len(p.rows))
		if begin < victims && end > from { // the victims themselves are in every merge
			if begin >= from {
				begin = victims
				continue
			}
			end = from
		}
		if begin >= victims || m.anyFade() { // older rows matter to due tombstones alone
			if err := p.merge(ctx, m, buffer, begin, end); err != nil {
				return nil, err
			}
		}
		begin = end
	}
	return m, nil
}

// merge merges the victims with the rows [begin, end).
func (p *pass) merge(ctx context.Context, m *marking, buffer, begin, end int) error {
	var all []*stream
	for i := range p.rows {
		if (i < begin || i >= end) && (i < m.from || i >= m.to) {
			continue
		}
		if p.rows[i].aside {
			continue
		}
		o, err := p.object(ctx, i)
		if err != nil {
			return err
		}
		n, ok := o.Digests()
		if !ok {
			return fmt.Errorf("%w: %s has lost its digests", ErrInput, p.rows[i].Key)
		}
		if n > 0 {
			all = append(all, &stream{row: i, r: p.countDigests(o, buffer)})
		}
	}
	return mergeDigests(ctx, all, m.visit)
}

// visit marks what the entries of one key, the newest first, mean for the victims.
func (m *marking) visit(entries []entry) {
	for i, e := range entries {
		if e.row < m.from || e.row >= m.to {
			continue
		}
		f, delta := &m.found[e.row-m.from], uint32(e.last-m.rows[e.row].Base)
		if m.own && e.tomb {
			f.tombstones++
		}
		switch {
		case i > 0:
			f.gone = append(f.gone, delta)
			f.forced = f.forced || entries[0].tomb
		case e.tomb && m.rows[e.row].due:
			if m.own {
				f.fade = append(f.fade, delta)
			}
			if len(entries) > 1 {
				f.blocked = append(f.blocked, delta)
			}
		default:
			continue
		}
		m.budget--
	}
	for m.budget < 0 && m.to > m.from+1 {
		m.to--
		m.budget += m.found[m.to-m.from].size()
		m.found[m.to-m.from] = marks{}
	}
}

func (m *marking) anyFade() bool {
	for i := range m.found {
		if len(m.found[i].fade) > 0 {
			return true
		}
	}
	return false
}

// keep are the records of row i that stay, in order: those that its digests name, without the removed ones. The lowest bit
// tells a tombstone, the others the delta.
func (p *pass) keep(ctx context.Context, i int, removed []uint32) ([]uint32, error) {
	o, err := p.object(ctx, i)
	if err != nil {
		return nil, err
	}
	n, _ := o.Digests()
	named := make([]uint32, 0, n)
	s := stream{r: p.countDigests(o, int(min(n*digestBytes, mostBuffer)))}
	for {
		ok, err := s.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		d := uint32(s.last-p.rows[i].Base) << 1
		if s.tomb {
			d |= tombstoneBit
		}
		named = append(named, d)
	}
	slices.Sort(named)
	out := named[:0]
	for _, d := range named {
		for len(removed) > 0 && removed[0] < d>>1 {
			removed = removed[1:]
		}
		if len(removed) == 0 || removed[0] != d>>1 {
			out = append(out, d)
		}
	}
	return out, nil
}

const (
	tombstoneBit = 1 // deltas are below 2³¹
	digestBytes  = 20
)

// countedDigests counts what a pass reads.
type countedDigests struct {
	DigestReader
	n *int64
}

func (c countedDigests) Next(ctx context.Context) ([16]byte, record.Offset, bool, error) {
	key, last, tomb, err := c.DigestReader.Next(ctx)
	if err == nil {
		*c.n += digestBytes
	}
	return key, last, tomb, err
}

func (p *pass) countDigests(o Object, buffer int) DigestReader {
	return countedDigests{o.ReadDigests([16]byte{}, buffer), &p.done.Read}
}
