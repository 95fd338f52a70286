package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark/broker/admin"
	"tidemark/record"
)

// tiers is what the tier commands share.
type tiers struct {
	*command
	base string
}

func (c *command) tier() *cobra.Command {
	t := &tiers{command: c}
	g := group("tier", "Look at the object tier, check it, clean it, rebuild the catalog from it", t.status(), t.ls(), t.verify(), t.gc(), c.rebuild())
	g.PersistentFlags().StringVar(&t.base, "http", "http://127.0.0.1:9644", "HTTP address of a broker")
	return g
}

// get asks the broker's API and reads the answer into v.
func (t *tiers) get(ctx context.Context, v any, query url.Values, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	return t.ask(ctx, http.MethodGet, v, query, path...)
}

// ask sends a request and reads the answer, which comes whole, into v.
func (t *tiers) ask(ctx context.Context, method string, v any, query url.Values, path ...string) error {
	resp, err := t.send(ctx, method, query, path...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("read %s: %w", resp.Request.URL, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s is not the API of a Tidemark broker: %w", resp.Request.URL, err)
	}
	return nil
}

// send sends a request; whatever is not 200 is an error with the API's sentence. The token of
// TIDEMARK_HTTP_TOKEN goes with it.
func (t *tiers) send(ctx context.Context, method string, query url.Values, path ...string) (*http.Response, error) {
	base, err := url.Parse(t.base)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, usagef("--http %q is not a URL such as http://127.0.0.1:9644", t.base)
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	at := base.JoinPath(append([]string{"api", "v1"}, path...)...)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if token := t.variable("TIDEMARK_HTTP_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no broker answers at %s: %w; start one with `tidemark dev`, or name one with --http", t.base, errors.Unwrap(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	var f admin.Failure
	if json.Unmarshal(body, &f) == nil && f.Error != "" {
		return nil, errors.New(f.Error)
	}
	return nil, fmt.Errorf("%s answers %s", at, resp.Status)
}

// variable is a variable of the environment, "" if it is not set.
func (c *command) variable(name string) string {
	for _, v := range c.environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func (t *tiers) status() *cobra.Command {
	return &cobra.Command{
		Use: "status TOPIC", Short: "Show where each partition stands in both tiers", Args: named(1, 1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var got admin.TopicTier
			if err := t.get(cmd.Context(), &got, nil, "tier", args[0]); err != nil {
				return err
			}
			return t.print(got, func(tab *table) { writeStatus(tab, got) })
		},
	}
}

func writeStatus(tab *table, got admin.TopicTier) {
	if !got.Remote {
		tab.line("%s has no object tier (remote.storage.enable=false).", got.Topic)
	}
	tab.row("PARTITION", "LEADER", "START", "LOCAL START", "TIERED", "STABLE", "HW", "END", "LOCAL BYTES", "TIER BYTES", "UPLOADS")
	for _, p := range got.Partitions {
		if !p.Here {
			tab.row(p.Partition, orNone(int64(p.Leader)), "-", "-", "-", "-", "-", "-", "-", "-", "not on this broker")
			continue
		}
		tab.row(p.Partition, orNone(int64(p.Leader)), p.Start, p.LocalStart, p.Tiered, p.Stable, p.HighWatermark, p.LogEnd,
			p.LocalBytes, p.TierBytes, uploads(p.Upload))
	}
	for _, p := range got.Partitions {
		if p.Upload != nil && p.Upload.Stalled != "" {
			tab.line("Partition %d: uploads fail (%d in a row): %s", p.Partition, p.Upload.Failures, p.Upload.Stalled)
		}
	}
	writeShared(tab, got.Partitions, func(p admin.Partition) string { return p.Retention })
	writeShared(tab, got.Partitions, func(p admin.Partition) string { return p.LocalRetention })
}

// writeShared writes each sentence once, after the partitions that it is said of.
func writeShared(tab *table, partitions []admin.Partition, says func(admin.Partition) string) {
	var sentences []string
	of := map[string][]int32{}
	for _, p := range partitions {
		text := says(p)
		if text == "" {
			continue
		}
		if of[text] == nil {
			sentences = append(sentences, text)
		}
		of[text] = append(of[text], p.Partition)
	}
	for _, text := range sentences {
		if at := of[text]; len(at) == 1 {
			tab.line("Partition %d: %s", at[0], text)
		} else {
			tab.line("Partitions %s: %s", ranges(at), text)
		}
	}
}

// ranges writes rising numbers as --partitions takes them: 0,4-7.
func ranges(numbers []int32) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, numbers[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", numbers[last])
		}
		i = last + 1
	}
	return b.String()
}

func uploads(u *admin.Upload) string {
	switch {
	case u == nil:
		return "-"
	case u.Stalled != "":
		return "stalled"
	}
	return strconv.FormatInt(u.Objects, 10)
}

func (t *tiers) ls() *cobra.Command {
	var partition int32
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use: "ls TOPIC", Short: "List the objects of a topic, in offset order", Args: named(1, 1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if after < 0 || limit < 0 || partition < -1 {
				return usagef("--after, --limit and --partition take no negative numbers")
			}
			pages, err := t.pages(cmd.Context(), args[0], partition)
			if err != nil {
				return err
			}
			return t.listObjects(cmd.Context(), pages, record.Offset(after), limit)
		},
	}
	cmd.Flags().Int32Var(&partition, "partition", -1, "one partition only; -1: all")
	cmd.Flags().Int64Var(&after, "after", 0, "begin with the object that holds this offset")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many objects of each partition; 0: all")
	return cmd
}

// pages are the first, empty pages of the partitions to list.
func (t *tiers) pages(ctx context.Context, topic string, partition int32) ([]admin.SegmentPage, error) {
	if partition >= 0 {
		return []admin.SegmentPage{{Topic: topic, Partition: partition}}, nil
	}
	var got admin.TopicTier
	if err := t.get(ctx, &got, nil, "tier", topic); err != nil {
		return nil, err
	}
	var pages []admin.SegmentPage
	for _, p := range got.Partitions {
		pages = append(pages, admin.SegmentPage{Topic: topic, Partition: p.Partition})
	}
	return pages, nil
}

// objectLine is one object as `tier ls` shows it.
type objectLine struct {
	Partition int32 `json:"partition"`
	admin.Segment
}

// listObjects prints page after page, so that a partition of a million objects needs no memory: one line
// or one JSON object (JSON lines) each.
func (t *tiers) listObjects(ctx context.Context, partitions []admin.SegmentPage, after record.Offset, limit int) error {
	if !t.json {
		fmt.Fprintf(t.out, "%-9s %14s %14s %12s %10s %-20s %-20s %s\n", "PARTITION", "BASE", "NEXT", "BYTES", "RECORDS", "FIRST TIME", "LAST TIME", "KEY")
	}
	for _, p := range partitions {
		from, left := after, limit
		for {
			query := url.Values{"partition": {strconv.Itoa(int(p.Partition))}, "after": {strconv.FormatInt(int64(from), 10)}}
			if limit > 0 {
				query.Set("limit", strconv.Itoa(min(left, 1000)))
			} else {
				query.Set("limit", "1000")
			}
			var page admin.SegmentPage
			if err := t.get(ctx, &page, query, "tier", p.Topic, "segments"); err != nil {
				return err
			}
			for _, s := range page.Segments {
				if err := t.object(objectLine{p.Partition, s}); err != nil {
					return err
				}
			}
			left -= len(page.Segments)
			if page.After == nil || (limit > 0 && left <= 0) {
				break
			}
			from = *page.After
		}
	}
	return nil
}

func (t *tiers) object(o objectLine) error {
	if t.json {
		return json.NewEncoder(t.out).Encode(o)
	}
	_, err := fmt.Fprintf(t.out, "%-9d %14d %14d %12d %10d %-20s %-20s %s\n", o.Partition, o.Base, o.Next, o.Bytes, o.Records,
		instant(o.MinTimestamp), instant(o.MaxTimestamp), o.Key)
	return err
}

// instant is a record's time for people, to the second.
func instant(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}
