package chaos

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"tidemark/record"
	"tidemark/tiering/objstore/s3"
)

// freed frees from the local disk whatever is tiered, a second after the catalog has shown it.
var freed = []string{"segment.bytes", "131072", "local.retention.bytes", "1", "retention.ms", "-1"}

// shortDelay makes the loss older than the delay before local bytes are freed: no replica has what is lost (H3).
var shortDelay = map[string]string{"TIDEMARK_FREE_DELAY": "1s", "TIDEMARK_GC_GRACE": "8s"}

// tieredOf is the end of each partition's tier, as the leader shows it.
func (c *cluster) tieredOf(topic string, partitions int32) map[int32]record.Offset {
	c.t.Helper()
	out := map[int32]record.Offset{}
	for n := range partitions {
		p, err := c.leader(topic, n).Partition(topic, n)
		require.NoError(c.t, err)
		out[n] = record.Offset(p.Tiered)
	}
	return out
}

// gone waits until every replica has freed its local disk above what the standby knows to be tiered.
func (c *cluster) gone(topic string, known map[int32]record.Offset) {
	c.t.Helper()
	c.until(recovery, "every replica has freed what the standby does not know", func() error {
		for n, tiered := range known {
			for _, m := range c.members {
				p, err := m.Partition(topic, n)
				if err != nil {
					return err
				}
				if record.Offset(p.LocalStart) <= tiered {
					return fmt.Errorf("%s/%d: broker %d has it from %d on, the standby's tier ends at %d", topic, n, m.id, p.LocalStart, tiered)
				}
			}
		}
		return nil
	})
}

// objects are the keys of a topic's rows.
func (c *cluster) objects(topic string, partitions int32) ([]string, error) {
	var keys []string
	for n := range partitions {
		rows, err := c.members[0].Segments(topic, n)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}

// freedObjects are the keys of a topic's rows that no replica's log holds whole. What the leader's log holds, it may upload
// again under another key (R8).
func (c *cluster) freedObjects(topic string, partitions int32) []string {
	c.t.Helper()
	var keys []string
	for n := range partitions {
		held := record.Offset(math.MaxInt64)
		for _, m := range c.members {
			p, err := m.Partition(topic, n)
			require.NoError(c.t, err)
			held = min(held, record.Offset(p.LocalStart))
		}
		rows, err := c.members[0].Segments(topic, n)
		require.NoError(c.t, err)
		for _, r := range rows {
			if r.Base < held {
				keys = append(keys, r.Key)
			}
		}
	}
	require.NotEmpty(c.t, keys)
	return keys
}

// failOver kills Postgres and has all brokers find the standby behind the same address.
func (c *cluster) failOver(w ...*workload) {
	c.t.Helper()
	second := c.second
	c.postgres.Kill(c.t)
	for _, m := range c.members {
		m.catalog.Retarget(second.Addr())
		m.catalog.Reset()
	}
	for _, x := range w {
		x.h.Silence(time.Now())
	}
}

// backAgain waits until rows that were published are live again, by the objects that they had.
func (c *cluster) backAgain(topic string, partitions int32, had []string) {
	c.t.Helper()
	took := c.until(recovery, "what was published is published again", func() error {
		now, err := c.objects(topic, partitions)
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(had), func(key string) bool { return slices.Contains(now, key) })
		if len(missing) > 0 {
			return fmt.Errorf("%s: %d of %d rows are not there, first %s", topic, len(missing), len(had), missing[0])
		}
		return nil
	})
	c.t.Logf("%s: %d rows are there again after %v", topic, len(had), took.Round(time.Millisecond))
}

// agree lets objects be removed again, at the first broker that asks for it.
func (c *cluster) agree() {
	c.t.Helper()
	var asks *member
	c.until(recovery, "a broker has seen that the catalog lost commits", func() error {
		for _, m := range c.members {
			_, body, err := m.Get("/readyz")
			if err != nil {
				return err
			}
			if strings.Contains(body, "agree-rewound") {
				asks = m
				return nil
			}
		}
		return errors.New("none says so")
	})
	out, diag, code := asks.Tool("tier", "gc", "--agree-rewound")
	require.Zero(c.t, code, "%s%s", out, diag)
}

// bucketIsCatalog waits until the bucket holds the objects of the topics' rows and no others.
func (c *cluster) bucketIsCatalog(topics map[string]int32) {
	c.t.Helper()
	u, err := url.Parse(c.bucketURL)
	require.NoError(c.t, err)
	store, err := s3.Open(c.t.Context(), u)
	require.NoError(c.t, err)
	defer func() { _ = store.Close() }()
	c.until(recovery, "the bucket is what the catalog says", func() error {
		var want, have []string
		for topic, partitions := range topics {
			keys, err := c.objects(topic, partitions)
			if err != nil {
				return err
			}
			want = append(want, keys...)
		}
		infos, err := store.List(c.t.Context(), "segments/", "", 100_000)
		if err != nil {
			return err
		}
		for _, i := range infos {
			have = append(have, i.Key)
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			return fmt.Errorf("%d objects, %d rows", len(have), len(want))
		}
		return nil
	})
	out, diag, code := c.members[0].Tool("tier", "verify")
	require.Zero(c.t, code, "%s%s", out, diag)
}

// H2, H3: Postgres is failed over to a standby that lacks the last publishes and a whole topic, after every replica has
// freed what was published. The brokers' own records bring all of it back, by the objects that are in the bucket.
func TestH2_PostgresLosesPublishesAndATopic(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{env: shortDelay})
	c.create("kept", 2, freed...)
	w := c.work("kept", 2, usual)
	w.flows(recovery, "a healthy cluster takes records")
	c.until(recovery, "something is tiered", func() error {
		for n, at := range c.tieredOf("kept", 2) {
			if at == 0 {
				return fmt.Errorf("nothing of kept/%d", n)
			}
		}
		return nil
	})
	c.second = c.standby()
	known := c.tieredOf("kept", 2)
	c.create("made", 2, freed...)
	made := c.work("made", 2, usual)
	made.flows(recovery, "the new topic takes records")
	c.gone("kept", known)
	c.gone("made", map[int32]record.Offset{0: 0, 1: 0})
	was := map[string][]string{}
	for _, topic := range []string{"kept", "made"} {
		was[topic] = c.freedObjects(topic, 2)
	}

	c.failOver(w, made)
	c.backAgain("kept", 2, was["kept"])
	c.backAgain("made", 2, was["made"])
	w.flows(recovery, "produce goes on")
	made.flows(recovery, "produce goes on to the topic that was lost")
	t.Logf("longest silence %.1f s, of the lost topic %.1f s", w.h.Silence(time.Now()).Seconds(), made.h.Silence(time.Now()).Seconds())
	w.end()
	made.end()
	c.agree()
	c.bucketIsCatalog(map[string]int32{"kept": 2, "made": 2})
}

// H3: what is lost is publishes alone, which move no version. The brokers notice by what they have published.
func TestH3_PostgresLosesPublishesOnly(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{env: shortDelay})
	c.create("quiet", 2, freed...)
	w := c.work("quiet", 2, usual)
	w.flows(recovery, "a healthy cluster takes records")
	c.spread("quiet")
	c.second = c.standby()
	c.gone("quiet", c.tieredOf("quiet", 2))
	was := c.freedObjects("quiet", 2)
	c.failOver(w)
	c.backAgain("quiet", 2, was)
	w.flows(recovery, "produce goes on")
	w.end()
	c.agree()
	c.bucketIsCatalog(map[string]int32{"quiet": 2})
}

// bucketHolds counts which of the objects are in the bucket.
func (c *cluster) bucketHolds(keys []string) (held int) {
	c.t.Helper()
	u, err := url.Parse(c.bucketURL)
	require.NoError(c.t, err)
	store, err := s3.Open(c.t.Context(), u)
	require.NoError(c.t, err)
	defer func() { _ = store.Close() }()
	infos, err := store.List(c.t.Context(), "segments/", "", 100_000)
	require.NoError(c.t, err)
	for _, i := range infos {
		if slices.Contains(keys, i.Key) {
			held++
		}
	}
	return held
}

// H3, R8: Postgres is failed over to a standby that lacks compactions, after the objects that they replaced were removed
// and every replica has freed what they hold: the rows that came back name nothing, the swaps are made again. The topic is
// one that begins to compact, so that each object is put anew and no record goes.
func TestH3_PostgresLosesCompactions(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{env: shortDelay})
	c.create("swapped", 2, freed...)
	keyed := usual
	keyed.keyed = true
	w := c.work("swapped", 2, keyed)
	w.flows(recovery, "a healthy cluster takes records")
	c.until(recovery, "something is tiered", func() error {
		for n, at := range c.tieredOf("swapped", 2) {
			if at == 0 {
				return fmt.Errorf("nothing of swapped/%d", n)
			}
		}
		return nil
	})
	known := c.tieredOf("swapped", 2)
	replaced, err := c.objects("swapped", 2)
	require.NoError(t, err)
	c.second = c.standby()
	policy := "compact"
	c.alterTopic(t, "swapped", kadm.AlterConfig{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy})
	c.until(recovery, "what the standby names has been compacted and removed", func() error {
		if held := c.bucketHolds(replaced); held > 0 {
			return fmt.Errorf("%d of %d objects are there", held, len(replaced))
		}
		return nil
	})
	c.gone("swapped", known)
	var was []string
	for n := range int32(2) {
		rows, err := c.leader("swapped", n).Segments("swapped", n)
		require.NoError(t, err)
		for _, r := range rows {
			if r.Base < known[n] {
				require.Positive(t, r.Generation)
				was = append(was, r.Key)
			}
		}
	}

	c.failOver(w)
	c.backAgain("swapped", 2, was)
	w.flows(recovery, "produce goes on")
	w.end()
	c.agree()
	c.bucketIsCatalog(map[string]int32{"swapped": 2})
}
