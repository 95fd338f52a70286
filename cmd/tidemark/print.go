package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes v as JSON if the user asked for that, else what text writes.
func (c *command) print(v any, text func(t *table)) error {
	if c.json {
		enc := json.NewEncoder(c.out)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	t := &table{w: tabwriter.NewWriter(c.out, 0, 8, 2, ' ', 0)}
	text(t)
	return t.w.Flush()
}

// table lines up columns.
type table struct{ w *tabwriter.Writer }

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// line writes a line that is no row.
func (t *table) line(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

// sortedKeys lists a map's keys in order, so that output is the same each time.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
