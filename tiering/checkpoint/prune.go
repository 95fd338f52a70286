package checkpoint

import (
	"context"
	"fmt"
	"slices"
)

// Of the catalog's generation the newest keepHeads heads stay, of each of the keepGenerations before it
// the newest one; and the parts that they name.
const (
	keepHeads       = 6
	keepGenerations = 3
)

// prune removes old checkpoints. Newer generations than the catalog's are not touched.
func (w *Writer) prune(ctx context.Context) error {
	names, err := list(ctx, w.o.Store, prefix)
	if err != nil {
		return err
	}
	slices.Reverse(names)
	keep, heads := map[string]bool{}, map[int64]int{}
	var drop []name
	for _, n := range names {
		if n.generation > w.last.Generation || n.part != "" {
			continue
		}
		most := 1
		if n.generation == w.last.Generation {
			most = keepHeads
		} else if heads[n.generation] == 0 && len(heads) > keepGenerations {
			most = 0
		}
		heads[n.generation]++
		if heads[n.generation] > most {
			drop = append(drop, n)
			continue
		}
		if err := w.keepNamed(ctx, n, keep); err != nil {
			return err
		}
	}
	for _, n := range names {
		// A part without a head that is newer than the newest head is about to be named.
		if n.part != "" && n.generation <= w.last.Generation && !keep[n.key] && n.number < w.last.Number {
			drop = append(drop, n)
		}
	}
	for _, n := range drop {
		if err := w.o.Store.Delete(ctx, n.key); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
		delete(w.parts, n.key)
	}
	return nil
}

// keepNamed notes the parts of a head that stays.
func (w *Writer) keepNamed(ctx context.Context, n name, keep map[string]bool) error {
	if n.number == w.last.Number && n.generation == w.last.Generation {
		w.parts[n.key] = w.last.Parts
	}
	parts, known := w.parts[n.key]
	if !known {
		raw, err := read(ctx, w.o.Store, n.key)
		if err != nil {
			return err
		}
		if c, err := Decode(raw); err == nil { // a damaged one names nothing that could be read
			parts = c.Parts
		}
		w.parts[n.key] = parts
	}
	for _, p := range parts {
		keep[p.Key] = true
	}
	return nil
}
