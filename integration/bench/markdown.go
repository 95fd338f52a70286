package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// markdown is the page.
func (r *report) markdown(plot string) string {
	var b strings.Builder
	which := "`make bench-compare`, the selection that fits into 45 minutes"
	if r.s.Full {
		which = "`make bench-compare-full`, the whole matrix"
	}
	if r.s.Rows.String() != "" || r.s.Runs < 5 {
		which += fmt.Sprintf(", shortened (BENCH_ROWS=%q BENCH_RUNS=%d BENCH_SIDE_RUNS=%d BENCH_SECONDS=%v)", r.s.Rows, r.s.Runs, r.s.SideRuns, r.s.Seconds)
	}
	fmt.Fprintf(&b, `# Benchmarks

Written by %s, on %s, revision %s. Apache Kafka %s (KRaft, one node, Java %s) and Tidemark, one broker each, on the
same disk, driven by the same clients, in turn. [integration/bench](../integration/bench/doc.go) says how.

Machine: %s; load averages %s before the run (0 is a quiet machine; on a busy one trust ratios, and
latencies not at all). Values are JSON that compresses as events do; MB are 10⁶ bytes of values, before compression. CPU is the
broker's own, in seconds per 10⁹ bytes. Medians of up to %d runs of %v s; ratios are Tidemark : Kafka, medians over
neighbouring runs. Clients and broker share the machine's cores, so where a client is the limit MB/s says more of the client, and
CPU says what the broker costs. "raw" is no client library: prepared batches out, answers discarded.

![MB/s and CPU of both](%s)

`, which, r.Began.UTC().Format("2006-01-02"), revision(), kafkaVersion, javaVersion(), machine(), r.Load, r.s.Runs, r.s.Seconds, plot)
	r.rates(&b)
	r.latency(&b)
	r.process(&b)
	r.replay(&b)
	b.WriteString(shortfalls)
	if r.Cut > 0 {
		fmt.Fprintf(&b, "The time was over in round %d: later rows have a run less.\n\n", r.Cut)
	}
	if len(r.Faults) > 0 {
		b.WriteString("## Runs that failed\n\n- " + strings.Join(r.Faults, "\n- ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// shortfalls says what profiles (BENCH_PROFILE, perf) showed where goals are not met.
const shortfalls = `## Where a goal is not met

Shares of the broker's CPU are from profiles taken in the same run (BENCH_PROFILE); kernel functions from perf.

- **Produce without a codec**: 37 to 61 % is write(2) into the page cache, 11 to 19 % read(2) from the socket, 4 to 7 % writing a
  sealed segment out, 7 to 12 % the judge at 1 KiB (half of it the CRC) and 25 to 42 % at 100 B (a record's seven numbers, 36 ns
  a record). Of write(2) less than a third is the copy; the rest is ext4 finding pages and reserving blocks for them, more for
  each byte the smaller the writes. Both brokers make the same system calls; ours are the larger part of less. MB/s behind a real
  client is the client's: it has the other core, and needs more than that at 100 B and with a codec. The raw rows show what the
  broker takes.
- **Produce with a codec**: 37 to 91 % is decompressing what the producer compressed, to judge every record (ADR 0004); Kafka
  does that too, by native code. lz4 15 to 21 %, zstd 74 %, gzip 88 %, snappy 76 % (no faster decoder refuses what only S2 reads).
- **Hot consume**: 75 to 89 % is sendfile(2), here as there; 2.2 GB/s is what the raw reader's own copy allows on one core.
- **Produce and consume at once** (DESIGN.md names no goal): 50 % is write(2), 13 % the CRC, 11 % read(2), 9 % sendfile(2).
  Requests are answered as soon as they are appended, so the client, which batches while it waits, sends smaller batches than to
  a broker that is slower: more and smaller writes for the same bytes, and more requests for both clients on the same two cores.
- **p99 at half load**: what is late is now the machine's: in runs that were late the generator itself was, while pages were
  reclaimed; of the broker's system calls only fsync in the background took more than 15 ms. A median of five runs is 4.6 ms.
- **tier on**: reading, hashing and storing each segment once more, on the same disk and cores; Kafka has no tier here. 22 % is
  SHA-256 by the processor's own instructions, which the signature and the row need, 22 % the PUT's write(2), 26 % the log's. By
  ` + "`BenchmarkUpload`" + `, on a quiet machine, in CPU s/GB: 1.0 to build an object (0.67 of it SHA-256, 0.18 the CRCs, 0.1 reading),
  then 0.62 for a PUT, into a folder or over HTTP: 1.6 for the 1.2 that are the goal, of which the hash and the copy to the
  socket alone are 1.1.
- **Cold replay without a link**: the bare client discards what one copy brings; a replay receives (a third of its CPU, half of
  that page faults of a cache that is still growing), checks (a tenth), copies out of the cache and sends on (a quarter). Over a
  link read-ahead fills the line; one stream alone lacks the round trips of its beginning.
- **Produce beside cold consumers**: producer, eight consumers, S3 server and broker share two cores; replays give way once a
  timer is 0.5 ms late, which leaves 2 ms more at p99.
- **Compaction** of records of 1 KiB: by ` + "`BenchmarkPass`" + `, 38 % is SHA-256, most of it of what is read, which must be what its row says before
  anything is put in its place; 25 % is copying, 13 % merging digests and finding what stays. The ratio is the machine's too: on
  another of this kind the same code had 498 to 593 MB/s beside 671 to 767.

`

// rates is the table of throughput.
func (r *report) rates(b *strings.Builder) {
	b.WriteString(`## Throughput

| row | runs | Kafka MB/s | Tidemark MB/s | ratio (goal) | Kafka CPU s/GB | Tidemark CPU s/GB | ratio (goal) | peak RSS MB, Kafka : Tidemark |
|---|---|---|---|---|---|---|---|---|
`)
	for _, l := range r.Lines {
		if l.Row.Share > 0 {
			continue
		}
		g := l.Row.goal()
		cpu := measure.cpuPerGB
		peak := func(m measure) float64 { return float64(m.Peak) / 1e6 }
		fmt.Fprintf(b, "| %s | %d | %.0f | %.0f | %s | %.2f | %.2f | %s | %.0f : %.0f |\n", l.Row.Name, len(l.Runs["tidemark"]),
			l.median("kafka", measure.mbps), l.median("tidemark", measure.mbps), against(l.ratio(measure.mbps), g.Rate, true),
			l.median("kafka", cpu), l.median("tidemark", cpu), against(l.ratio(cpu), g.CPU, false),
			l.median("kafka", peak), l.median("tidemark", peak))
	}
	b.WriteString("\n")
}

// against is a ratio with its goal, bold where it is met.
func against(ratio, goal float64, least bool) string {
	switch {
	case ratio == 0:
		return "–"
	case goal == 0:
		return fmt.Sprintf("%.2f", ratio)
	case least && ratio >= goal:
		return fmt.Sprintf("**%.2f** (≥ %v)", ratio, goal)
	case least:
		return fmt.Sprintf("%.2f (≥ %v)", ratio, goal)
	case ratio <= goal:
		return fmt.Sprintf("**%.2f** (≤ %v)", ratio, goal)
	}
	return fmt.Sprintf("%.2f (≤ %v)", ratio, goal)
}

// latency is the table of end-to-end latency.
func (r *report) latency(b *strings.Builder) {
	if !slices.ContainsFunc(r.Lines, func(l *line) bool { return l.Row.Kind == kindLatency }) {
		return
	}
	fmt.Fprintf(b, `## Latency, end to end

From the moment at which a record is due to the moment at which a consumer holds it, acks=all, at shares of the slower
broker's peak of producing and consuming at once (%.0f records/s). Milliseconds.

| row | Kafka p50 / p99 / p99.9 | Tidemark p50 / p99 / p99.9 | p99 ratio (goal) | CPU s/GB, Kafka : Tidemark |
|---|---|---|---|---|
`, r.slowestPeak(mixedRow().Name))
	for _, l := range r.Lines {
		if l.Row.Kind != kindLatency {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |\n", l.Row.Name, l.quantiles())
	}
	b.WriteString("\n")
}

// process is the table of the brokers' lives.
func (r *report) process(b *strings.Builder) {
	b.WriteString("## Process\n\n| what | Kafka | Tidemark | goal |\n|---|---|---|---|\n")
	k, t := r.life("kafka"), r.life("tidemark")
	fmt.Fprintf(b, "| start on an empty folder, until it answers | %.2f s | %.2f s | ≤ 0.5 s (`dev`) |\n", k.Start.Seconds(), t.Start.Seconds())
	fmt.Fprintf(b, "| resident when idle | %d MB | %d MB | ≤ 60 MB (`dev`) |\n", k.IdleRSS/1e6, t.IdleRSS/1e6)
	fmt.Fprintf(b, "| CPU when idle | %.1f %% of a core | %.1f %% of a core | |\n", k.IdleCPU*100, t.IdleCPU*100)
	if held := max(k.Held, t.Held); held > 0 {
		fmt.Fprintf(b, "| all partitions back after SIGKILL with %.1f GB | %.2f s | %.2f s | |\n", float64(held)/1e9,
			k.Recovery.Seconds(), t.Recovery.Seconds())
	}
	b.WriteString("\n")
}

func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func javaVersion() string {
	out, _ := exec.Command("java", "--version").Output()
	if f := strings.Fields(string(out)); len(f) > 1 {
		return f[1]
	}
	return "unknown"
}

func machine() string {
	model := "unknown processor"
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, text, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(text)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores of %s, %.0f GB, Linux %s, %s", runtime.NumCPU(), model, float64(meminfo("MemTotal"))/1e9,
		strings.TrimSpace(string(kernel)), runtime.Version())
}
