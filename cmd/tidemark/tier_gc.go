package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tidemark/broker/admin"
)

// gc makes garbage of objects that nothing names.
func (t *tiers) gc() *cobra.Command {
	var dry, agree bool
	var percent float64
	cmd := &cobra.Command{
		Use: "gc", Short: "Let objects be removed that nothing names and that are older than a week", Args: named(0, 0, ""),
		Long: "Write garbage rows of objects that no row, no attempt and no garbage row names and that are older than a week; brokers delete them after TIDEMARK_GC_GRACE.\n" +
			"Refused if more of the bucket is unknown than --unknown says, or if no live row matches: then the catalog is the wrong one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if percent < 0 || percent > 100 {
				return usagef("--unknown %g is not a percentage", percent)
			}
			if agree {
				var got admin.Agreed
				if err := t.ask(cmd.Context(), http.MethodPost, &got, nil, "gc", "agree"); err != nil {
					return err
				}
				return t.print(got, func(tab *table) {
					tab.line("Agreed: the catalog goes on as generation %d, and garbage is removed again.", got.Generation)
				})
			}
			method, path := http.MethodPost, "gc"
			if dry {
				method, path = http.MethodGet, "strays"
			}
			var got admin.Strays
			query := url.Values{"percent": {strconv.FormatFloat(percent, 'g', -1, 64)}}
			if err := t.ask(cmd.Context(), method, &got, query, path); err != nil {
				return err
			}
			if err := t.print(got, func(tab *table) { writeStrays(tab, got, dry) }); err != nil {
				return err
			}
			if got.Refusal != "" {
				return errors.New(got.Refusal)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what nothing names")
	cmd.Flags().Float64Var(&percent, "unknown", 1, "most of the bucket's objects that may be unknown, in percent")
	cmd.Flags().BoolVar(&agree, "agree-rewound", false, "after the catalog has gone back in time: go on with it, and remove garbage again")
	return cmd
}

func writeStrays(tab *table, got admin.Strays, dry bool) {
	tab.line("%d objects in the bucket: %d live, %d being uploaded, %d garbage, %d that nothing names, of which %d are older than a week (%d bytes).",
		got.Objects, got.Live, got.Intents, got.Garbage, got.Unknown, got.Old, got.OldBytes)
	if len(got.Strays) > 0 {
		tab.row("OLD", "BYTES", "WRITTEN", "KEY")
	}
	for _, s := range got.Strays {
		tab.row(s.Old, s.Bytes, s.Modified.UTC().Format(time.RFC3339), s.Key)
	}
	switch {
	case !dry:
		tab.line("%d objects are garbage now.", got.Discarded)
	case got.Refusal == "":
		tab.line("%d objects would become garbage.", got.Old)
	}
}

// plural is a count with its noun.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
