package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// servers are the processes of one peer: a broker, or the three of a cluster. They are measured as one.
type servers []*process

// start spawns n processes; if one cannot be spawned, none stays.
func start(n int, one func(i int) (*process, error)) (servers, error) {
	var all servers
	for i := range n {
		p, err := one(i)
		if err != nil {
			all.end(syscall.SIGKILL)
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// end signals all and waits until they are gone.
func (all servers) end(sig syscall.Signal) {
	for _, p := range all {
		_ = p.cmd.Process.Signal(sig)
	}
	for _, p := range all {
		p.end(sig)
	}
}

// ended is one that does not run any more; nil if all do.
func (all servers) ended() *process {
	for _, p := range all {
		select {
		case <-p.done:
			return p
		default:
		}
	}
	return nil
}

// until polls ready often, since start-up is measured by it, as long as all processes live.
func (all servers) until(ctx context.Context, ready func(context.Context) bool) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		ok := ready(attempt)
		cancel()
		if ok {
			return nil
		}
		if p := all.ended(); p != nil {
			return fmt.Errorf("the process has ended: %s", tail(p.log))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %s", ctx.Err(), tail(all[0].log))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// cpu is the processor time that they have used together.
func (all servers) cpu() (time.Duration, error) {
	var sum time.Duration
	var faults []error
	for _, p := range all {
		d, err := p.cpu()
		sum += d
		faults = append(faults, err)
	}
	return sum, errors.Join(faults...)
}

// status is the sum of a number of /proc/PID/status, e.g. VmHWM, in bytes.
func (all servers) status(name string) int64 {
	sum := int64(0)
	for _, p := range all {
		sum += p.status(name)
	}
	return sum
}

// forgetPeak makes the kernel begin VmHWM anew.
func (all servers) forgetPeak() {
	for _, p := range all {
		p.forgetPeak()
	}
}
