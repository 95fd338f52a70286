package main

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// cleaning is one pass of a cleaner over a log, as it tells itself.
type cleaning struct {
	Seconds       float64
	Read, Written int64 // bytes
}

// kafkaCleaning is what a thread of Kafka's cleaner writes after a pass; its MB are 2²⁰ bytes.
var kafkaCleaning = regexp.MustCompile(`Log cleaner thread \d+ cleaned log \S+ .*\s+` +
	`\S+ MB of log processed in (\S+) seconds .*\s+` +
	`Indexed (\S+) MB in .*\s+` +
	`(?:Buffer utilization: .*\s+)?` +
	`Cleaned (\S+) MB in .*\s+` +
	`Start size: .*\s+` +
	`End size: (\S+) MB `)

// kafkaCleanings finds all passes that a log of Kafka tells of whole.
func kafkaCleanings(log string) []cleaning {
	var all []cleaning
	for _, m := range kafkaCleaning.FindAllStringSubmatch(log, -1) {
		var n [4]float64
		for i, text := range m[1:] {
			n[i], _ = strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		}
		all = append(all, cleaning{Seconds: n[0], Read: int64((n[1] + n[2]) * (1 << 20)), Written: int64(n[3] * (1 << 20))})
	}
	return all
}

// tidemarkCleaning is the line that ends a pass of Tidemark.
var tidemarkCleaning = regexp.MustCompile(`msg=compacted .* read=(\d+) written=(\d+) took=(\S+)\n`)

// tidemarkCleanings finds all passes that a log of Tidemark tells of.
func tidemarkCleanings(log string) []cleaning {
	var all []cleaning
	for _, m := range tidemarkCleaning.FindAllStringSubmatch(log, -1) {
		var c cleaning
		c.Read, _ = strconv.ParseInt(m[1], 10, 64)
		c.Written, _ = strconv.ParseInt(m[2], 10, 64)
		took, _ := time.ParseDuration(m[3])
		c.Seconds = took.Seconds()
		all = append(all, c)
	}
	return all
}

// logSince is what a log has beyond its first bytes.
func logSince(path string, from int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	return string(text), err
}
