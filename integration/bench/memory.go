package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
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

// touchKeep is how much free memory touch leaves alone, for whatever else the machine does.
const touchKeep = 1 << 30

// touch writes once to every page of memory that is free, and gives it back.
func touch(s settings) error {
	n := s.TouchBytes
	if n < 0 {
		n = min(meminfo("MemFree")-touchKeep, 16e9)
	}
	if n <= 0 {
		return nil
	}
	pages, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	for at := 0; at < len(pages); at += os.Getpagesize() {
		pages[at] = 1
	}
	return os.NewSyscallError("munmap", syscall.Munmap(pages))
}
