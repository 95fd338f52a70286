package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
)

// flipByte changes one byte of an object behind everybody's back.
func flipByte(t *testing.T, stores harness.Stores, key string, at int64) {
	t.Helper()
	info, err := stores.Bucket.Stat(t.Context(), key)
	require.NoError(t, err)
	raw := make([]byte, info.Size)
	require.NoError(t, stores.Bucket.ReadRange(t.Context(), key, 0, raw))
	raw[at] ^= 0x20
	require.NoError(t, stores.Bucket.Put(t.Context(), key, objstore.Bytes(raw), objstore.PutOptions{}))
}

// keyAt is the key of the object that holds an offset of partition 0.
func keyAt(t *testing.T, n *harness.Node, topic string, offset int64) string {
	t.Helper()
	segs, err := n.Segments(topic, 0)
	require.NoError(t, err)
	for _, s := range segs {
		if int64(s.Base) <= offset && offset < int64(s.Next) {
			return s.Key
		}
	}
	t.Fatalf("no object of %s holds %d", topic, offset)
	return ""
}

// byHand puts an object that nobody announced beside one of the topic's.
func byHand(t *testing.T, n *harness.Node, stores harness.Stores, topic string) string {
	t.Helper()
	key := keyAt(t, n, topic, 0)
	key = key[:strings.LastIndexByte(key, '/')+1] + strings.Repeat("ab", 16)
	require.NoError(t, stores.Bucket.Put(t.Context(), key, objstore.Bytes([]byte("put by hand")), objstore.PutOptions{}))
	return key
}

// An object is removed, a byte of another flipped, a third one put by hand: verify names each, and reads fail there
// and nowhere else, whatever drives the bucket.
func TestVerifyNamesWhatIsWrongAndReadsFailOnlyThere(t *testing.T) {
	t.Parallel()
	for driver, stores := range map[string]func(*testing.T) harness.Stores{
		"s3":    func(t *testing.T) harness.Stores { return harness.RealStores(t) },
		"minio": func(t *testing.T) harness.Stores { return harness.RealStores(t).ByMinIO() },
		"file":  func(t *testing.T) harness.Stores { return harness.FolderStores(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			damaged(t, stores(t))
		})
	}
}

func damaged(t *testing.T, stores harness.Stores) {
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "v", 61)
	coldTens(t, n, "sound", 21)
	out, diag, code := n.Tool("tier", "verify")
	require.Zero(t, code, "%s%s", out, diag)
	require.Contains(t, out, "No problems")

	lost, bad := keyAt(t, n, "v", 10), keyAt(t, n, "v", 30)
	require.NoError(t, stores.Bucket.Delete(t.Context(), lost))
	flipByte(t, stores, bad, 300)
	stray := byHand(t, n, stores, "v")
	out, diag, code = n.Tool("tier", "verify")
	require.Equal(t, 1, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3, "%s%s", out, diag)
	require.Contains(t, out, "missing: v-0 [10, 20) "+lost)
	require.Contains(t, out, "checksum: v-0 [30, 40) "+bad)
	require.Contains(t, out, "the batch at byte 0")
	require.Contains(t, out, "unknown: "+stray)
	_, _, code = n.Tool("tier", "verify", "sound")
	require.Zero(t, code, "nothing is wrong with the other topic")
	out, _, code = n.Tool("tier", "verify", "v", "--json")
	require.Equal(t, 1, code)
	var last struct{ Done struct{ Problems int } }
	all := strings.Split(strings.TrimSpace(out), "\n")
	require.NoError(t, json.Unmarshal([]byte(all[len(all)-1]), &last))
	require.Equal(t, 3, last.Done.Problems)

	n.Kill()
	n.DropCache()
	n.Start()
	for _, part := range [][2]int{{0, 10}, {20, 30}, {40, 61}} {
		readTens(t, n, "v", part[0], part[1])
	}
	for _, at := range []int64{10, 19, 30} {
		require.Equal(t, kerr.KafkaStorageError.Code, fetchEventually(t, n, "v", at).ErrorCode, "offset %d", at)
	}
	readTens(t, n, "sound", 0, 21)
	_, _, code = n.Tool("tier", "verify", "no-such-topic")
	require.Equal(t, 1, code)
}

// The scrub finds by itself what verify finds, and says so.
func TestTheScrubFindsAFlippedByte(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_SCRUB_INTERVAL": "1s"}})
	coldTens(t, n, "s", 21)
	flipByte(t, stores, keyAt(t, n, "s", 10), 300)
	harness.Until(t, 2*time.Minute, "the scrub finds it", func() error {
		if got := n.Metric("tidemark_scrub_problems"); got != 1 {
			return fmt.Errorf("it knows of %v problems", got)
		}
		return nil
	})
	harness.Until(t, 2*time.Minute, "readyz says it", func() error {
		_, body, err := n.Get("/readyz")
		if err == nil && (!strings.Contains(body, "warning: the scrub found 1 problems") || !strings.Contains(body, "s-0 [10, 20)")) {
			err = errors.New(body)
		}
		return err
	})
}

// D10: what nothing names and is older than a week is removed when an operator says so, and nothing else.
func TestD10_StraysAreRemovedOnDemand(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "g", 61)
	young, old := byHand(t, n, stores, "g"), ""
	old = young[:len(young)-1] + "0"
	require.NoError(t, stores.Bucket.Put(t.Context(), old, objstore.Bytes([]byte("old")), objstore.PutOptions{}))
	weekAgo := time.Now().Add(-8 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(strings.TrimPrefix(stores.ObjectsURL, "file://"), old), weekAgo, weekAgo))

	out, diag, code := n.Tool("tier", "gc", "--dry-run")
	require.Equal(t, 1, code)
	require.Contains(t, out, old)
	require.Contains(t, diag, "nothing names 2 of the 8 objects", "more than a hundredth is unknown")
	_, _, code = n.Tool("tier", "gc")
	require.Equal(t, 1, code)
	out, diag, code = n.Tool("tier", "gc", "--unknown", "50")
	require.Zero(t, code, diag)
	require.Contains(t, out, "1 objects are garbage now")
	harness.Until(t, 2*time.Minute, "it is removed after the grace", func() error {
		_, err := stores.Bucket.Stat(t.Context(), old)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
	_, err := stores.Bucket.Stat(t.Context(), young)
	require.NoError(t, err)
	readTens(t, n, "g", 0, 61)
}

// D11: an empty catalog on a full bucket, and a catalog from before a rebuild: no broker starts, nothing is deleted.
func TestD11_ACatalogThatDoesNotKnowTheBucket(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "d11", 31)
	require.Zero(t, n.Term())
	before, err := checker.Stored(t.Context(), stores.Bucket, "")
	require.NoError(t, err)

	other := stores
	other.CatalogURL = testenv.Postgres(t)
	stranger := harness.Serve(t, other, harness.Options{Down: true})
	stranger.Launch()
	require.Equal(t, 1, stranger.Wait(2*time.Minute))
	require.Contains(t, stranger.Log(), "the bucket belongs to another cluster")

	rebuildInto(t, n, stores, testenv.Postgres(t))
	n.Setenv("TIDEMARK_CATALOG_URL", stores.CatalogURL)
	n.Launch()
	require.Equal(t, 1, n.Wait(2*time.Minute))
	require.Contains(t, n.Log(), "the catalog is older than the bucket")
	after, err := checker.Stored(t.Context(), stores.Bucket, "segments/")
	require.NoError(t, err)
	for key := range before {
		if strings.HasPrefix(key, "segments/") {
			require.Contains(t, after, key)
		}
	}
}

// rebuildInto loses the node's catalog and rebuilds it in another database; the node is down.
func rebuildInto(t *testing.T, n *harness.Node, stores harness.Stores, catalogURL string) (out string) {
	t.Helper()
	out, diag, code := n.ToolWith([]string{"TIDEMARK_CATALOG_URL=" + catalogURL, "TIDEMARK_OBJECT_STORE_URL=" + stores.ObjectsURL}, "tier", "rebuild")
	require.Zero(t, code, diag)
	n.Setenv("TIDEMARK_CATALOG_URL", catalogURL)
	return out
}

// tieredWorld is two topics and a group on a node whose checkpoints come every second.
func tieredWorld(t *testing.T, stores harness.Stores) *harness.Node {
	t.Helper()
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_CHECKPOINT_INTERVAL": "1s"}})
	tens(t, n, "rebuilt", 3, "local.retention.bytes", "1")
	coldTens(t, n, "other", 31)
	produceTens(t, n, "rebuilt", 0, 55)
	awaitCold(t, n, "rebuilt", 50)
	low, err := deleteRecords(t, n, "rebuilt", 15)
	require.NoError(t, err)
	require.EqualValues(t, 15, low)
	offsets := make(kadm.Offsets)
	offsets.AddOffset("rebuilt", 0, 42, -1)
	require.NoError(t, kadm.NewClient(n.Client(t)).CommitAllOffsets(within(t, time.Minute), "readers", offsets))
	n.CreateTopic(t, "short-lived", 1)
	n.DeleteTopic(t, "short-lived")
	checkpointed(t, n, "other")
	return n
}

// checkpointed waits until a checkpoint has all that the catalog has now. One that is under way may lack it, and none is
// written where nothing has changed: a setting of a topic changes twice.
func checkpointed(t *testing.T, n *harness.Node, topic string) {
	t.Helper()
	for i := range 2 {
		at := n.Metric("tidemark_checkpoints_total")
		n.AlterTopic(t, topic, "index.interval.bytes", fmt.Sprint(5000+i))
		harness.Until(t, 2*time.Minute, "a checkpoint is written", func() error {
			if n.Metric("tidemark_checkpoints_total") <= at {
				return errors.New("none since")
			}
			return nil
		})
	}
}

func committed(t *testing.T, n *harness.Node) int64 {
	t.Helper()
	got, err := kadm.NewClient(n.Client(t)).FetchOffsets(within(t, time.Minute), "readers")
	require.NoError(t, err)
	o, _ := got.Lookup("rebuilt", 0)
	return o.At
}

// The catalog is dropped: rebuild brings back topics, configs, offsets and every tiered record; with the disk of the
// broker, what was not tiered too.
func TestH21_TheCatalogIsRebuiltFromTheBucket(t *testing.T) {
	t.Parallel()
	for _, disk := range []string{"with its disk", "with an empty disk"} {
		t.Run(disk, func(t *testing.T) {
			t.Parallel()
			stores := harness.RealStores(t)
			n := tieredWorld(t, stores)
			n.Kill()
			if disk != "with its disk" {
				n.Wipe()
			}
			out := rebuildInto(t, n, stores, testenv.Postgres(t))
			require.Contains(t, out, "2 topics, 4 partitions")
			require.Contains(t, out, "1 committed offset")
			n.DropCache()
			n.Start()
			names, err := n.Topics()
			require.NoError(t, err)
			require.Len(t, names, 2, "a deleted topic is not revived")
			require.Equal(t, "1", names[1].Configs["local.retention.bytes"])
			require.EqualValues(t, 15, n.Offset(t, "rebuilt", 0, harness.Start))
			require.EqualValues(t, 42, committed(t, n))
			end := 50
			if disk == "with its disk" {
				end = 55
			}
			readTens(t, n, "rebuilt", 15, end)
			readTens(t, n, "other", 0, 30)
			produceTens(t, n, "rebuilt", end, end+12)
			readTens(t, n, "rebuilt", 15, end+12)
			tiered(t, n, "rebuilt", 59)
			report, diag, code := n.Tool("tier", "verify", "rebuilt")
			if code != 0 { // what lies below the log start got no row
				for _, line := range strings.Split(strings.TrimSpace(report), "\n") {
					require.True(t, strings.HasPrefix(line, "unknown: "), "%s%s", report, diag)
				}
			}
		})
	}
}

// Without any checkpoint the footers of the objects are enough for the records.
func TestH21_RebuildWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := tieredWorld(t, stores)
	n.Kill()
	all, err := checker.Stored(t.Context(), stores.Bucket, "checkpoints/")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for key := range all {
		require.NoError(t, stores.Bucket.Delete(t.Context(), key))
	}
	out := rebuildInto(t, n, stores, testenv.Postgres(t))
	require.Contains(t, out, `topic "rebuilt" was made from its objects`)
	n.Wipe()
	n.Start()
	names, err := n.Topics()
	require.NoError(t, err)
	require.Len(t, names, 2)
	require.Equal(t, "-1", names[1].Configs["retention.ms"])
	readTens(t, n, "other", 0, 30)
	first := n.Offset(t, "rebuilt", 0, harness.Start)
	require.LessOrEqual(t, first, int64(15), "a log start that DeleteRecords moved is not in the objects")
	readTens(t, n, "rebuilt", int(first), 50)
}

// The catalog is restored from a backup that lacks the last changes: nothing is removed until an operator agrees.
func TestH2_ACatalogFromABackupRemovesNothing(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_CHECKPOINT_INTERVAL": "1s"}})
	coldTens(t, n, "kept", 31)
	require.Zero(t, n.Term())
	db := strings.TrimPrefix(stores.CatalogURL, "sqlite://")
	backup, err := os.ReadFile(db)
	require.NoError(t, err)
	n.Start()
	n.CreateTopic(t, "young", 1)
	checkpointed(t, n, "young")
	require.Zero(t, n.Term())
	require.NoError(t, os.WriteFile(db, backup, 0o644))
	_ = os.Remove(db + "-wal")
	_ = os.Remove(db + "-shm")
	n.Start()
	harness.Until(t, 2*time.Minute, "it is found out", func() error {
		_, body, err := n.Get("/readyz")
		if err == nil && !strings.Contains(body, "nothing is removed from the bucket until an operator agrees") {
			err = errors.New(body)
		}
		return err
	})
	n.DeleteTopic(t, "kept")
	_, diag, code := n.Tool("tier", "gc", "--unknown", "100")
	require.Equal(t, 1, code)
	require.Contains(t, diag, "refused")
	keys := func() int {
		all, err := checker.Stored(t.Context(), stores.Bucket, "segments/")
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, 3, keys())
	harness.Holds(t, 9*time.Second, "nothing is deleted", func() error {
		if keys() != 3 {
			return fmt.Errorf("%d objects", keys())
		}
		return nil
	})
	out, diag, code := n.Tool("tier", "gc", "--agree-rewound")
	require.Zero(t, code, diag)
	require.Contains(t, out, "generation 2")
	harness.Until(t, 2*time.Minute, "the deleted topic's objects go", func() error {
		if keys() != 0 {
			return fmt.Errorf("%d objects", keys())
		}
		return nil
	})
}

// A catalog in use is not rebuilt.
func TestRebuildIsRefusedWhileABrokerRuns(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	_, diag, code := n.Tool("tier", "rebuild", "--data", n.Dir)
	require.Equal(t, 1, code)
	require.Contains(t, diag, "a broker is running")

	stores := harness.RealStores(t)
	serving := harness.Serve(t, stores, harness.Options{})
	_, diag, code = serving.ToolWith([]string{"TIDEMARK_CATALOG_URL=" + stores.CatalogURL, "TIDEMARK_OBJECT_STORE_URL=" + stores.ObjectsURL}, "tier", "rebuild")
	require.Equal(t, 1, code)
	require.Contains(t, diag, "a broker is running: broker 1 renews its lease")
}
