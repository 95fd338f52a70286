package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// startIs waits until the log of partition 0 starts at an offset.
func startIs(t *testing.T, n *harness.Node, topic string, want int64) {
	t.Helper()
	harness.Until(t, 3*time.Minute, fmt.Sprintf("the log of %s starts at %d", topic, want), func() error {
		if got := n.Offset(t, topic, 0, harness.Start); got != want {
			return fmt.Errorf("it starts at %d", got)
		}
		return nil
	})
}

// outlook is what tier status says of partition 0.
func outlook(t *testing.T, n *harness.Node, topic string) string {
	t.Helper()
	out, diag, code := n.Tool("tier", "status", topic)
	require.Zero(t, code, diag)
	return out
}

// Both retentions over both tiers, changed while the broker runs; tier status says each time what goes next.
func TestRetentionIsChangedAtRunTime(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "r", 1)
	produceTens(t, n, "r", 0, 65)
	tiered(t, n, "r", 59)
	require.EqualValues(t, 0, n.Offset(t, "r", 0, harness.LocalStart), "both tiers have all of it")
	harness.Until(t, 2*time.Minute, "tier status knows of no limit", func() error {
		if out := outlook(t, n, "r"); !strings.Contains(out, "nothing is ever removed") || !strings.Contains(out, "nothing is freed from disk before it is removed") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})

	n.AlterTopic(t, "r", "local.retention.bytes", fmt.Sprint(27*batchBytes))
	harness.Until(t, 2*time.Minute, "the disk holds what it may", func() error {
		if got := n.Offset(t, "r", 0, harness.LocalStart); got != 40 {
			return fmt.Errorf("localStart is %d", got)
		}
		return nil
	})
	harness.Until(t, 2*time.Minute, "tier status says what is freed next", func() error {
		if out := outlook(t, n, "r"); !strings.Contains(out, fmt.Sprintf("[40, 50) is freed from disk next; by local.retention.bytes=%d when ", 27*batchBytes)) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	require.EqualValues(t, 0, n.Offset(t, "r", 0, harness.Start))
	readTens(t, n, "r", 0, 65)

	// An object is larger than its batches: 38 of them and three objects' indexes stay below 40.
	n.AlterTopic(t, "r", "retention.bytes", fmt.Sprint(40*batchBytes))
	startIs(t, n, "r", 20)
	harness.Until(t, 2*time.Minute, "tier status says what goes next", func() error {
		if out := outlook(t, n, "r"); !strings.Contains(out, "[20, 30) goes next; by retention.bytes=") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	n.AlterTopic(t, "r", "retention.bytes", "-1")
	produceTens(t, n, "r", 65, 71)
	tiered(t, n, "r", 69)
	require.EqualValues(t, 20, n.Offset(t, "r", 0, harness.Start), "start does not fall, nor move without a limit")

	id := topicID(t, n, "r")
	n.AlterTopic(t, "r", "retention.ms", "1000") // the records are of 2020
	startIs(t, n, "r", 71)
	harness.Until(t, 2*time.Minute, "the objects are removed after the grace", func() error {
		if left := keysOf(t, stores, id); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
	n.AlterTopic(t, "r", "retention.ms", "-1")
	produceTens(t, n, "r", 71, 82)
	readTens(t, n, "r", 71, 82)
	agree(t, n, stores)
}

// D1: what lies in both tiers counts once, whoever leads: nothing inside retention.bytes goes, however often the
// leadership begins again.
func TestD1_BothTiersCountOnce(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "d1", 1)
	produceTens(t, n, "d1", 0, 80)
	tiered(t, n, "d1", 69)
	n.AlterTopic(t, "d1", "retention.bytes", fmt.Sprint(100*batchBytes))
	for i := range kills(t) {
		if i%2 == 0 {
			n.Kill()
		} else {
			require.Zero(t, n.Term())
		}
		n.Start()
		readTens(t, n, "d1", 0, 80)
		require.EqualValues(t, 0, n.Offset(t, "d1", 0, harness.Start), "leadership %d", i)
	}
	n.AlterTopic(t, "d1", "retention.bytes", fmt.Sprint(45*batchBytes))
	startIs(t, n, "d1", 30)
}

// D2: copies that failed count for nothing.
func TestD2_FailedCopiesDoNotCount(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	stores.S3.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: http.MethodPut, Path: "/segments/"}, Times: 12, Status: 500, Code: "InternalError"})
	tens(t, n, "d2", 1, "retention.bytes", fmt.Sprint(100*batchBytes))
	produceTens(t, n, "d2", 0, 81)
	tiered(t, n, "d2", 79)
	require.Positive(t, n.Metric("tidemark_tier_upload_failures_total"))
	require.EqualValues(t, 0, n.Offset(t, "d2", 0, harness.Start))
	readTens(t, n, "d2", 0, 81)
	agree(t, n, stores)
}

// D3: whatever epochs wrote the objects, all of them expire.
func TestD3_ObjectsOfManyEpochsExpire(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "d3", 1)
	for i := range kills(t) {
		produceTens(t, n, "d3", 13*i, 13*i+13)
		n.Kill()
		n.Start()
	}
	end := 13 * kills(t)
	tiered(t, n, "d3", int64(end/10*10-1))
	n.AlterTopic(t, "d3", "retention.ms", "1")
	startIs(t, n, "d3", int64(end))
	agree(t, n, stores)
}

// D5: where the log starts is the catalog's to say, not the local files'.
func TestD5_LocalCheckpointsAreLost(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "d5", 85)
	local := n.Offset(t, "d5", 0, harness.LocalStart)
	require.Positive(t, local)
	n.Kill()
	n.Wipe()
	n.Start()
	require.EqualValues(t, 0, n.Offset(t, "d5", 0, harness.Start))
	require.EqualValues(t, 80, n.Offset(t, "d5", 0, harness.LocalStart), "an empty disk begins where the tier ends")
	readTens(t, n, "d5", 0, 80)
}

// D12: what is to be removed is remembered by the catalog: a broker that dies during the grace changes nothing.
func TestD12_KilledDuringTheGrace(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_GC_GRACE": "1h"}})
	coldTens(t, n, "d12", 41)
	id := topicID(t, n, "d12")
	_, err := deleteRecords(t, n, "d12", 30)
	require.NoError(t, err)
	n.Kill()
	require.Len(t, keysOf(t, stores, id), 4, "the grace is not over")
	n.Wipe()
	n.Setenv("TIDEMARK_GC_GRACE", "6s")
	n.Start()
	harness.Until(t, 2*time.Minute, "they are removed all the same", func() error {
		if left := keysOf(t, stores, id); len(left) != 1 {
			return fmt.Errorf("%d keys are left", len(left))
		}
		return nil
	})
	agree(t, n, stores)
}

// D13: one key that cannot be deleted holds up no other, and goes when it can.
func TestD13_OneKeyCannotBeDeleted(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "d13", 51)
	bad := keyAt(t, n, "d13", 10)
	stores.S3.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: http.MethodDelete, Path: bad}, Status: 403, Code: "AccessDenied"})
	id := topicID(t, n, "d13")
	_, err := deleteRecords(t, n, "d13", 40)
	require.NoError(t, err)
	harness.Until(t, 2*time.Minute, "the others go", func() error {
		if left := keysOf(t, stores, id); len(left) != 2 {
			return fmt.Errorf("%d keys are left", len(left))
		}
		return nil
	})
	require.Contains(t, keysOf(t, stores, id), bad)
	harness.Until(t, 2*time.Minute, "the failure is counted", func() error {
		if n.Metric("tidemark_tier_delete_failures_total") == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	stores.S3.Clear()
	harness.Until(t, 2*time.Minute, "it goes too", func() error {
		if left := keysOf(t, stores, id); len(left) != 1 {
			return fmt.Errorf("%d keys are left", len(left))
		}
		return nil
	})
	readTens(t, n, "d13", 40, 51)
}

// D15: a broker that builds its log from the tier while retention advances begins at the new start.
func TestD15_RetentionDuringARebuildOfTheDisk(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "d15", 61)
	n.AlterTopic(t, "d15", "retention.bytes", fmt.Sprint(20*batchBytes))
	n.Kill()
	n.Wipe()
	n.Start()
	startIs(t, n, "d15", 40)
	require.Equal(t, kerr.OffsetOutOfRange.Code, fetchOne(t, n, "d15", 10, 200).ErrorCode)
	readTens(t, n, "d15", 40, 60)
	produceTens(t, n, "d15", 60, 72)
	readTens(t, n, "d15", 50, 72)
}
