package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	s, err := load()
	if err != nil {
		return err
	}
	own := s.Dir == ""
	if own {
		if s.Dir, err = os.MkdirTemp("", "tidemark-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.Dir)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	b, err := prepare(s)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.all(ctx); err != nil {
		return err
	}
	return b.report.write(s.Out)
}
