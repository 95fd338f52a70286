package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/broker/config"
	"tidemark/cmd/tidemark/replay"
	"tidemark/record"
)

const (
	formatLines = "ndjson"
	formatDump  = "dump"
)

// replayPlan is what the flags mean.
type replayPlan struct {
	span       replay.Span
	filter     replay.Filter
	rate       int64
	checkpoint string
}

// plan checks the flags. changed says which were given.
func (f *replayFlags) plan(changed func(string) bool) (p replayPlan, err error) {
	if err := f.checkTarget(changed); err != nil {
		return p, err
	}
	if f.parallel < 1 {
		return p, usagef("--parallel %d: at least 1", f.parallel)
	}
	if f.rate != "" {
		var rate config.Bytes
		if err := rate.UnmarshalText([]byte(f.rate)); err != nil || rate == 0 {
			return p, usagef("--rate %q is not a size such as 20MiB", f.rate)
		}
		p.rate = int64(rate)
	}
	if p.span, err = f.readSpan(changed); err != nil {
		return p, err
	}
	if p.filter, err = f.readFilter(&p.span); err != nil {
		return p, err
	}
	if f.format == formatDump && !p.filter.Everything() {
		return p, usagef("--format dump copies whole batches: filters and --strict-time are for records, as ndjson and topics have them")
	}
	p.checkpoint = f.checkpointPath()
	return p, nil
}

func (f *replayFlags) checkTarget(changed func(string) bool) error {
	switch {
	case f.to == "" && f.out == "":
		return usagef("say where to copy to: --to TOPIC, or --out PATH")
	case f.to != "" && f.out != "":
		return usagef("--to and --out: a replay has one target; give one of them")
	case f.format != formatLines && f.format != formatDump:
		return usagef("--format %q: ndjson or dump", f.format)
	case f.to != "" && changed("format"):
		return usagef("--format belongs to --out")
	case f.out != "" && (f.create || f.byKey || f.toBootstrap != ""):
		return usagef("--create, --by-key and --to-bootstrap belong to --to")
	case f.out == "-" && f.format == formatDump:
		return usagef("--format dump writes a folder; name it with --out")
	case f.out == "-" && f.cps != "":
		return usagef("standard output cannot be gone on with: --checkpoint needs a file or a topic")
	case f.out != "" && f.out != "-" && f.format == formatLines && !isThere(filepath.Dir(f.out)):
		return usagef("--out %q: there is no folder %s; make the folder first", f.out, filepath.Dir(f.out))
	case f.to == f.source && (f.toBootstrap == "" || f.toBootstrap == f.bootstrap):
		return usagef("%s cannot be copied to itself", f.to)
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *replayFlags) readSpan(changed func(string) bool) (s replay.Span, err error) {
	if s.Partitions, err = parsePartitions(f.partitions); err != nil {
		return s, err
	}
	for _, o := range []struct {
		flag string
		at   int64
		into **record.Offset
	}{{"from-offset", f.fromOffset, &s.FromOffset}, {"until-offset", f.untilOffset, &s.UntilOffset}} {
		if !changed(o.flag) {
			continue
		}
		if o.at < 0 {
			return s, usagef("--%s %d: offsets are no negative numbers", o.flag, o.at)
		}
		offset := record.Offset(o.at)
		*o.into = &offset
	}
	now := time.Now()
	if s.FromTime, err = parseTime("--from-time", f.fromTime, now); err != nil {
		return s, err
	}
	if s.UntilTime, err = parseTime("--until-time", f.untilTime, now); err != nil {
		return s, err
	}
	switch {
	case s.FromOffset != nil && !s.FromTime.IsZero(), s.UntilOffset != nil && !s.UntilTime.IsZero():
		return s, usagef("give an offset or a time for an end of the range, not both")
	case !s.FromTime.IsZero() && !s.UntilTime.IsZero() && !s.FromTime.Before(s.UntilTime):
		return s, usagef("--from-time %s does not lie before --until-time %s", f.fromTime, f.untilTime)
	case s.FromOffset != nil && s.UntilOffset != nil && *s.FromOffset > *s.UntilOffset:
		return s, usagef("--from-offset %d lies behind --until-offset %d", *s.FromOffset, *s.UntilOffset)
	}
	return s, nil
}

// readFilter reads the filters; with --strict-time the span's times become one, and its end is the topic's.
func (f *replayFlags) readFilter(s *replay.Span) (out replay.Filter, err error) {
	for _, k := range f.keys {
		out.Keys = append(out.Keys, []byte(k))
	}
	if f.keyPrefix != "" {
		out.KeyPrefix = []byte(f.keyPrefix)
	}
	if f.keyRegexp != "" {
		if out.KeyRegexp, err = regexp.Compile(f.keyRegexp); err != nil {
			return out, usagef("--key-regexp: %w", err)
		}
	}
	for _, text := range f.headers {
		m := replay.HeaderMatch{}
		name, value, valued := strings.Cut(text, "=")
		if m.Name = name; valued {
			m.Value = &value
		}
		if name == "" {
			return out, usagef("--header %q is not NAME or NAME=VALUE", text)
		}
		out.Headers = append(out.Headers, m)
	}
	if !f.strict {
		return out, nil
	}
	if s.FromTime.IsZero() && s.UntilTime.IsZero() {
		return out, usagef("--strict-time needs --from-time or --until-time")
	}
	if !s.FromTime.IsZero() {
		out.FromMs = s.FromTime.UnixMilli()
	}
	if !s.UntilTime.IsZero() {
		out.UntilMs = s.UntilTime.UnixMilli()
	}
	s.UntilTime = time.Time{}
	return out, nil
}

// options are the flags that a checkpoint is good for, as one text.
func (f *replayFlags) options() string {
	return fmt.Sprintf("partitions=%q offsets=%d..%d times=%q..%q strict=%t keys=%q prefix=%q regexp=%q headers=%q by-key=%t format=%q direct=%t",
		f.partitions, f.fromOffset, f.untilOffset, f.fromTime, f.untilTime, f.strict, f.keys, f.keyPrefix, f.keyRegexp, f.headers,
		f.byKey, f.format, f.direct)
}

func (f *replayFlags) checkpointPath() string {
	switch {
	case f.cps != "" || f.out == "-":
		return f.cps
	case f.out != "":
		return strings.TrimRight(f.out, "/") + ".checkpoint"
	}
	return fmt.Sprintf("replay-%s-to-%s.checkpoint", f.source, f.to)
}

// parsePartitions reads "0,4-7"; nil for "".
func parsePartitions(text string) (out []int32, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.ParseInt(first, 10, 32)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseInt(last, 10, 32)
		}
		if err != nil || from < 0 || to < from || to == math.MaxInt32 || to-from > 100_000 {
			return nil, usagef("--partitions %q is not a list such as 0,4-7", text)
		}
		for p := from; p <= to; p++ {
			out = append(out, int32(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseTime reads a time as replay's help describes it; the zero time for "".
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 {
		return time.UnixMilli(ms), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usagef("%s %q is not a time: write 2024-05-01T12:00:00Z, 2024-05-01, milliseconds since 1970, or how long ago, such as 36h", flag, text)
}
