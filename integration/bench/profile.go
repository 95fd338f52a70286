package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// profile takes a CPU profile of each Tidemark broker over the counted time of a run, if asked; stop waits for it.
func (p *peer) profile(s settings, r row) (stop func()) {
	if s.Profile == "" {
		return func() {}
	}
	var all sync.WaitGroup
	for n, http := range p.http {
		all.Go(func() { fetchProfile(s, r, http, n+1) })
	}
	return all.Wait
}

func fetchProfile(s settings, r row, broker string, n int) {
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", broker, max(1, int(s.Seconds)))
	resp, err := http.Get(url)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	name := strings.NewReplacer(" ", "_", ",", "", "%", "").Replace(r.Name)
	f, err := os.Create(filepath.Join(s.Profile, fmt.Sprintf("%s-%d.pprof", name, n)))
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.Copy(f, resp.Body)
}
