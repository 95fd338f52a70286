package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// buildDriver compiles the driver of librdkafka into dir.
func buildDriver(dir string) (string, error) {
	out := filepath.Join(dir, "rdkafka_perf")
	cmd := exec.Command("gcc", "-O2", "-o", out, "rdkafka_perf.c", "-lrdkafka")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile rdkafka_perf.c (needs librdkafka-dev): %w: %s", err, text)
	}
	return out, nil
}

// librdkafka runs the driver and brackets what it counts.
func (j job) librdkafka(ctx context.Context) (measure, error) {
	driver := filepath.Join(j.s.Dir, "rdkafka_perf")
	args := []string{string(j.row.Kind), j.peer.address, j.topic, number(j.s.Ramp), number(j.s.Seconds)}
	if j.row.Kind == kindProduce {
		args = append(args, j.file, strconv.Itoa(j.row.Size), j.row.Acks, j.row.Codec, strconv.FormatBool(j.row.Idempotent))
	} else {
		args = append(args, strconv.Itoa(j.row.Partitions))
	}
	w := window{peer: j.peer}
	var m measure
	err := lines(exec.CommandContext(ctx, driver, args...), func(line string) error {
		var records, bytes, ns int64
		switch {
		case line == "begin":
			w.begin()
			return nil
		default:
			if _, err := fmt.Sscanf(line, "end %d %d %d", &records, &bytes, &ns); err != nil {
				return fmt.Errorf("rdkafka_perf says %q: %w", line, err)
			}
			var err error
			m, err = w.end(records, bytes, time.Duration(ns))
			return err
		}
	})
	return m, err
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// lines runs a command and gives each line of its output to see; what it says on standard error is in the error.
func lines(cmd *exec.Cmd, see func(string) error) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var fault error
	for sc := bufio.NewScanner(out); sc.Scan() && fault == nil; {
		fault = see(sc.Text())
	}
	if fault != nil {
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil && fault == nil {
		fault = fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(stderr.String()))
	}
	return fault
}

// javaRate is how many bytes a second the Java tools are asked to move for each second of a run: they go by number of
// records, not by time.
const javaRate = 100e6

var (
	producerSummary = regexp.MustCompile(`records sent, .*\(([0-9.]+) MB/sec\).* ms 99th`)
	consumerSummary = regexp.MustCompile(`^\d{4}-\d\d-\d\d `)
)

// java runs Kafka's own performance tool; its last line is about the steady state after the first tenth. The broker's CPU is
// read over its whole run, in which it idles while the tool's JVM starts.
func (j job) java(ctx context.Context) (measure, error) {
	if j.row.Kind == kindConsume {
		return j.javaConsume(ctx)
	}
	records := int64(j.s.Seconds * javaRate / float64(j.row.Size))
	args := java(j.jars, []string{"-Xmx512M"}, "org.apache.kafka.tools.ProducerPerformance",
		"--topic", j.topic, "--num-records", strconv.FormatInt(records, 10), "--throughput", "-1",
		"--warmup-records", strconv.FormatInt(records/10, 10), "--payload-file", j.file,
		"--bootstrap-server", j.peer.address,
		"--command-property", "acks="+j.row.Acks, "compression.type="+j.row.Codec)
	w := window{peer: j.peer}
	w.begin()
	rate := 0.0
	err := lines(exec.CommandContext(ctx, "java", args...), func(line string) error {
		if got := producerSummary.FindStringSubmatch(line); got != nil {
			rate, _ = strconv.ParseFloat(got[1], 64)
		}
		return nil
	})
	if err != nil {
		return measure{}, err
	}
	if rate == 0 {
		return measure{}, fmt.Errorf("kafka-producer-perf-test gave no summary")
	}
	bytes := records * int64(j.row.Size)
	return w.end(records, bytes, time.Duration(float64(bytes)/(rate*(1<<20))*float64(time.Second)))
}

// javaConsume reads the hot topic once. The tool's last line is start, end, MB, MB/s, records, records/s, rebalance ms, fetch
// ms, fetch MB/s, fetch records/s; the time of fetching is what counts.
func (j job) javaConsume(ctx context.Context) (measure, error) {
	records := j.s.Hot / int64(j.row.Size)
	args := java(j.jars, []string{"-Xmx512M"}, "org.apache.kafka.tools.ConsumerPerformance", "--topic", j.topic,
		"--num-records", strconv.FormatInt(records, 10), "--bootstrap-server", j.peer.address, "--timeout", "30000")
	w := window{peer: j.peer}
	w.begin()
	var fields []string
	err := lines(exec.CommandContext(ctx, "java", args...), func(line string) error {
		if consumerSummary.MatchString(line) {
			fields = strings.Split(line, ", ")
		}
		return nil
	})
	if err != nil {
		return measure{}, err
	}
	if len(fields) < 8 {
		return measure{}, fmt.Errorf("kafka-consumer-perf-test gave no summary")
	}
	got, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		return measure{}, err
	}
	ms, err := strconv.ParseInt(fields[7], 10, 64)
	if err != nil {
		return measure{}, err
	}
	return w.end(got, got*int64(j.row.Size), time.Duration(ms)*time.Millisecond)
}
