package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

// ErrNone: the bucket holds no checkpoint that can be read.
var ErrNone = errors.New("checkpoint: the bucket has none")

// maxObject bounds what one object of a checkpoint may hold.
const maxObject = objstore.MaxSinglePut

// name is a head's or part's key, taken apart.
type name struct {
	key                string
	generation, number int64
	part               string // "" of a head
}

func headKey(generation, number int64) string {
	return fmt.Sprintf("%s%010d/%020d", prefix, generation, number)
}

func partKey(generation, number int64, part int) string {
	return fmt.Sprintf("%s-%05d", headKey(generation, number), part)
}

func parseName(key string) (name, bool) {
	gen, rest, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	number, part, _ := strings.Cut(rest, "-")
	n := name{key: key, part: part}
	var err1, err2 error
	n.generation, err1 = strconv.ParseInt(gen, 10, 64)
	n.number, err2 = strconv.ParseInt(number, 10, 64)
	return n, ok && err1 == nil && err2 == nil
}

// list names everything below a prefix of keys, by key: old first.
func list(ctx context.Context, store objstore.Store, below string) ([]name, error) {
	var out []name
	for after := ""; ; {
		const page = 1000
		infos, err := store.List(ctx, below, after, page)
		if err != nil {
			return nil, fmt.Errorf("list checkpoints: %w", err)
		}
		for _, i := range infos {
			after = i.Key
			if n, ok := parseName(i.Key); ok {
				out = append(out, n)
			}
		}
		if len(infos) < page {
			return out, nil
		}
	}
}

func read(ctx context.Context, store objstore.Store, key string) ([]byte, error) {
	info, err := store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.Size > maxObject {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrFormat, key, info.Size)
	}
	raw := make([]byte, info.Size)
	return raw, store.ReadRange(ctx, key, 0, raw)
}

// Newest reads the head of the newest checkpoint, by (generation, number), of a generation, or of all of
// them if generation is below 0. Damaged ones are passed over and named. ErrNone if there is none.
func Newest(ctx context.Context, store objstore.Store, generation int64) (_ *Checkpoint, damaged []error, err error) {
	below := prefix
	if generation >= 0 {
		below = fmt.Sprintf("%s%010d/", prefix, generation)
	}
	names, err := list(ctx, store, below)
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(names)
	for _, n := range names {
		if n.part != "" {
			continue
		}
		raw, err := read(ctx, store, n.key)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // pruned meanwhile
		}
		var c *Checkpoint
		if err == nil {
			c, err = Decode(raw)
		}
		switch {
		case errors.Is(err, ErrFormat), errors.Is(err, ErrVersion), errors.Is(err, objstore.ErrRange):
			damaged = append(damaged, fmt.Errorf("%s: %w", n.key, err))
			continue
		case err != nil:
			return nil, damaged, err
		}
		return c, damaged, nil
	}
	return nil, damaged, ErrNone
}

// Rows reads the rows of a checkpoint's parts and returns those that are live by it, in offset order per
// partition. Parts that are lost or damaged are named; what they held is missing then.
func (c *Checkpoint) Rows(ctx context.Context, store objstore.Store) (map[catalog.PartitionID][]catalog.Segment, []error, error) {
	all := map[catalog.PartitionID][]catalog.Segment{}
	var damaged []error
	for _, p := range c.Parts {
		raw, err := read(ctx, store, p.Key)
		if err == nil {
			if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], p.SHA256) {
				err = fmt.Errorf("%w: SHA-256 %x, the head says %x", ErrFormat, sum, p.SHA256)
			}
		}
		if err == nil {
			err = decodeRows(raw, c.Cluster, func(s catalog.Segment) { all[s.Partition] = append(all[s.Partition], s) })
		}
		switch {
		case errors.Is(err, ErrFormat), errors.Is(err, ErrVersion), errors.Is(err, objstore.ErrRange), errors.Is(err, objstore.ErrNotFound):
			damaged = append(damaged, fmt.Errorf("%s, with %d rows: %w", p.Key, p.Rows, err))
		case err != nil:
			return nil, damaged, err
		}
	}
	start := map[catalog.PartitionID]record.Offset{}
	for _, t := range c.Topics {
		for _, p := range t.Partitions {
			start[p.ID] = p.Start
		}
	}
	for id, rows := range all {
		begin, known := start[id]
		if !known {
			delete(all, id)
			continue
		}
		all[id] = slices.DeleteFunc(latest(rows), func(s catalog.Segment) bool { return s.Next <= begin })
	}
	return all, damaged, nil
}

// latest keeps, of rows that overlap, the one that comes last, in offset order. A swap replaces whole
// rows by their exact union, so of two that overlap the later one holds all that the earlier one held.
func latest(rows []catalog.Segment) []catalog.Segment {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[a].Base, rows[b].Base) })
	var kept []int
next:
	for _, i := range order {
		for len(kept) > 0 && rows[kept[len(kept)-1]].Next > rows[i].Base {
			if kept[len(kept)-1] > i {
				continue next
			}
			kept = kept[:len(kept)-1]
		}
		kept = append(kept, i)
	}
	out := make([]catalog.Segment, len(kept))
	for at, i := range kept {
		out[at] = rows[i]
	}
	return out
}
