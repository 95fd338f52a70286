package main

import (
	"fmt"
	"strings"
)

// of is the median of a figure over a broker's runs; 0 if there are none.
func (l *compactionLine) of(peer string, figure func(cleaned) float64) float64 {
	var all []float64
	for _, m := range l.Runs[peer] {
		all = append(all, figure(m))
	}
	return median(all)
}

// ratio is the median of Tidemark's figure over Kafka's, run by run; 0 if one was not measured.
func (l *compactionLine) ratio(figure func(cleaned) float64) float64 {
	var all []float64
	for i := range min(len(l.Runs["tidemark"]), len(l.Runs["kafka"])) {
		if k := figure(l.Runs["kafka"][i]); k > 0 {
			all = append(all, figure(l.Runs["tidemark"][i])/k)
		}
	}
	return median(all)
}

// both are a figure of Kafka and Tidemark.
func (l *compactionLine) both(format string, figure func(cleaned) float64) string {
	return fmt.Sprintf(format+" : "+format, l.of("kafka", figure), l.of("tidemark", figure))
}

// compaction is the section of the cleaners; empty if none was measured.
func (r *report) compaction() string {
	if len(r.Compaction) == 0 {
		return ""
	}
	which := "`make bench-compare`"
	if r.only {
		which = "`BENCH_ROWS=compaction make bench-compare`"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
# Compaction

Written by %s, on %s, revision %s. The cleaner of Apache Kafka %s (one node, a heap of 1 GB, one thread, a buffer of 128 MiB for keys, Java %s)
beside compaction of Tidemark (`+"`tidemark dev`"+`, one worker, objects in a folder on the same disk), in turn. One partition, no codec. The
topic is filled while `+"`min.cleanable.dirty.ratio=1`"+` forbids cleaning, sealed by one more record (and, here, tiered); then the ratio becomes
0.01, and all of it is cleaned at once, until a consumer reads one record for each key and the last values are those produced. Tombstones are too
young to go.

Machine: %s; load averages %s before the run (0 is a quiet machine). MB/s are 10⁶ bytes of keys and values that were given, a
second in passes as the cleaners log them. CPU is the broker process's, in seconds: from the moment from which cleaning was allowed to the
end of the last pass, and with the load, which here uploads too. Kafka : Tidemark, medians of up to %d runs; ratios are Tidemark : Kafka,
medians over neighbouring runs.

| stream | records, keys | MB | segment.bytes MiB | MB/s | ratio | CPU s cleaning | ratio | CPU s with the load | wall s | MB read | MB written | records left |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, which, r.Began.UTC().Format("2006-01-02"), revision(), kafkaVersion, javaVersion(), machine(), r.Load, min(compactionRuns, r.s.Runs))
	for _, l := range r.Compaction {
		fmt.Fprintf(&b, "| %s | %d, %d | %.0f | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", l.Stream, l.Records, l.Keys, float64(l.Bytes)/1e6,
			l.Segment>>20, l.both("%.0f", l.mbps), against(l.ratio(l.mbps), 0, true),
			l.both("%.2f", cleaned.cpu), against(l.ratio(cleaned.cpu), 0, false),
			l.both("%.2f", func(m cleaned) float64 { return m.Whole }), l.both("%.2f", func(m cleaned) float64 { return m.Wall }),
			l.both("%.0f", func(m cleaned) float64 { return float64(m.Read) / 1e6 }),
			l.both("%.0f", func(m cleaned) float64 { return float64(m.Written) / 1e6 }),
			l.both("%.0f", func(m cleaned) float64 { return float64(m.Left) }))
	}
	b.WriteString(`
Kafka's cleaner reads the log twice, first into a map of its keys and then to copy what stays, and each time whole; Tidemark merges the keys'
digests, which uploads have made, and reads once the objects of which something goes. The digests and the second copy of the data that
the object tier is are not in "cleaning": they are in "with the load", where Kafka has neither.

`)
	return b.String()
}

func (m cleaned) cpu() float64 { return m.CPU }
