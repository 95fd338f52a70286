package cleaning

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/compaction"
	"tidemark/record"
)

// runs is how many random stories are told: 300, or as TIDEMARK_COMPACTION_RUNS says.
func runs(t *testing.T) {
	n := os.Getenv("TIDEMARK_COMPACTION_RUNS")
	if n == "" {
		n = "300"
	}
	if testing.Short() {
		n = "50"
	}
	require.NoError(t, flag.Set("rapid.checks", n))
	require.NoError(t, flag.Set("rapid.steps", "60"))
}

// Whatever is written, in whatever transactions, however it is cut, under whatever settings, and wherever the
// worker dies: whoever reads from the start sees the latest committed value of every key (cases.md, C), each record
// as it was produced, in order, to the end; so does a slow reader that is through within delete.retention.ms.
func TestModelOfCompaction(t *testing.T) {
	runs(t)
	s := newSea(t)
	rapid.Check(t, func(t *rapid.T) {
		i := s.island(t)
		p := &i.policy
		p.MinDirtyRatio = rapid.SampledFrom([]float64{0, 0, 0.01, 0.5, 0.9}).Draw(t, "dirty ratio")
		p.MinLagMs = rapid.SampledFrom([]int64{0, 0, 40}).Draw(t, "min lag")
		p.MaxLagMs = rapid.SampledFrom([]int64{60, compaction.Never}).Draw(t, "max lag")
		p.DeleteRetentionMs = rapid.SampledFrom([]int64{0, 50, 150}).Draw(t, "delete retention")
		p.ObjectBytes = rapid.SampledFrom([]int64{300, 2000, 1 << 20}).Draw(t, "object bytes")
		i.memory = rapid.SampledFrom([]int64{1, 40 << 10, 1 << 20}).Draw(t, "memory")
		i.samples = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "samples")
		i.digests = rapid.IntRange(0, 5).Draw(t, "was a topic that deletes") > 0
		i.live()
		keys := rapid.SampledFrom([]int{3, 6, 60}).Draw(t, "keys") - 1
		var slow []*reader
		open := map[int64]bool{}
		kvs := func() (out []string) {
			n := rapid.SampledFrom([]int{1, 2, 3, 30}).Draw(t, "records")
			first, tombs := rapid.IntRange(0, keys).Draw(t, "first key"), rapid.IntRange(0, 3).Draw(t, "tombstones")
			for k := range n {
				kv := fmt.Sprintf("k%d", (first+k)%(keys+1))
				if tombs > 0 && (k+tombs)%4 > 0 {
					kv += fmt.Sprintf("=%d", i.next)
				}
				out = append(out, kv)
			}
			return out
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"write": func(t *rapid.T) {
				i.write(record.BuilderOptions{Codec: rapid.SampledFrom([]record.Codec{record.CodecNone, record.CodecLZ4, record.CodecZstd}).Draw(t, "codec")}, kvs()...)
			},
			"write in a transaction": func(t *rapid.T) {
				id := rapid.Int64Range(1, 3).Draw(t, "producer")
				i.in(id, kvs()...)
				open[id] = true
			},
			"end a transaction": func(t *rapid.T) {
				id := rapid.Int64Range(1, 3).Draw(t, "producer")
				if !open[id] {
					t.Skip("none is open")
				}
				delete(open, id)
				i.ends(id, rapid.SampledFrom([]record.ControlType{record.ControlAbort, record.ControlCommit}).Draw(t, "how"))
			},
			"seal": func(t *rapid.T) { i.seal(); i.upload() },
			"seal what is new": func(t *rapid.T) {
				i.put(kvs()...)
				i.seal()
				i.upload()
			},
			"time": func(t *rapid.T) { i.now += rapid.SampledFrom([]int64{1, 5, 20, 60}).Draw(t, "ms") },
			"a slow reader begins": func(t *rapid.T) {
				if len(slow) < 3 {
					slow = append(slow, i.reader())
				}
			},
			"slow readers read": func(t *rapid.T) {
				for _, r := range slow {
					if r.at < i.tiered {
						r.read(i.batches(r.at), rapid.IntRange(1, 4).Draw(t, "batches"))
					}
				}
				slow = ended(slow)
			},
			"compact": func(t *rapid.T) {
				i.seal()
				i.upload()
				i.own.left, i.own.after = rapid.IntRange(-1, 40).Draw(t, "dies after"), rapid.Bool().Draw(t, "with effect")
				err := i.pass()
				if err != nil {
					require.True(t, i.own.dead, "the pass failed by itself: %v", err)
				}
				if i.own.dead {
					i.live()
				}
				i.own.left = -1
				i.sound()
			},
		})
		i.finish(t)
	})
}

// ended takes out the readers that are through, after comparing what they found.
func ended(rs []*reader) (left []*reader) {
	for _, r := range rs {
		if r.at < r.i.tiered {
			left = append(left, r)
			continue
		}
		if r.i.now-r.began <= r.i.policy.DeleteRetentionMs {
			delete(r.state, "")
			require.Equal(r.i.t, r.i.latest(r.at), r.state, "a reader from %d to %d", r.began, r.i.now)
		}
	}
	return left
}

// noMarkerIsLeftAlone: a commit marker is there only while a record of its transaction is (C1).
func (i *island) noMarkerIsLeftAlone() {
	i.t.Helper()
	records := map[int64]bool{}
	for _, b := range i.batches(0) {
		switch id := b.h.ProducerID; {
		case !b.h.IsTransactional() || b.h.Count == 0:
		case !b.h.IsControl():
			records[id] = true
		default:
			kind, _, err := record.ParseControl(b.raw)
			require.NoError(i.t, err)
			require.True(i.t, records[id] || kind == record.ControlAbort, "the commit marker of %d at %d has no records", id, b.h.BaseOffset)
			delete(records, id)
		}
	}
}

// finish lets everything become due that can: in the end no tombstone is left and no marker without records, and a
// pass does nothing. Where every loss counted, nothing is left but the latest values.
func (i *island) finish(t *rapid.T) {
	for id := int64(1); id <= 3; id++ {
		if _, _, open := i.state.OpenTransaction(id); open {
			i.aborts(id)
		}
	}
	i.seal()
	i.upload()
	strict := i.policy.MinDirtyRatio == 0
	i.now += 1000
	i.object("last=1")
	for range 8 {
		i.now += 1000
		require.NoError(t, i.pass())
		i.sound()
	}
	for _, b := range i.batches(0) {
		for x, err := range record.Records(b.raw, nil) {
			require.NoError(t, err)
			require.False(t, !b.h.IsControl() && x.Value == nil, "a tombstone of %s is left at %d", x.Key, x.Offset)
		}
	}
	i.noMarkerIsLeftAlone()
	r := i.sound()
	if strict {
		require.Equal(t, len(i.latest(i.tiered)), r.records, "only the latest values are there")
	}
	i.own.ops = 0
	i.now += 1000
	require.NoError(t, i.pass())
	require.Zero(t, i.own.ops, "a pass with nothing to do does nothing (A6)")
}
