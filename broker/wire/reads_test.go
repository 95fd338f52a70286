package wire

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is a ReadGate with so many places that knows how they were used.
type counter struct {
	places     chan struct{}
	mu         sync.Mutex
	reads, now int
	whenOne    func()
}

func newCounter(places int) *counter { return &counter{places: make(chan struct{}, places)} }

func (g *counter) BeginRead() {
	g.places <- struct{}{}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads++
	g.now++
	if g.whenOne != nil {
		g.whenOne()
	}
}

func (g *counter) EndRead() {
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
	<-g.places
}

// Whichever way a file's bytes go to a socket, each system call that may wait for the disk has a place among the reads in
// flight, and a write to a peer that takes nothing has none (P4): the runtime ends a process of which ten thousand threads
// wait for a disk.
func TestP4_FileReadsForSocketsTakePlaces(t *testing.T) {
	const size = 3 << 20
	path := filepath.Join(t.TempDir(), "segment")
	full := bytes.Repeat([]byte("tidemark"), size/8)
	for name, send := range map[string]func(w *Writer, f *os.File) error{
		"by sendfile":   func(w *Writer, f *os.File) error { return w.SendFile(f, 0, size) },
		"by the buffer": func(w *Writer, f *os.File) error { return w.SendFile(f, 0, gatherUpTo) },
		"without sendfile": func(w *Writer, f *os.File) error {
			_, err := copyFile(w.conn, gated{f, w.reads}, 0, size)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			g := newCounter(1)
			// The bytes are there once a place was taken, and no sooner.
			g.whenOne = sync.OnceFunc(func() { _, _ = f.WriteAt(full, 0) })
			w, got := pipeTo(t)
			w.reads = g
			require.NoError(t, send(w, f))
			require.NoError(t, w.flush())
			require.NoError(t, w.conn.Close())
			b := <-got
			require.True(t, bytes.Equal(full[:len(b)], b), "read before there was a place")
			require.NotEmpty(t, b)
			require.Zero(t, g.now, "a place was not given back")
			require.GreaterOrEqual(t, g.reads, (len(b)+writeStep-1)/writeStep)
		})
	}
}

// A hundred connections get large answers by way of two places, while twenty peers that read nothing keep none of them.
func TestP4_ManyReadersTakeTurnsAtTheDisk(t *testing.T) {
	const size, readers = 1 << 20, 100
	path := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	g := newCounter(2)
	h := start(t, Options{Reads: g}, func(context.Context, *Conn, *Request) Reply {
		return RespondBody(&countedBody{size: size, write: func(w *Writer) error { return w.SendFile(f, 0, size) }})
	})
	for range 20 { // their sockets are full, and so they stay
		deaf := h.dial()
		for range 20 {
			_, err := deaf.Send(metadata(1))
			require.NoError(t, err)
		}
	}
	var all sync.WaitGroup
	for range readers {
		c := h.dial()
		all.Go(func() {
			if err := c.SendRaw(c.Frame(metadata(1))); err != nil {
				t.Error(err)
			}
			if n, err := io.CopyN(io.Discard, c.Conn(), size); n < size {
				t.Error(n, err)
			}
		})
	}
	all.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.GreaterOrEqual(t, g.reads, readers)
}
