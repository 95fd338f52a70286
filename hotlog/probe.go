package hotlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
)

// Probe makes a small synced write to the data directory and returns when it is
// done, or with ctx's error when ctx ends before. A lease is renewed only after a
// Probe that came back (H28). The write of one that did not come back is waited for
// by the next: a hanging disk holds one goroutine, not one per renewal. Not for
// concurrent use.
func (d *DataDir) Probe(ctx context.Context) error {
	d.mu.Lock()
	pending := d.probing
	if pending == nil {
		pending = &probe{done: make(chan struct{})}
		d.probing = pending
		d.probes.Go(func() {
			pending.err = d.writeProbe()
			d.mu.Lock()
			d.probing = nil
			d.mu.Unlock()
			close(pending.done)
		})
	}
	d.mu.Unlock()
	select {
	case <-pending.done:
		return pending.err
	case <-ctx.Done():
		return fmt.Errorf("probe of %s: %w", d.path, ctx.Err())
	}
}

// probe is a write that may still hang in the kernel.
type probe struct {
	done chan struct{}
	err  error
}

func (d *DataDir) writeProbe() error {
	if d.probeFile == nil {
		f, err := d.fs.Open(d.file(probeName), os.O_CREATE|os.O_RDWR)
		if err != nil {
			return fmt.Errorf("probe of %s: %w", d.path, err)
		}
		d.probeFile = f
	}
	now := binary.BigEndian.AppendUint64(nil, uint64(d.wall().UnixNano()))
	if _, err := d.probeFile.WriteAt(now, 0); err != nil {
		return fmt.Errorf("probe of %s: %w", d.path, err)
	}
	if err := d.probeFile.Sync(); err != nil {
		return fmt.Errorf("probe of %s: %w", d.path, err)
	}
	return nil
}
