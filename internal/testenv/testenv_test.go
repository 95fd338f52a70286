package testenv

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv("TESTENV_CHILD") != "" {
		childHoldsServers()
	}
	Main(m)
}

func TestPostgresGivesEachCallAnEmptyDatabase(t *testing.T) {
	a, b := Postgres(t), Postgres(t)
	require.NotEqual(t, a, b)
	query(t, a, "CREATE TABLE x (n int)")
	query(t, b, "CREATE TABLE x (n int)")
}

func TestOwnPostgresComesBackOnItsPortWithItsData(t *testing.T) {
	t.Setenv("TEST_PG_DSN", "")
	pg := StartPostgres(t)
	dsn := pg.DSN(t)
	query(t, dsn, "CREATE TABLE kept (n int)")
	pg.Stop(t)
	_, err := net.Dial("tcp", pg.Addr())
	require.Error(t, err)
	pg.Start(t)
	query(t, dsn, "SELECT * FROM kept")
	pg.Kill(t)
	pg.Start(t)
	query(t, dsn, "SELECT * FROM kept")
}

func TestOwnS3ComesBackOnItsPortWithItsBuckets(t *testing.T) {
	require.NotEqual(t, S3(t).Bucket, S3(t).Bucket)
	s := StartS3(t)
	b := s.NewBucket(t)
	s.Kill(t)
	_, err := net.Dial("tcp", s.Addr())
	require.Error(t, err)
	s.Start(t)
	require.DirExists(t, s.Dir()+"/"+b.Bucket)
}

// A test process that is killed leaves neither servers nor folders.
func TestKilledProcessLeavesNoServer(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTENV_CHILD=1")
	in, err := cmd.StdinPipe() // stays open: the child waits for its end
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	f := strings.Fields(line)
	require.Len(t, f, 4)
	require.NoError(t, await(startDeadline, func() error {
		for _, addr := range f[:2] {
			if c, err := net.Dial("tcp", addr); err == nil {
				c.Close()
				return fmt.Errorf("%s still answers", addr)
			}
		}
		for _, dir := range f[2:] {
			if dirExists(dir) {
				return fmt.Errorf("%s is still there", dir)
			}
		}
		return nil
	}))
}

func childHoldsServers() {
	pg, err := newPostgres()
	if err != nil {
		panic(err)
	}
	s, err := newS3()
	if err != nil {
		panic(err)
	}
	fmt.Println(pg.Addr(), s.Addr(), pg.dir, s.dir)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
}

func query(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, err)
}
