package handler

import (
	"sync"

	"tidemark/broker/partition"
	"tidemark/tiering"
)

// coldWaits wakes a fetch when one of its downloads is done.
type coldWaits struct {
	w       *partition.Waiter
	ended   chan struct{}
	wait    sync.WaitGroup
	started map[*tiering.Pending]bool
}

func newColdWaits(w *partition.Waiter) *coldWaits {
	return &coldWaits{w: w, ended: make(chan struct{}), started: map[*tiering.Pending]bool{}}
}

// add watches a download; nil and known ones are passed over.
func (c *coldWaits) add(p *tiering.Pending) {
	if p == nil || c.started[p] {
		return
	}
	c.started[p] = true
	c.wait.Go(func() {
		select {
		case <-p.Done():
			c.w.Wake()
		case <-c.ended:
		}
	})
}

// stop ends the watching; the downloads go on.
func (c *coldWaits) stop() {
	close(c.ended)
	c.wait.Wait()
}
