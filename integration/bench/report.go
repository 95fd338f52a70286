package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report gathers what was measured.
type report struct {
	s      settings
	only   bool // nothing but compaction is measured: the page keeps the rest
	Began  time.Time
	Load   string // load averages of the machine when it began: what else ran
	Lines  []*line
	Lives  map[string]*life
	Cold   *coldResult
	Beside *besideResult
	// Compaction is what the cleaners did, a line a stream.
	Compaction []*compactionLine
	Cut        int // the round in which the time was over; 0: never
	Faults     []string
	// ColdFault says why there is no cold replay.
	ColdFault string
}

// line is a row and its runs on each broker, in the order in which they were made.
type line struct {
	Row  row
	Runs map[string][]measure
}

func newReport(s settings) *report {
	load, _ := os.ReadFile("/proc/loadavg")
	return &report{s: s, Began: time.Now(), Load: firstWords(string(load), 3), Lives: map[string]*life{}}
}

func firstWords(text string, n int) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(n, len(words))], " ")
}

func (r *report) life(name string) *life {
	if r.Lives[name] == nil {
		r.Lives[name] = &life{}
	}
	return r.Lives[name]
}

func (r *report) line(of row) *line {
	for _, l := range r.Lines {
		if l.Row.Name == of.Name {
			return l
		}
	}
	l := &line{Row: of, Runs: map[string][]measure{}}
	r.Lines = append(r.Lines, l)
	return l
}

func (r *report) add(of row, peer string, m measure) {
	l := r.line(of)
	l.Runs[peer] = append(l.Runs[peer], m)
}

func (r *report) failed(of row, peer string, err error) {
	r.Faults = append(r.Faults, fmt.Sprintf("%s, %s: %v", of.Name, peer, err))
}

// slowestPeak is the slower peer's median records a second in the row of that name; 0 if none was measured.
func (r *report) slowestPeak(name string) float64 {
	lowest := 0.0
	for _, l := range r.Lines {
		if l.Row.Name != name {
			continue
		}
		for peer := range l.Runs {
			rate := l.median(peer, func(m measure) float64 { return float64(m.Records) / m.Seconds })
			if lowest == 0 || rate < lowest {
				lowest = rate
			}
		}
	}
	return lowest
}

// median of a figure over a broker's runs; 0 if there are none.
func (l *line) median(peer string, of func(measure) float64) float64 {
	var all []float64
	for _, m := range l.Runs[peer] {
		all = append(all, of(m))
	}
	return median(all)
}

// ratio is the median of Tidemark's figure over Kafka's, run by run; 0 if one was not measured.
func (l *line) ratio(of func(measure) float64) float64 {
	ours, theirs := l.Runs["tidemark"], l.Runs["kafka"]
	var all []float64
	for i := range min(len(ours), len(theirs)) {
		if k := of(theirs[i]); k > 0 {
			all = append(all, of(ours[i])/k)
		}
	}
	return median(all)
}

func median[T cmp.Ordered](all []T) (m T) {
	if len(all) == 0 {
		return m
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func quantileMs(q float64) func(measure) float64 {
	return func(m measure) float64 {
		if m.Latency == nil {
			return 0
		}
		return float64(m.Latency.quantile(q)) / 1e6
	}
}

// write writes the page, its plot and the raw figures beside it; of clusters or compaction alone, their section of the page.
func (r *report) write(page string) error {
	base := strings.TrimSuffix(page, filepath.Ext(page))
	old, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.only {
		if err := r.writeRaw(base + "-compaction.json"); err != nil {
			return err
		}
		return os.WriteFile(page, []byte(withSection(string(old), compactionSection, r.compaction())), 0o644)
	}
	if r.s.Cluster {
		if err := r.writeRaw(base + "-cluster.json"); err != nil {
			return err
		}
		return os.WriteFile(page, []byte(withSection(string(old), clusterSection, r.cluster())), 0o644)
	}
	if err := os.WriteFile(base+".svg", []byte(r.plot()), 0o644); err != nil {
		return err
	}
	if err := r.writeRaw(base + ".json"); err != nil {
		return err
	}
	text := r.markdown(filepath.Base(base) + ".svg")
	for _, name := range []string{clusterSection, compactionSection} {
		text = withSection(text, name, section(string(old), name))
	}
	text = withSection(text, compactionSection, r.compaction())
	return os.WriteFile(page, []byte(text), 0o644)
}

func (r *report) writeRaw(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
