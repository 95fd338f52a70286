package main

import (
	"fmt"
	"slices"
	"strings"
)

// Sections of the page that runs of their own write, by the names in the lines that they stand between. A run that does not
// measure one leaves it as it is, and a run of one alone changes nothing else.
const (
	clusterSection    = "make bench-cluster"
	compactionSection = "compaction"
)

func sectionBegin(name string) string { return "<!-- " + name + " -->\n" }
func sectionEnd(name string) string   { return "<!-- end of " + name + " -->\n" }

// section is that section of a page, without its marks; empty if it has none.
func section(page, name string) string {
	_, rest, _ := strings.Cut(page, sectionBegin(name))
	text, _, whole := strings.Cut(rest, sectionEnd(name))
	if !whole {
		return ""
	}
	return text
}

// withSection is a page with that section, in the place of its old one or at its end.
func withSection(page, name, text string) string {
	if text == "" {
		return page
	}
	marked := sectionBegin(name) + text + sectionEnd(name)
	before, rest, _ := strings.Cut(page, sectionBegin(name))
	_, after, _ := strings.Cut(rest, sectionEnd(name))
	return strings.TrimRight(before, "\n") + "\n\n" + marked + after
}

// cluster is the section.
func (r *report) cluster() string {
	var b strings.Builder
	which := "`make bench-cluster`"
	if r.s.Rows.String() != "" || r.s.Peers.String() != "" {
		which += fmt.Sprintf(", shortened (BENCH_ROWS=%q BENCH_PEERS=%q)", r.s.Rows, r.s.Peers)
	}
	fmt.Fprintf(&b, `
# Clusters of three

Written by %s, on %s, revision %s. Three nodes of Apache Kafka %s (KRaft, each broker and controller, a heap of 1 GB each, Java %s)
and three of Tidemark with a Postgres and an S3 server, on the same disk, in turn. 16 partitions, three replicas, `+"`min.insync.replicas=2`"+`, acks=all,
idempotent producers, five requests on their way to each broker; of the rows, only "tier on" moves segments to the object tier.

Machine: %s; load averages %s before the run (0 is a quiet machine). All six brokers and the clients share the
cores, so MB/s is what is left for a cluster beside its client. CPU is of the three brokers together, in seconds per 10⁹ bytes of
values, each of which they write three times; Kafka's controllers are in it, Postgres and the S3 server are not. Medians of up to %d runs of %v s;
ratios are Tidemark : Kafka, medians over neighbouring runs.

`, which, r.Began.UTC().Format("2006-01-02"), revision(), kafkaVersion, javaVersion(), machine(), r.Load, r.s.Runs, r.s.Seconds)
	r.rates(&b)
	r.acks(&b)
	k, t := r.life("kafka"), r.life("tidemark")
	fmt.Fprintf(&b, "Idle, the three together: Kafka %d MB resident and %.1f %% of a core, Tidemark %d MB and %.1f %%.\n\n",
		k.IdleRSS/1e6, k.IdleCPU*100, t.IdleRSS/1e6, t.IdleCPU*100)
	if r.Cut > 0 {
		fmt.Fprintf(&b, "The time was over in round %d: later rows have a run less.\n\n", r.Cut)
	}
	if len(r.Faults) > 0 {
		b.WriteString("Runs that failed:\n\n- " + strings.Join(r.Faults, "\n- ") + "\n\n")
	}
	return b.String()
}

// acks is the table of the latency of acknowledgements.
func (r *report) acks(b *strings.Builder) {
	if !slices.ContainsFunc(r.Lines, func(l *line) bool { return l.Row.Kind == kindAcks }) {
		return
	}
	b.WriteString(`## Latency of acknowledgements

From the moment at which a record is due to its acknowledgement by all in-sync replicas, at shares of the slower cluster's peak. Milliseconds.

| row | records/s | Kafka p50 / p99 / p99.9 | Tidemark p50 / p99 / p99.9 | p99 ratio (goal) | CPU s/GB, Kafka : Tidemark |
|---|---|---|---|---|---|
`)
	for _, l := range r.Lines {
		if l.Row.Kind == kindAcks {
			fmt.Fprintf(b, "| %s | %.0f | %s |\n", l.Row.Name, l.Row.Share*r.slowestPeak(l.Row.Of), l.quantiles())
		}
	}
	b.WriteString("\n")
}

// quantiles are the cells of a row of a table of latencies.
func (l *line) quantiles() string {
	three := func(peer string) string {
		return fmt.Sprintf("%.2f / %.2f / %.2f", l.median(peer, quantileMs(0.5)), l.median(peer, quantileMs(0.99)), l.median(peer, quantileMs(0.999)))
	}
	return fmt.Sprintf("%s | %s | %s | %.2f : %.2f", three("kafka"), three("tidemark"), against(l.ratio(quantileMs(0.99)), l.Row.goal().P99, false),
		l.median("kafka", measure.cpuPerGB), l.median("tidemark", measure.cpuPerGB))
}
