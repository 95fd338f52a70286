package cache

import (
	"context"
	"testing"
)

// One 1 MiB piece out of a resident 4 MiB chunk: look-up, open, check, read.
func BenchmarkHit1MiB(b *testing.B) {
	c, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := Request{Key: key(1), Size: 4 << 20, Fill: func(context.Context, []byte) error { return nil }}
	buf := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		h, err := c.Get(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.ReadAt(buf, 1<<20); err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

// The same piece checked for sendfile.
func BenchmarkSection1MiB(b *testing.B) {
	c, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := Request{Key: key(1), Size: 4 << 20, Fill: func(context.Context, []byte) error { return nil }}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		h, err := c.Get(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, _, err := h.Section(1<<20, 1<<20); err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

// A download of 4 MiB with nothing behind it: what the cache itself costs.
func BenchmarkMiss4MiB(b *testing.B) {
	c, err := Open(Options{Dir: b.TempDir(), MaxBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(4 << 20)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		h, err := c.Get(context.Background(), Request{Key: Key{Object: "x", Chunk: int64(n)}, Size: 4 << 20,
			Fill: func(context.Context, []byte) error { return nil }})
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}
