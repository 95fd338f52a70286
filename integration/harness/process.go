package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is one run of the binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; then code holds
	code int
}

// launch starts the binary; its output goes to out.
func launch(path string, args, env []string, dir string, out io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, dir
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// A group of its own, so that Ctrl-C reaches the test first; it dies with the test process.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "=== pid %d: tidemark %q\n", p.cmd.Process.Pid, args)
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		fmt.Fprintf(out, "=== pid %d ended: %v\n", p.cmd.Process.Pid, p.cmd.ProcessState)
	}()
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends s and, where the process is to end by it, waits for that.
func (p *process) signal(s syscall.Signal, ends bool, limit time.Duration) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !ends {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("pid %d did not end within %v of %v", p.cmd.Process.Pid, limit, s)
	}
}
