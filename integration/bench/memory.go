package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// meminfo is a line of /proc/meminfo in bytes.
func meminfo(name string) int64 {
	b, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name+":" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

const (
	// freeEnough is how much memory ballast leaves free.
	freeEnough = 512 << 20
	// holeSize is that of the ballast's file, which takes no disk.
	holeSize = 1 << 40
)

// ballast fills free memory with page cache that nobody needs, as the memory of a machine in service is full. A broker's
// writes then take pages from there. Free ones may be a virtual machine's loan that it has given back: the first write to
// such a page costs its host more than a broker spends on the record, and it is counted as the broker's.
type ballast struct {
	file *os.File
	at   int64
}

func newBallast(dir string) (*ballast, error) {
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		return nil, err
	}
	return &ballast{file: f}, f.Truncate(holeSize)
}

// fill reads from a hole, which the kernel keeps like any file's pages; twice what is free at most, since others may free
// as fast as it fills.
func (b *ballast) fill() error {
	block := make([]byte, 1<<20)
	for left := 2 * meminfo("MemFree"); left > 0 && meminfo("MemFree") > freeEnough; left -= 64 << 20 {
		for range 64 {
			if _, err := b.file.ReadAt(block, b.at); err != nil {
				return err
			}
			b.at = (b.at + int64(len(block))) % holeSize
		}
	}
	return nil
}
