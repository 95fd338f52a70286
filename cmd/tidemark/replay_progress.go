package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tidemark/cmd/tidemark/replay"
)

// shower shows the progress on standard error: a bar where that is a terminal, a line now and then where it is not, JSON
// lines with --json.
type shower struct {
	w     io.Writer
	every time.Duration
	write func(io.Writer, replay.Progress)
	live  bool // one line that is written over
	last  time.Time
	shown bool
}

func (f *replayFlags) shower() *shower {
	switch {
	case f.json:
		return &shower{w: f.err, every: time.Second, write: writeJSONProgress}
	case isTerminal(f.err):
		return &shower{w: f.err, live: true, write: func(w io.Writer, p replay.Progress) {
			fmt.Fprintf(w, "\r\x1b[K%s %s", bar(p, 30), progressText(p))
		}}
	}
	return &shower{w: f.err, every: 10 * time.Second, write: func(w io.Writer, p replay.Progress) { fmt.Fprintln(w, progressText(p)) }}
}

// tell shows p, unless it is too early for that. A replay that is short shows nothing but in a terminal.
func (s *shower) tell(p replay.Progress) {
	now := time.Now()
	if s.last.IsZero() {
		s.last = now
	}
	if !s.live && now.Sub(s.last) < s.every {
		return
	}
	s.last, s.shown = now, true
	s.write(s.w, p)
}

// end leaves the line of the bar.
func (s *shower) end() {
	if s.live && s.shown {
		fmt.Fprintln(s.w)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func bar(p replay.Progress, width int) string {
	n := width
	if p.Total > 0 {
		n = int(p.Done * int64(width) / p.Total)
	}
	return "[" + strings.Repeat("=", n) + strings.Repeat(" ", width-n) + "]"
}

func progressText(p replay.Progress) string {
	share := 100.0
	if p.Total > 0 {
		share = 100 * float64(p.Done) / float64(p.Total)
	}
	left := "unknown"
	if p.Left >= 0 {
		left = p.Left.Round(time.Second).String()
	}
	return fmt.Sprintf("%5.1f %%  %d records  %s  %s/s  ETA %s", share, p.Records, sizeText(p.Bytes), sizeText(perSecond(p)), left)
}

// perSecond is what this process reads a second.
func perSecond(p replay.Progress) int64 {
	return int64(float64(p.Read) / max(p.Elapsed.Seconds(), 0.001))
}

func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// progressLine is a Progress as --json shows it, on standard error while it runs and as the result at the end.
type progressLine struct {
	Source     string `json:"source,omitempty"`
	Target     string `json:"target,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	Done       int64  `json:"done_offsets"`
	Total      int64  `json:"total_offsets"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`
	Read       int64  `json:"read_bytes"`
	PerSecond  int64  `json:"read_bytes_per_second"`
	Elapsed    int64  `json:"elapsed_ms"`
	ETA        *int64 `json:"eta_ms,omitempty"`
	Resumed    bool   `json:"resumed"`
	Note       string `json:"note,omitempty"`
}

func progressLineOf(p replay.Progress) progressLine {
	l := progressLine{
		Done: p.Done, Total: p.Total, Records: p.Records, Bytes: p.Bytes, Read: p.Read, PerSecond: perSecond(p),
		Elapsed: p.Elapsed.Milliseconds(), Resumed: p.Resumed,
	}
	if p.Left >= 0 {
		ms := p.Left.Milliseconds()
		l.ETA = &ms
	}
	return l
}

func writeJSONProgress(w io.Writer, p replay.Progress) {
	_ = json.NewEncoder(w).Encode(progressLineOf(p))
}

// report says what was copied, beside the records if those went to standard output.
func (f *replayFlags) report(p replay.Progress, spec replay.Spec, checkpoint string) error {
	c := *f.command
	if f.out == "-" {
		c.out = c.err
	}
	l := progressLineOf(p)
	l.Note = p.Note
	l.Source, l.Target, l.Checkpoint, l.ETA = spec.Source, spec.Target, checkpoint, nil
	return c.print(l, func(t *table) {
		if p.Resumed && p.Read == 0 {
			t.line("All of it had been copied before; remove %s to copy it again.", checkpoint)
		}
		t.line("Copied %s (%s) of %d offsets in %d partition(s) of %s to %s in %v.", plural(p.Records, "record", "records"), sizeText(p.Bytes), p.Total,
			p.Partitions, spec.Source, spec.Target, p.Elapsed.Round(time.Millisecond))
		if p.Note != "" {
			t.line("But %s.", p.Note)
		}
	})
}
