package postgres

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/internal/testenv"
)

// pooled is a database by way of a pgbouncer in transaction mode, with few connections of its own; the test is skipped where
// there is none.
func pooled(t *testing.T, dsn string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed (Debian: pgbouncer)")
	}
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	port, err := testenv.FreePort()
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir, err := os.MkdirTemp("", "pooler")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
`, u.Hostname(), u.Port(), u.User.Username(), port), 0o644))
	args := []string{"-q", file}
	if os.Getuid() == 0 { // it does not run as root
		require.NoError(t, os.Chmod(dir, 0o755))
		args = append([]string{"-u", "nobody"}, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond, "pgbouncer does not listen")
	u.Host = address
	return u.String()
}

// K4: the whole contract behind a real transaction pooler.
func TestK4_TheContractHoldsBehindPgbouncer(t *testing.T) {
	pooled(t, testenv.Postgres(t)) // or it is skipped once
	catalogtest.Run(t, func(t *testing.T) catalog.Store {
		return openTest(t, pooled(t, testenv.Postgres(t)), Options{Pooler: true})
	})
}
