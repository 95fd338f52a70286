package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"tidemark/broker/admin"
	"tidemark/tiering/audit"
)

// verify compares catalog and bucket and names what is wrong.
func (t *tiers) verify() *cobra.Command {
	var deep bool
	cmd := &cobra.Command{
		Use: "verify [TOPIC]", Short: "Compare the catalog with the bucket and name every problem", Args: named(0, 1, "the topic's name"),
		Long: "Compare the catalog with the bucket, both ways: that each object is there, has the size, the SHA-256 and the checksums that it should,\n" +
			"that the objects of a partition continue each other, and that something names each key of the bucket. Exit code 1 if anything is wrong.",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"deep": {strconv.FormatBool(deep)}}
			if len(args) > 0 {
				query.Set("topic", args[0])
			}
			return t.verifyTier(cmd.Context(), query)
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", true, "read every byte; --deep=false looks at existence, size and footer only")
	return cmd
}

func (t *tiers) verifyTier(ctx context.Context, query url.Values) error {
	resp, err := t.send(ctx, http.MethodGet, query, "verify")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	tty := isTerminal(t.err)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l admin.VerifyLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%s is not the API of a Tidemark broker: %w", resp.Request.URL, err)
		}
		switch {
		case t.json:
			fmt.Fprintf(t.out, "%s\n", lines.Bytes())
		case l.Problem != nil:
			clearLine(t.err, tty)
			fmt.Fprintln(t.out, l.Problem)
		case l.Progress != nil && tty:
			fmt.Fprintf(t.err, "\r\x1b[K%s", verifyProgress(*l.Progress))
		}
		if l.Done != nil {
			clearLine(t.err, tty)
			return t.verdict(*l.Done)
		}
	}
	return fmt.Errorf("the broker stopped before the verification was through: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

func (t *tiers) verdict(end admin.VerifyEnd) error {
	switch {
	case end.Error != "":
		return fmt.Errorf("not everything could be checked: %s", end.Error)
	case end.Problems > 0:
		return fmt.Errorf("%d problems in %d objects of %d partitions", end.Problems, end.Objects, end.Partitions)
	case !t.json:
		fmt.Fprintf(t.out, "No problems: %d objects of %d partitions, %d bytes; %d keys of the bucket.\n", end.Objects, end.Partitions, end.Bytes, end.Listed)
	}
	return nil
}

func verifyProgress(p audit.Progress) string {
	share := 100.0
	if p.OfBytes > 0 {
		share = min(100, 100*float64(p.Bytes)/float64(p.OfBytes))
	}
	return fmt.Sprintf("%5.1f %%  partition %d of %d  %d objects  %d problems", share, min(p.Partitions+1, p.OfParts), p.OfParts, p.Objects, p.Problems)
}

func clearLine(w io.Writer, tty bool) {
	if tty {
		fmt.Fprint(w, "\r\x1b[K")
	}
}
