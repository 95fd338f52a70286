package cache

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// places is a ReadGate.
type places chan struct{}

func (p places) BeginRead() { p <- struct{}{} }
func (p places) EndRead()   { <-p }

// A chunk that is only on the disk is opened, checked and read with a place among the reads in flight (P4).
func TestP4_ReadsOfChunkFilesTakePlaces(t *testing.T) {
	dir, s := t.TempDir(), &store{}
	c := open(t, Options{Dir: dir})
	mustGet(t, c, s.request(key(0))).Release()
	require.NoError(t, c.Close())
	for name, read := range map[string]func(h *Handle) error{
		"by ReadAt": func(h *Handle) error { _, err := h.ReadAt(make([]byte, chunk), 0); return err },
		"by file":   func(h *Handle) error { _, _, _, err := h.Section(0, chunk); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(places, 1)
				c := open(t, Options{Dir: dir, Reads: gate})
				h := mustGet(t, c, s.request(key(0)))
				defer h.Release()
				for range 2 { // the first opens the file
					gate.BeginRead()
					done := make(chan error, 1)
					go func() { done <- read(h) }()
					synctest.Wait()
					require.Empty(t, done, "it read without a place")
					gate.EndRead()
					require.NoError(t, <-done)
				}
			})
		})
	}
}
