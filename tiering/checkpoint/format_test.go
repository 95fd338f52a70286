package checkpoint

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/object"
)

var update = flag.Bool("update", false, "write the golden file of this version again")

var (
	cluster = catalog.UUID{1, 2, 3}
	topic   = catalog.TopicID{9, 8, 7}
)

// row is a live row of the topic.
func row(id int, base, next record.Offset) catalog.Segment {
	attempt := fmt.Sprintf("%032x", id)
	p := catalog.PartitionID{Topic: topic}
	return catalog.Segment{
		ID: catalog.SegmentID(id), Partition: p, Base: base, Next: next, Bytes: 1000, Records: 10, MinTimestamp: 1, MaxTimestamp: 2, AppendTime: 3,
		Key:          object.Key(object.ID(cluster), object.ID(topic), 0, base, attempt),
		TailPosition: 900, DataBytes: 800, SHA256: sha256.Sum256([]byte(attempt)), LeaderEpoch: 4, Generation: 1, CleanSince: 5, Attempt: attempt,
	}
}

func example() *Checkpoint {
	return &Checkpoint{
		Cluster: cluster, Generation: 3, Number: 77, At: time.UnixMilli(1_700_000_000_000), Position: catalog.Position{Version: 12, Nonce: 34},
		Brokers: []catalog.Broker{{ID: 1, Incarnation: 99, Rack: "r"}},
		Topics: []Topic{{Topic: catalog.Topic{ID: topic, Name: "events", Configs: map[string]string{"retention.ms": "-1"}}, Partitions: []catalog.Partition{{
			ID: catalog.PartitionID{Topic: topic}, Leader: catalog.NoBroker, LeaderEpoch: 6, ISR: []catalog.Member{{Broker: 1, Incarnation: 99}},
			Replicas: []catalog.BrokerID{1, 2}, Bounds: catalog.Bounds{Start: 5, Tiered: 30, TierBytes: 3000},
		}}}},
		Deleted: []Deleted{{catalog.TopicID{5}, time.UnixMilli(1_600_000_000_000)}},
		Offsets: []catalog.CommittedOffset{{Group: "g", Partition: catalog.PartitionID{Topic: topic}, Offset: 20, LeaderEpoch: 4, Metadata: "m",
			CommitTime: time.UnixMilli(1_650_000_000_000)}},
		Parts:      []Part{{Key: partKey(3, 70, 0), Rows: 2, SHA256: make([]byte, 32)}},
		FullNumber: 70, FullAt: time.UnixMilli(1_690_000_000_000), FullRows: 2, Watermark: 41, Content: "0123",
	}
}

const golden = "testdata/checkpoint-v1.golden"

func TestTheGoldenFileOfVersionOneIsRead(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(golden, example().Encode(), 0o644))
	}
	raw, err := os.ReadFile(golden)
	require.NoError(t, err)
	got, err := Decode(raw)
	require.NoError(t, err)
	require.Equal(t, example(), got)
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	got, err := Decode(example().Encode())
	require.NoError(t, err)
	require.Equal(t, example(), got)

	want := []catalog.Segment{row(1, 0, 10), row(2, 10, 20)}
	var rows []catalog.Segment
	require.NoError(t, decodeRows(encodeRows(want), cluster, func(s catalog.Segment) { rows = append(rows, s) }))
	for i := range want {
		want[i].ID = 0 // the next catalog gives its own
	}
	require.Equal(t, want, rows)
}

func TestADamagedCheckpointIsToldFromANewerOne(t *testing.T) {
	raw := example().Encode()
	for _, cut := range []int{0, 5, headerBytes, len(raw) / 2, len(raw) - 1} {
		_, err := Decode(raw[:cut])
		require.ErrorIs(t, err, ErrFormat, "cut at %d", cut)
	}
	for at := range raw {
		bad := append([]byte(nil), raw...)
		bad[at] ^= 0x10
		if got, err := Decode(bad); err == nil { // a bit that zstd does not use
			require.Equal(t, example(), got, "byte %d", at)
		}
	}
	newer := append([]byte(nil), raw...)
	newer[17]++
	_, err := Decode(newer)
	require.ErrorIs(t, err, ErrVersion)
	_, err = Decode(encodeRows(nil))
	require.ErrorIs(t, err, ErrFormat, "a part is no head")
}

// Swaps replace runs of rows by their exact union; what was read before and after some of them gives the
// rows as they are in the end.
func TestLaterRowsReplaceWhatTheyOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live, seen []catalog.Segment
		id := 0
		add := func(base, next record.Offset) catalog.Segment {
			id++
			return row(id, base, next)
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(live) < 2 || rapid.Bool().Draw(t, "append") {
				base := record.Offset(0)
				if len(live) > 0 {
					base = live[len(live)-1].Next
				}
				live = append(live, add(base, base+10))
				seen = append(seen, live[len(live)-1])
				continue
			}
			from := rapid.IntRange(0, len(live)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(live)).Draw(t, "to")
			lo, hi := live[from].Base, live[to-1].Next
			mid := lo + record.Offset(rapid.IntRange(1, int(hi-lo)).Draw(t, "mid"))
			swapped := []catalog.Segment{add(lo, mid)}
			if mid < hi {
				swapped = append(swapped, add(mid, hi))
			}
			live = append(append(append([]catalog.Segment(nil), live[:from]...), swapped...), live[to:]...)
			seen = append(seen, swapped...)
		}
		got := latest(seen)
		if len(got) != len(live) {
			t.Fatalf("%d rows of %d", len(got), len(live))
		}
		for i := range got {
			if got[i].ID != live[i].ID {
				t.Fatalf("row %d is %d, not %d", i, got[i].ID, live[i].ID)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(example().Encode())
	f.Add(encodeRows([]catalog.Segment{row(1, 0, 10)}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := Decode(raw); err == nil {
			if _, err := Decode(c.Encode()); err != nil {
				t.Fatal(err)
			}
		}
		_ = decodeRows(raw, cluster, func(catalog.Segment) {})
	})
}
