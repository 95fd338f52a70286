package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres gives the DSN (a postgres:// URL) of an empty database that is dropped when the test ends. The server is
// TEST_PG_DSN's, or one that this test process shares.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	admin := os.Getenv("TEST_PG_DSN")
	if admin == "" {
		pg, err := sharedPostgres()
		if err != nil {
			t.Fatal(err)
		}
		admin = pg.adminDSN()
	}
	return newDatabase(t, admin)
}

// PostgresServer is a Postgres of one test's own, for tests that stop it. Not safe for concurrent use.
type PostgresServer struct {
	proc *process
	bin  string // folder of initdb and postgres
	dir  string
	port int
	cred *syscall.Credential
}

// StartPostgres starts a Postgres that only this test uses; it is stopped and removed when the test ends.
func StartPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	pg, err := newPostgres()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pg.remove)
	return pg
}

// DSN gives the URL of a new empty database on this server; it stays valid across Stop and Start.
func (pg *PostgresServer) DSN(t testing.TB) string {
	t.Helper()
	return newDatabase(t, pg.adminDSN())
}

// Addr is the server's host:port, the same after every Start; for proxies.
func (pg *PostgresServer) Addr() string { return "127.0.0.1:" + strconv.Itoa(pg.port) }

// Stop shuts the server down cleanly (connections are cut) and keeps its data.
func (pg *PostgresServer) Stop(t testing.TB) {
	t.Helper()
	pg.proc.stop(true)
}

// Kill ends the postmaster with SIGKILL, as a crash does, and keeps the data.
func (pg *PostgresServer) Kill(t testing.TB) {
	t.Helper()
	pg.proc.kill()
}

// Start starts the server again after Stop or Kill, on the same port with the same data.
func (pg *PostgresServer) Start(t testing.TB) {
	t.Helper()
	// After Kill the children of the old postmaster hold its shared memory for a moment, and a start is refused.
	if err := await(startDeadline, pg.start); err != nil {
		t.Fatal(err)
	}
}

func (pg *PostgresServer) adminDSN() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", pg.Addr())
}

var shared struct {
	mu     sync.Mutex
	pg     *PostgresServer
	pgErr  error
	pgDone bool
	s3     *S3Instance
	s3Err  error
	s3Done bool
}

// sharedPostgres starts the process's server once; a failure is remembered, so that it costs its deadline once.
func sharedPostgres() (*PostgresServer, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.pgDone {
		shared.pg, shared.pgErr = newPostgres()
		shared.pgDone = true
	}
	return shared.pg, shared.pgErr
}

func newPostgres() (*PostgresServer, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	cred, err := postgresUser()
	if err != nil {
		return nil, err
	}
	// Not t.TempDir(): its 0700 parent belongs to the caller and the server may run as another user.
	dir, err := os.MkdirTemp("", "tidemark-pg-")
	if err != nil {
		return nil, err
	}
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"),
		"-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
	initdb.Dir = dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if out, err := initdb.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	pg := &PostgresServer{bin: bin, dir: dir, cred: cred}
	// Between the choice of a free port and the bind somebody else may take it: then try another.
	for range 5 {
		if pg.port, err = FreePort(); err != nil {
			break
		}
		if err = pg.start(); err == nil {
			return pg, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

// start runs postgres and waits until it answers. fsync is off: these servers survive a killed process, not a power cut.
func (pg *PostgresServer) start() error {
	proc, err := startProcess(processSpec{
		dir: pg.dir, signal: "INT", cred: pg.cred,
		args: []string{filepath.Join(pg.bin, "postgres"), "-D", filepath.Join(pg.dir, "data"),
			"-c", "listen_addresses=127.0.0.1", "-p", strconv.Itoa(pg.port), "-c", "unix_socket_directories=" + pg.dir,
			"-c", "fsync=off", "-c", "max_connections=300", "-c", "shared_buffers=32MB"},
	})
	if err != nil {
		return err
	}
	pg.proc = proc
	err = await(startDeadline, func() error {
		if !proc.alive() {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, pg.adminDSN())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err == nil && !proc.alive() {
		err = errors.New("it ended")
	}
	if err != nil {
		err = fmt.Errorf("postgres on port %d: %w; its log: %s", pg.port, err, proc.logTail())
		proc.stop(true)
	}
	return err
}

func (pg *PostgresServer) remove() {
	pg.proc.stop(false)
	_ = os.RemoveAll(pg.dir)
}

func newDatabase(t testing.TB, adminDSN string) string {
	t.Helper()
	name := "tm_" + randomName()
	exec := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, adminDSN)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create database on %s: %v", adminDSN, err)
	}
	// A server that the test stopped takes its databases with it; on a shared one the name is never used again.
	t.Cleanup(func() { _ = exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)") })
	u, err := url.Parse(adminDSN)
	if err != nil || u.Scheme == "" {
		t.Fatalf("TEST_PG_DSN %q must be a postgres:// URL", adminDSN)
	}
	u.Path = "/" + name
	return u.String()
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// postgresBin finds the folder of the newest initdb: Debian keeps it outside PATH.
func postgresBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	sort.Strings(found)
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	return "", errors.New("testenv: no Postgres found (initdb); install it (apt-get install -y postgresql) or set TEST_PG_DSN")
}

// postgresUser is whom the server runs as: nil for the caller, the postgres user when the caller is root, whom initdb
// refuses.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("testenv: Postgres does not run as root and there is no user postgres (%w); create it, run as another user, or set TEST_PG_DSN", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
