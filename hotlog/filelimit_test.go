package hotlog

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Whatever reads a log's files for somebody waits for a place among the reads in flight, and gives it back (P4).
func TestP4_ReadsOfALogTakePlaces(t *testing.T) {
	for name, read := range map[string]func(l *Log, s *Section) error{
		"batches":         func(l *Log, _ *Section) error { s, err := l.Read(3, 20, 1<<20, true); s.Release(); return err },
		"a section":       func(_ *Log, s *Section) error { _, err := s.ReadAt(make([]byte, 100), 0); return err },
		"by time":         func(l *Log, _ *Section) error { _, _, err := l.OffsetForTime(day+5, 0, 35); return err },
		"the newest time": func(l *Log, _ *Section) error { _, _, err := l.MaxTimestamp(0, 35); return err },
	} {
		t.Run(name, func(t *testing.T) {
			o := small(testOptions(t))
			synctest.Test(t, func(t *testing.T) {
				o.Files = NewFileLimit(1, 4)
				l := open(t, o)
				fill(t, l, 35)
				s, err := l.Read(0, 10, 1<<20, true)
				require.NoError(t, err)
				defer s.Release()
				o.Files.BeginRead() // the only place is taken
				done := make(chan error, 1)
				go func() { done <- read(l, s) }()
				synctest.Wait()
				require.Empty(t, done, "it read without a place")
				o.Files.EndRead()
				require.NoError(t, <-done)
				o.Files.BeginRead() // the place was given back
				o.Files.EndRead()
			})
		})
	}
}
