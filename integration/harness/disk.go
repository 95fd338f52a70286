package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// OnSmallDisk runs body in a process of its own, with a file system of so many MiB that nobody else sees mounted on a
// folder.
func OnSmallDisk(t *testing.T, mib int, body func(dir string)) {
	t.Helper()
	const inside = "TIDEMARK_TEST_MOUNTS"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(inside) == t.Name() {
		dir := filepath.Join(t.TempDir(), "disk")
		must(os.Mkdir(dir, 0o777))
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)))
		t.Cleanup(func() { must(unix.Unmount(dir, unix.MNT_DETACH)) })
		body(dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), BinaryVariable+"="+Binary(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

// FreeOn is how many bytes are free on the disk of a folder.
func FreeOn(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}
