package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tidemark/broker/config"
	"tidemark/broker/handler"
)

// page is one generated file and the function that writes it.
type page struct {
	path  string // below docs/
	write func(io.Writer) error
}

// pages are all generated files: a package that owns a table adds its page here.
var pages = []page{
	{"config.md", config.WriteMarkdown},
	{"topic-configs.md", config.WriteTopicMarkdown},
	{"api.md", handler.WriteMarkdown},
	{"metrics.md", writeMetrics},
}

// stale renders every page and returns those that differ from what the folder holds.
func stale(docs string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, p := range pages {
		var b bytes.Buffer
		if err := p.write(&b); err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
		have, err := os.ReadFile(filepath.Join(docs, p.path))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if !bytes.Equal(have, b.Bytes()) {
			out[p.path] = b.Bytes()
		}
	}
	return out, nil
}
