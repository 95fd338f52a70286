package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// settings are what a run is told. Every length is one of them.
type settings struct {
	Full     bool           // BENCH_FULL: the whole matrix instead of the selection
	Cluster  bool           // BENCH_CLUSTER: three brokers each, instead of one
	Seconds  float64        // BENCH_SECONDS: counted time of one run (6; full: 10; cluster: 8; quick: 3)
	Ramp     float64        // BENCH_RAMP: running in before it, seconds (1)
	Runs     int            // BENCH_RUNS: runs of a row on each broker (5; cluster: 2)
	SideRuns int            // BENCH_SIDE_RUNS: runs of the rows that vary one thing (1; full, cluster: 2)
	Rows     *regexp.Regexp // BENCH_ROWS: names of the rows to measure (all)
	Peers    *regexp.Regexp // BENCH_PEERS: kafka, tidemark or both
	Budget   time.Duration  // BENCH_BUDGET: no run begins after it (45m; full: none; cluster: 12m)
	Recover  int64          // BENCH_RECOVER_BYTES: data to restart with after SIGKILL (2 GB; full: 20 GB)
	Hot      int64          // BENCH_HOT_BYTES: data that hot consumers read (1 GB; full: 20 GB)
	Cold     int64          // BENCH_COLD_BYTES: data of the cold replay (1 GiB; full: 20 GB)
	Compact  int64          // BENCH_COMPACT_BYTES: data of the larger compaction (512 MiB)
	Stream   string         // BENCH_STREAM: lines of JSON, by zstd, to compact instead of a generated history (none)
	Dir      string         // BENCH_DIR: data of both brokers, on the disk to measure (a new temporary folder)
	Cache    string         // BENCH_CACHE: jars and binaries (~/.cache/tidemark)
	Out      string         // BENCH_OUT: the page to write (docs/benchmarks.md), of a cluster its section; raw results stand beside it
	Binary   string         // BENCH_TIDEMARK: the tidemark to measure (built from this tree)
	Profile  string         // BENCH_PROFILE: folder for one CPU profile of Tidemark per row
}

func load() (settings, error) {
	e := environment{}
	s := settings{Full: os.Getenv("BENCH_FULL") != "", Cluster: os.Getenv("BENCH_CLUSTER") != ""}
	budget, data, seconds, runs, sides := "45m", 2e9, 6.0, 5.0, 1.0
	if s.Cluster {
		budget, seconds, runs, sides = "12m", 8, 2, 2
	}
	if s.Full {
		budget, data, seconds, sides = "1000h", 20e9, 10, 2
	}
	s.Seconds = e.number("BENCH_SECONDS", seconds)
	s.Ramp = e.number("BENCH_RAMP", 1)
	s.Runs = int(e.number("BENCH_RUNS", runs))
	s.SideRuns = int(e.number("BENCH_SIDE_RUNS", min(sides, float64(s.Runs))))
	s.Rows = e.pattern("BENCH_ROWS")
	s.Peers = e.pattern("BENCH_PEERS")
	s.Budget = e.duration("BENCH_BUDGET", budget)
	s.Recover = int64(e.number("BENCH_RECOVER_BYTES", data))
	s.Hot = int64(e.number("BENCH_HOT_BYTES", max(1e9, data-2e9)))
	s.Cold = int64(e.number("BENCH_COLD_BYTES", max(1<<30, data-2e9)))
	s.Compact = int64(e.number("BENCH_COMPACT_BYTES", 512<<20))
	s.Stream = os.Getenv("BENCH_STREAM")
	s.Dir = os.Getenv("BENCH_DIR")
	s.Binary = os.Getenv("BENCH_TIDEMARK")
	s.Profile = os.Getenv("BENCH_PROFILE")
	home, err := os.UserCacheDir()
	e.note(err)
	s.Cache = e.text("BENCH_CACHE", filepath.Join(home, "tidemark"))
	s.Out = e.text("BENCH_OUT", filepath.Join(root(), "docs", "benchmarks.md"))
	if s.Runs < 1 || s.SideRuns < 1 || s.Seconds <= 0 {
		e.note(fmt.Errorf("BENCH_RUNS, BENCH_SIDE_RUNS and BENCH_SECONDS must be above 0"))
	}
	return s, e.err
}

// root is the repository: the program runs in integration/bench.
func root() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return "../.."
	}
	return dir
}

// environment reads variables and keeps the first fault.
type environment struct{ err error }

func (e *environment) note(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *environment) text(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func (e *environment) number(name string, otherwise float64) float64 {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		e.note(fmt.Errorf("%s: %w", name, err))
	}
	return x
}

func (e *environment) duration(name, otherwise string) time.Duration {
	d, err := time.ParseDuration(e.text(name, otherwise))
	if err != nil {
		e.note(fmt.Errorf("%s: %w", name, err))
	}
	return d
}

func (e *environment) pattern(name string) *regexp.Regexp {
	r, err := regexp.Compile(os.Getenv(name))
	if err != nil {
		e.note(fmt.Errorf("%s: %w", name, err))
	}
	return r
}
