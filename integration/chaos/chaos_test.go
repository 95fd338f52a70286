package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// tiers makes a topic roll, tier and free all the time.
var tiers = []string{"segment.bytes", "131072", "local.retention.bytes", "262144", "retention.ms", "-1"}

// F2: everything at once, by chance. TIDEMARK_CHAOS_DURATION is how long it lasts, TIDEMARK_CHAOS_SEED repeats the choice
// of faults, though not what comes of them.
func TestF2_Chaos(t *testing.T) {
	t.Parallel()
	span := setting(t, "TIDEMARK_CHAOS_DURATION", time.Minute)
	seed := seedOf(t)
	t.Logf("TIDEMARK_CHAOS_SEED=%d TIDEMARK_CHAOS_DURATION=%v", seed, span)
	c := startCluster(t, options{})
	c.create("chaos", 4, tiers...)
	w := c.work("chaos", 4, usual)
	w.flows(recovery, "a healthy cluster takes records")
	w.torment(rand.New(rand.NewPCG(seed, 0)), span)
	w.end()
}

// A random broker is killed every five seconds, and started again at once or when it has been missed. What is acknowledged
// stays, once and in order; how long partitions were silent and when a restarted broker was back in every in-sync set is
// said, not asserted.
func TestR17_BrokersAreKilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	span := setting(t, "TIDEMARK_CHAOS_KILLS", 20*time.Second)
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	c := startCluster(t, options{})
	c.create("kills", 4, tiers...)
	w := c.work("kills", 4, usual)
	w.flows(recovery, "a healthy cluster takes records")
	c.spread("kills")
	var silences, backs []time.Duration
	for end := time.Now().Add(span); time.Now().Before(end); {
		next := time.Now().Add(5 * time.Second)
		v := c.members[rng.IntN(len(c.members))]
		w.h.Silence(time.Now())
		v.kill()
		c.during([]time.Duration{500 * time.Millisecond, 4 * time.Second}[len(backs)%2])
		v.revive()
		backs = append(backs, c.until(recovery, "the broker is in sync again", func() error {
			if status, why, err := v.Get("/readyz"); err != nil || status != 200 {
				return fmt.Errorf("not ready: %s %w", why, err)
			}
			return c.inSync("kills", v.id)
		}))
		c.during(max(0, time.Until(next)))
		silences = append(silences, w.h.Silence(time.Now()))
		t.Logf("broker %d: longest silence %.1f s, in sync %.1f s after its start", v.id, silences[len(silences)-1].Seconds(), backs[len(backs)-1].Seconds())
	}
	w.end()
	slices.Sort(silences)
	slices.Sort(backs)
	t.Logf("%d kills: silence median %.1f s, longest %.1f s; in sync again median %.1f s, longest %.1f s", len(silences),
		silences[len(silences)/2].Seconds(), silences[len(silences)-1].Seconds(), backs[len(backs)/2].Seconds(), backs[len(backs)-1].Seconds())
}
