package chaos

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// sql runs statements in the cluster's database.
func (c *cluster) sql(statements string) {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "psql", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements, c.dsn).CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

// shiftedClock gives the database a clock of its own, in front of the system's: jump sets it.
func (c *cluster) shiftedClock() {
	c.t.Helper()
	dsn, err := url.Parse(c.dsn)
	require.NoError(c.t, err)
	c.sql(fmt.Sprintf(`CREATE SCHEMA jumped; CREATE TABLE jumped.jump (by interval NOT NULL); INSERT INTO jumped.jump VALUES ('0');
		CREATE FUNCTION jumped.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
			AS 'SELECT pg_catalog.clock_timestamp() + by FROM jumped.jump';
		ALTER DATABASE %q SET search_path = public, jumped, pg_catalog`, strings.TrimPrefix(dsn.Path, "/")))
}

func (c *cluster) jump(by string) {
	c.t.Helper()
	c.sql(fmt.Sprintf(`UPDATE jumped.jump SET by = '%s'`, by))
}

// H16: the difference between the brokers' clocks and the database's jumps by an hour, forward, back, and to ten years. No
// lease runs out by it, nobody is elected or leaves an in-sync set, and retention stands still until the clocks agree again.
func TestH16_TheClocksJumpApart(t *testing.T) {
	c := startCluster(t, options{down: true})
	c.shiftedClock()
	for _, m := range c.members {
		m.revive()
	}
	for _, m := range c.members {
		m.AwaitReady()
	}
	c.create("clock", 4, tiers...)
	c.create("short", 1, "retention.ms", "2000", "segment.ms", "500", "remote.storage.enable", "false")
	short := c.client(kgo.DefaultProduceTopic("short"))
	say := func() {
		t.Helper()
		for range 20 {
			require.NoError(t, short.ProduceSync(t.Context(), kgo.StringRecord("short-lived")).FirstErr())
		}
	}
	start := func() (int64, int64) {
		t.Helper()
		starts, err := c.adm.ListStartOffsets(t.Context(), "short")
		require.NoError(t, err)
		ends, err := c.adm.ListEndOffsets(t.Context(), "short")
		require.NoError(t, err)
		return starts["short"][0].Offset, ends["short"][0].Offset
	}
	expired := func(what string) {
		t.Helper()
		c.until(recovery, what, func() error {
			if from, to := start(); from < to {
				return fmt.Errorf("short begins at %d of %d", from, to)
			}
			return nil
		})
	}
	w := c.work("clock", 4, usual)
	w.flows(recovery, "a healthy cluster takes records")
	say()
	expired("records expire while the clocks agree")
	c.spread("clock")
	was := c.described("clock")

	for _, by := range []string{"1 hour", "-1 hour", "10 years"} {
		c.jump(by)
		say()
		from, _ := start()
		harness.Holds(t, 5*time.Second, "nothing expires", func() error {
			c.tend()
			if now, _ := start(); now != from {
				return fmt.Errorf("short began at %d and begins at %d, %s apart", from, now, by)
			}
			return nil
		})
		w.flows(recovery, "produce goes on")
		for n, p := range c.described("clock") {
			require.Equal(t, was[n].LeaderEpoch, p.LeaderEpoch, "partition %d was given another leader, %s apart", n, by)
			require.Len(t, p.ISR, brokers, "partition %d, %s apart", n, by)
		}
	}
	c.jump("0")
	expired("records expire when the clocks agree again")
	for _, m := range c.members {
		require.Zero(t, m.restarts, "broker %d ended", m.id)
	}
	w.end()
}
