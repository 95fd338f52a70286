package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"tidemark/integration/netproxy"
)

// fault hurts the cluster, waits, and undoes it.
type fault struct {
	name string
	// run does it to broker victim for about as long as span.
	run func(c *cluster, victim *member, span time.Duration)
	// alone faults need all replicas in sync before and after them.
	alone bool
}

// drop holds all bytes, as a firewall that drops packets.
var drop = netproxy.Rule{Hold: true}

func (c *cluster) other(m *member) *member { return c.members[m.id%len(c.members)] }

// faults are what TestChaos picks from.
var faults = []fault{
	{name: "SIGKILL", run: func(c *cluster, v *member, span time.Duration) {
		v.kill()
		c.during(span / 4)
		v.revive()
	}},
	{name: "SIGKILL of two", run: func(c *cluster, v *member, span time.Duration) {
		v.kill()
		c.other(v).kill()
		c.during(span / 4)
		v.revive()
		c.other(v).revive()
	}},
	{name: "SIGTERM", run: func(c *cluster, v *member, _ time.Duration) {
		serves := live(v) == nil // before that a signal may find no handler yet, and end it as SIGKILL does
		v.down = true
		if code := v.Term(); code != 0 && serves {
			c.t.Errorf("broker %d ended with code %d on SIGTERM", v.id, code)
		}
		v.revive()
	}},
	{name: "SIGSTOP", run: func(c *cluster, v *member, span time.Duration) {
		v.freeze()
		c.during(span)
		v.thaw()
	}},
	{name: "no way between it and another broker", run: func(c *cluster, v *member, span time.Duration) {
		c.sever(v.id, c.other(v).id, drop)
		c.during(span)
		c.sever(v.id, c.other(v).id, netproxy.Rule{})
	}},
	{name: "no way from it to a leader", run: func(c *cluster, v *member, span time.Duration) {
		c.other(v).peers.Set(fmt.Sprint(v.id), netproxy.Rule{Cut: true})
		c.during(span)
		c.other(v).peers.Heal()
	}},
	{name: "no way between it and all other brokers", run: func(c *cluster, v *member, span time.Duration) {
		c.isolate(v.id, drop)
		c.during(span)
		c.isolate(v.id, netproxy.Rule{})
	}},
	{name: "no way to Postgres", run: func(c *cluster, v *member, span time.Duration) {
		v.catalog.Freeze()
		c.during(span)
		v.catalog.Thaw()
	}},
	{name: "no way to Postgres and other brokers", run: func(c *cluster, v *member, span time.Duration) {
		v.catalog.Freeze()
		c.isolate(v.id, drop)
		c.during(span)
		v.catalog.Thaw()
		c.isolate(v.id, netproxy.Rule{})
	}},
	{name: "connections to Postgres reset", run: func(c *cluster, v *member, _ time.Duration) { v.catalog.Reset() }},
	{name: "answers of COMMIT lost", run: func(c *cluster, v *member, span time.Duration) {
		v.catalog.LoseReplies(3)
		c.during(span / 2)
		v.catalog.LoseReplies(0)
	}},
	{name: "COMMITs lost", run: func(c *cluster, v *member, span time.Duration) {
		v.catalog.LoseRequests(3)
		c.during(span / 2)
		v.catalog.LoseRequests(0)
	}},
	{name: "no way to the bucket", run: func(c *cluster, v *member, span time.Duration) {
		v.bucket.Set(netproxy.Everyone, drop)
		c.during(span)
		v.bucket.Heal()
	}},
	{name: "clients cut off", run: func(c *cluster, v *member, span time.Duration) {
		v.clients.Set(netproxy.Everyone, netproxy.Rule{Cut: true})
		c.during(span)
		v.clients.Heal()
	}},
	{name: "slow ways", run: func(c *cluster, v *member, span time.Duration) {
		slow := netproxy.Rule{Delay: 40 * time.Millisecond}
		v.clients.Set(netproxy.Everyone, slow)
		v.bucket.Set(netproxy.Everyone, slow)
		c.isolate(v.id, slow)
		c.during(span)
		c.heal()
	}},
	{name: "Postgres killed", run: func(c *cluster, _ *member, span time.Duration) {
		c.postgres.Kill(c.t)
		c.during(span)
		c.postgres.Start(c.t)
	}},
	{name: "disk wiped", alone: true, run: func(c *cluster, v *member, _ time.Duration) {
		v.kill()
		v.Wipe()
		v.revive()
	}},
}

// torment does faults to brokers by chance for so long and says each.
func (w *workload) torment(rng *rand.Rand, span time.Duration) {
	c := w.c
	c.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); {
		f, v := faults[rng.IntN(len(faults))], c.members[rng.IntN(len(c.members))]
		if f.alone {
			c.until(recovery, "all replicas are in sync before "+f.name, func() error { return c.full(w.topic) })
		}
		w.h.Silence(time.Now())
		began := time.Now()
		f.run(c, v, time.Duration(1500+rng.IntN(4500))*time.Millisecond)
		took := time.Since(began)
		if f.alone {
			c.until(recovery, "all replicas are in sync after "+f.name, func() error { return c.full(w.topic) })
		} else {
			c.during(time.Duration(rng.IntN(2500)) * time.Millisecond)
		}
		c.t.Logf("%-40s broker %d, %4.1f s; longest silence of a partition %4.1f s", f.name, v.id, took.Seconds(), w.h.Silence(time.Now()).Seconds())
	}
}
