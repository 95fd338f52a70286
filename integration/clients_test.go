package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// Real clients, each against a broker on embedded defaults. clients/README.md says what their programs do. A client
// whose runtime is missing fails; scripts/setup.sh brings it.

func TestClientLibrdkafkaInPython(t *testing.T) {
	t.Parallel()
	needs(t, "/usr/bin/python3", "-c", "import confluent_kafka")
	runClient(t, "librdkafka", []string{"none", "gzip", "snappy", "lz4", "zstd"}, "/usr/bin/python3", "clients/python/librdkafka.py")
}

func TestClientKafkaPython(t *testing.T) {
	t.Parallel()
	needs(t, "/usr/bin/python3", "-c", "import kafka, lz4, snappy")
	runClient(t, "kafka-python", []string{"none", "gzip", "snappy", "lz4"}, "/usr/bin/python3", "clients/python/kafka_python.py")
}

func TestClientJava(t *testing.T) {
	t.Parallel()
	runClient(t, "java", []string{"none", "gzip", "snappy", "lz4", "zstd"}, "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", harness.JavaClasses(t), "tidemark.client.Main")
}

func TestClientKafkaJS(t *testing.T) {
	t.Parallel()
	needs(t, "npm", "--version")
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	out := filepath.Join(cache, "tidemark", "clients", "node") // outside the checkout, and kept
	require.NoError(t, os.MkdirAll(out, 0o755))
	for _, name := range []string{"package.json", "package-lock.json", "client.js"} {
		b, err := os.ReadFile(filepath.Join("clients/node", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(out, name), b, 0o644))
	}
	build(t, out, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	runClient(t, "kafkajs", []string{"none", "gzip", "snappy", "zstd"}, "node", filepath.Join(out, "client.js"))
}

func TestClientSarama(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "sarama")
	build(t, "clients/sarama", "go", "build", "-o", program, ".")
	runClient(t, "sarama", []string{"none", "gzip", "snappy", "lz4", "zstd"}, program)
}

func TestClientKafkaGo(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "kafkago")
	build(t, "clients/kafkago", "go", "build", "-o", program, ".")
	runClient(t, "kafka-go", []string{"none", "gzip", "snappy", "lz4", "zstd"}, program)
}

func needs(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s; run scripts/setup.sh, which installs what the tests need", program, strings.Join(args, " "), err, out)
	}
}

func build(t *testing.T, dir string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v\n%s", strings.Join(command, " "), dir, err, out)
	}
}

const coldCount = 3000

var coldStart = time.Date(2012, 1, 1, 0, 0, 0, 0, time.UTC)

// coldTopic makes the topic that the programs expect, with its first half at least in the object tier only.
func coldTopic(t *testing.T, n *harness.Node) {
	t.Helper()
	n.CreateTopic(t, "cold", 1, small...)
	cl := n.Client(t, kgo.DefaultProduceTopic("cold"), kgo.ProducerBatchMaxBytes(16<<10), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range coldCount {
		cl.Produce(context.Background(), &kgo.Record{Value: fmt.Appendf(nil, "%-400s", fmt.Sprintf("cold-%06d", i)),
			Timestamp: coldStart.Add(time.Duration(i) * time.Second)}, nil)
	}
	require.NoError(t, cl.Flush(within(t, 2*time.Minute)))
	awaitCold(t, n, "cold", coldCount/2)
}

// awaitCold waits until the records below an offset are no longer on disk.
func awaitCold(t *testing.T, n *harness.Node, topic string, offset int64) {
	t.Helper()
	harness.Until(t, 3*time.Minute, "the beginning is cold", func() error {
		if got := n.Offset(t, topic, 0, harness.LocalStart); got < offset {
			return fmt.Errorf("localStart is %d", got)
		}
		return nil
	})
}

func runClient(t *testing.T, name string, codecs []string, program ...string) {
	t.Helper()
	n := harness.Dev(t, harness.Options{})
	coldTopic(t, n)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+n.Kafka, "NAME="+name, "COLD_TOPIC=cold", "COLD_COUNT="+strconv.Itoa(coldCount),
		"COLD_MS="+strconv.FormatInt(coldStart.UnixMilli(), 10))
	started := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v", name, time.Since(started).Round(time.Millisecond))
	require.NoError(t, err, "%s", out)
	for number, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, did := range codecs {
			if did == codec {
				judgeCodec(t, n, name+"-"+codec, int16(number))
			}
		}
	}
}

// judgeCodec checks that what a client compressed is stored as it sent it, and that another client reads the same. A
// program that deleted the first records has left at least the second half.
func judgeCodec(t *testing.T, n *harness.Node, topic string, codec int16) {
	t.Helper()
	start, end := n.Offset(t, topic, 0, harness.Start), n.Offset(t, topic, 0, harness.Latest)
	require.EqualValues(t, 100, end, topic)
	records, err := checker.Read(within(t, time.Minute), n.Kafka, topic, 0, start, end)
	require.NoError(t, err)
	for i, r := range records {
		number := int(start) + i
		require.Equal(t, fmt.Sprintf("k%d", number), string(r.Key), topic)
		require.Equal(t, fmt.Sprintf("v%d", number), strings.TrimSpace(string(r.Value)), topic)
	}
	c := n.Raw(t)
	defer c.Close()
	resp, err := c.Do(fetchAt(topic, 0, start, 500))
	require.NoError(t, err)
	b := fetched(t, resp.(*kmsg.FetchResponse)).RecordBatches
	require.Greater(t, len(b), 61)
	require.Equal(t, codec, int16(binary.BigEndian.Uint16(b[21:]))&7, "%s: codec of the first stored batch", topic)
}
