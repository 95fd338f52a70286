package integration

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// I8: the index files of sealed segments are zeros before they are uploaded: what is uploaded has indexes of its own,
// made from the batches, and hot and cold fetches at each offset find the right batch.
func TestI8_ZeroedIndexesAreNotUploaded(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "i8", 1, "index.interval.bytes", "1", "local.retention.bytes", "1")
	stores.S3.Add(s3proxy.Rule{Match: putSegment, Status: 503, Code: "SlowDown"})
	produceTens(t, n, "i8", 0, 41)
	zeroed := 0
	harness.Until(t, time.Minute, "the sealed segments have indexes", func() error {
		files, err := filepath.Glob(filepath.Join(n.Dir, "*", "*index"))
		if err != nil || len(files) < 8 {
			return fmt.Errorf("%d index files: %w", len(files), err)
		}
		zeroed = 0
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				return err
			}
			if err := os.WriteFile(f, make([]byte, info.Size()), 0o644); err != nil {
				return err
			}
			zeroed++
		}
		return nil
	})
	eachOffset(t, n, "i8", 41)
	stores.S3.Clear()
	awaitCold(t, n, "i8", 40)
	n.Kill()
	n.DropCache()
	n.Start()
	eachOffset(t, n, "i8", 41)
	t.Logf("%d index files were zeroed", zeroed)
}

// eachOffset fetches at every offset and finds its batch first.
func eachOffset(t *testing.T, n *harness.Node, topic string, end int) {
	t.Helper()
	for i := range end {
		p := fetchEventually(t, n, topic, int64(i))
		require.EqualValues(t, i, binary.BigEndian.Uint64(p.RecordBatches), "fetch at %d", i)
	}
	readTens(t, n, topic, 0, end)
}

// L7: fifty connections each fetch two thousand partitions, with large limits, and read slowly; others write batches of
// the largest size. Memory stays under the setting and everybody gets on.
func TestL7_FetchesOverThousandsOfPartitions(t *testing.T) {
	const memory, partitions, connections = 256 << 20, 2000, 50
	size := 10_000
	if harness.RaceDetector { // which makes gigabytes slow, and memory cannot be judged under it
		size = 2500
	}
	n := harness.Dev(t, harness.Options{Env: map[string]string{
		"TIDEMARK_LOG_LEVEL": "info", "TIDEMARK_MEMORY": "256MiB", "TIDEMARK_PRODUCE_MEMORY": "32MiB", "TIDEMARK_MAX_REQUEST_BYTES": "8MiB",
		"TIDEMARK_REQUEST_MEMORY": "16MiB", "TIDEMARK_TAIL_CACHE_BYTES": "16MiB", "TIDEMARK_COMPACTION_MEMORY": "16MiB",
	}})
	n.CreateTopic(t, "l7", partitions)
	n.CreateTopic(t, "large", 1, "max.message.bytes", "4194304")
	cl := n.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(10*time.Millisecond), kgo.ProducerBatchMaxBytes(4<<20))
	var rs []*kgo.Record
	for i := range 2 * partitions {
		rs = append(rs, &kgo.Record{Topic: "l7", Partition: int32(i % partitions), Value: make([]byte, size)})
	}
	require.NoError(t, cl.ProduceSync(within(t, 2*time.Minute), rs...).FirstErr())

	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 500, 1, 50<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "l7"
	for i := range int32(partitions) {
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch = i, 1<<20, -1
		ft.Partitions = append(ft.Partitions, fp)
	}
	req.Topics = append(req.Topics, ft)

	var readers sync.WaitGroup
	for range connections {
		c := n.Raw(t)
		frame := c.Frame(req)
		readers.Go(func() {
			for range 4 {
				if err := c.SendRaw(frame); err != nil {
					t.Error(err)
					return
				}
			}
			for range 4 {
				if err := slowly(c.Conn()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 30 {
		require.NoError(t, cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "large", Value: make([]byte, 4_000_000)}).FirstErr())
	}
	readers.Wait()
	peak := peakMemory(t, n)
	t.Logf("peak of resident memory: %d MiB", peak>>20)
	if !harness.RaceDetector {
		require.Less(t, peak, int64(memory))
	}
}

// slowly reads one answer, a little at a time.
func slowly(r io.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	left := int64(size[0])<<24 | int64(size[1])<<16 | int64(size[2])<<8 | int64(size[3])
	for left > 0 {
		n, err := io.CopyN(io.Discard, r, min(left, 64<<10))
		if left -= n; err != nil {
			return err
		}
	}
	return nil
}

// peakMemory is the most that the node's process has had in memory.
func peakMemory(t *testing.T, n *harness.Node) (bytes int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Pid()))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err := fmt.Sscanf(kib, "%d", &bytes)
			require.NoError(t, err)
		}
	}
	return bytes << 10
}
