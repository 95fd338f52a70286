package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile takes a CPU profile of Tidemark over the counted time of a run, if asked; stop waits for it.
func (p *peer) profile(s settings, r row) (stop func()) {
	if s.Profile == "" || p.http == "" {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", p.http, max(1, int(s.Seconds)))
		resp, err := http.Get(url)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		name := strings.NewReplacer(" ", "_", ",", "", "%", "").Replace(r.Name)
		f, err := os.Create(filepath.Join(s.Profile, name+".pprof"))
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = io.Copy(f, resp.Body)
	}()
	return func() { <-done }
}
