package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startDeadline is how long a server may take to answer for the first time; generous because CI machines are shared.
const startDeadline = 60 * time.Second

// keeper starts its arguments, writes the pid to $1 and, when stdin ends (the test process closed it or died), sends
// the signal $2, waits, and removes the folder $3 if it is not empty text.
const keeper = `trap '' INT TERM HUP
pidfile=$1 sig=$2 dir=$3; shift 3
"$@" </dev/null & pid=$!
echo $pid >"$pidfile.new" && mv "$pidfile.new" "$pidfile"
while read -r line; do [ "$line" = keep ] && dir=; done
kill -"$sig" $pid 2>/dev/null
wait $pid
[ -z "$dir" ] || rm -rf "$dir"
`

// process is one server under its keeper. Not safe for concurrent use.
type process struct {
	cmd  *exec.Cmd
	pipe *os.File // closing it stops the server
	dir  string
	pid  int
}

// processSpec says what to run: args with env in dir, stopped with signal; cred is nil for the caller's own user.
type processSpec struct {
	dir    string
	signal string
	args   []string
	env    []string
	cred   *syscall.Credential
}

func startProcess(s processSpec) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	logFile, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.Close()
		return nil, err
	}
	defer logFile.Close()
	pidFile := filepath.Join(s.dir, "server.pid")
	_ = os.Remove(pidFile)
	argv := append([]string{"-c", keeper, "keeper", pidFile, s.signal, s.dir}, s.args...)
	cmd := exec.Command("/bin/sh", argv...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, logFile, logFile
	// A group of its own, so that Ctrl-C at the terminal reaches the test process first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.cred}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	p := &process{cmd: cmd, pipe: w, dir: s.dir}
	err = await(startDeadline, func() error {
		b, err := os.ReadFile(pidFile)
		if err != nil {
			return err
		}
		p.pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err
	})
	if err != nil {
		p.stop(false)
		return nil, fmt.Errorf("start %s: %w", s.args[0], err)
	}
	return p, nil
}

// alive says whether the server itself (not only its keeper) still runs.
func (p *process) alive() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		// No /proc on this system: signal 0 is the next best answer.
		return !os.IsNotExist(err) || syscall.Kill(p.pid, 0) == nil && !dirExists("/proc/self")
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

func dirExists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// stop ends the server and waits for it; keepDir leaves its folder for a later start.
func (p *process) stop(keepDir bool) {
	if p.pipe == nil {
		return
	}
	if keepDir {
		_, _ = p.pipe.WriteString("keep\n")
	}
	_ = p.pipe.Close()
	p.pipe = nil
	_ = p.cmd.Wait()
}

// kill ends the server with SIGKILL, keeps its folder, and waits.
func (p *process) kill() {
	if p.pid > 0 {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	p.stop(true)
}

// logTail is the end of what the server printed, for failure messages.
func (p *process) logTail() string {
	b, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return string(b)
}

// await calls ready until it returns nil or the deadline has passed, and returns its last error.
func await(deadline time.Duration, ready func() error) error {
	end := time.Now().Add(deadline)
	for {
		err := ready()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
