package chaos

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

// standby is a second server with what the first one had when it was made.
func (c *cluster) standby() *testenv.PostgresServer {
	c.t.Helper()
	second := testenv.StartPostgres(c.t)
	from, err := url.Parse(c.dsn)
	require.NoError(c.t, err)
	name := strings.TrimPrefix(from.Path, "/")
	to := *from
	to.Host = second.Addr()
	maintenance := to
	maintenance.Path = "/postgres"
	run := func(command string, args ...string) {
		c.t.Helper()
		out, err := exec.CommandContext(c.t.Context(), command, args...).CombinedOutput()
		require.NoError(c.t, err, "%s: %s", command, out)
	}
	dump := c.t.TempDir() + "/dump.sql"
	run("pg_dump", "--file", dump, c.dsn)
	run("psql", "-qc", fmt.Sprintf("CREATE DATABASE %q", name), maintenance.String())
	run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, to.String())
	return second
}

// H2: Postgres is failed over to a standby that lacks the last seconds: elections, changes of in-sync sets, rows of
// segments. The brokers see it, epochs rise above all that were given, no acknowledged record is lost, and no object is
// removed until an operator agrees.
func TestH2_PostgresIsFailedOverWithLostSeconds(t *testing.T) {
	t.Parallel()
	// What the standby lacks must be younger than the delay before local bytes are freed (R5).
	c := startCluster(t, options{env: map[string]string{"TIDEMARK_FREE_DELAY": "1m", "TIDEMARK_GC_GRACE": "2m"}})
	c.create("lost", 4, tiers...)
	w := c.work("lost", 4, usual)
	w.flows(recovery, "a healthy cluster takes records")
	second := c.standby()
	victim := c.leader("lost", 0)
	victim.kill()
	w.flows(recovery, "others lead") // by elections that are lost
	victim.revive()
	c.until(recovery, "all replicas are in sync", func() error { return c.full("lost") })
	was := c.described("lost")
	c.during(3 * time.Second)

	c.postgres.Kill(t)
	for _, m := range c.members {
		m.catalog.Retarget(second.Addr())
		m.catalog.Reset()
	}
	w.h.Silence(time.Now())
	took := c.until(recovery, "every partition is led under an epoch that nobody had", func() error {
		now, err := c.topic("lost")
		for n, p := range now {
			if err == nil && (p.Leader < 0 || p.LeaderEpoch <= was[n].LeaderEpoch) {
				err = fmt.Errorf("lost/%d: leader %d, epoch %d; before the loss %d", n, p.Leader, p.LeaderEpoch, was[n].LeaderEpoch)
			}
		}
		return err
	})
	w.flows(recovery, "produce goes on")
	t.Logf("led under new epochs after %v; longest silence %.1f s", took.Round(time.Millisecond), w.h.Silence(time.Now()).Seconds())
	for _, m := range c.members {
		c.until(recovery, "no broker removes objects", func() error {
			status, body, err := m.Get("/readyz")
			if err == nil && (status != 200 || !strings.Contains(body, "agree-rewound")) {
				err = fmt.Errorf("broker %d: %d %s", m.id, status, body)
			}
			return err
		})
	}
	w.end()
	out, diag, code := c.members[0].Tool("tier", "gc", "--agree-rewound")
	require.Zero(t, code, "%s%s", out, diag)
}
