package handler

import (
	"bytes"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTheTableIsWhatDocsSay(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, WriteMarkdown(&page))
	have, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	require.Equal(t, string(have), page.String(), "docs/api.md is stale: run `go run ./internal/docgen`")
}

func TestEachRowOfTheTableCanBeDecoded(t *testing.T) {
	seen := map[int16]bool{}
	for _, a := range table {
		require.False(t, seen[a.key], "key %d stands twice", a.key)
		seen[a.key] = true
		req := kmsg.RequestForKey(a.key)
		require.NotNil(t, req)
		require.LessOrEqual(t, a.min, a.max)
		require.LessOrEqual(t, a.max, req.MaxVersion(), "%s", kmsg.NameForKey(a.key))
		require.NotNil(t, a.begin)
		require.Same(t, &table[indexOf(a.key)], lookup(a.key))
	}
	require.Nil(t, lookup(-1))
	require.Nil(t, lookup(32000))
}

func indexOf(key int16) int {
	for i := range table {
		if table[i].key == key {
			return i
		}
	}
	return -1
}

// U6: a key that is not served is answered 35 and the connection goes on.
func TestU6_AnUnknownKeyLeavesTheConnection(t *testing.T) {
	h := build(t)
	c := h.client()
	resp := askOn[*kmsg.ConsumerGroupHeartbeatResponse](h, c, 0, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	require.Equal(t, int16(35), resp.ErrorCode)
	versions := askOn[*kmsg.ApiVersionsResponse](h, c, 4, &kmsg.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"})
	require.Zero(t, versions.ErrorCode)
	require.Len(t, versions.ApiKeys, len(table))
	require.Equal(t, int16(0), versions.ApiKeys[0].MinVersion, "Produce is shown from 0")
}

// Whatever its version, a request that asks for nothing is answered, and the connection stays.
func TestEachAPIAnswersAnEmptyRequestInEachVersion(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	c := h.client()
	before := unknownErrorsNow(t)
	for _, a := range byNumber() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			switch r := req.(type) {
			case *kmsg.ProduceRequest:
				r.Acks = 1
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "x", "1"
			}
			_, err := c.Send(req)
			require.NoError(t, err)
			_, err = c.Recv()
			require.NoError(t, err, "%s v%d", kmsg.NameForKey(a.key), v)
		}
	}
	require.Equal(t, before, unknownErrorsNow(t), "UNKNOWN_SERVER_ERROR is a bug")
}

// unknownErrorsNow reads the counter of answers that are bugs.
func unknownErrorsNow(t *testing.T) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(unknownErrors)
	families, err := reg.Gather()
	require.NoError(t, err)
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func TestDescribeProducersOfWhatIsNotHere(t *testing.T) {
	h := build(t)
	req := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic, topic.Partitions = "none", []int32{0}
	req.Topics = append(req.Topics, topic)
	got := ask[*kmsg.DescribeProducersResponse](h, 0, req)
	require.Equal(t, int16(3), got.Topics[0].Partitions[0].ErrorCode)
}

// U1: ApiVersions shows Produce from 0, or older librdkafka sends what it was told to compress as it is; versions 0–2 are
// answered UNSUPPORTED_VERSION for each partition, and nothing is appended.
func TestU1_OldProduceIsShownAndRefused(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	c := h.client()
	for v := int16(0); v <= 4; v++ {
		versions := askOn[*kmsg.ApiVersionsResponse](h, c, v, &kmsg.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"})
		require.Equal(t, int16(0), versions.ApiKeys[0].ApiKey)
		require.Equal(t, int16(0), versions.ApiKeys[0].MinVersion)
	}
	for v := int16(0); v <= 2; v++ {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 1000
		part := kmsg.NewProduceRequestTopicPartition()
		part.Records = []byte("a message set of a format that is not read any more")
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
		got := askOn[*kmsg.ProduceResponse](h, c, v, req).Topics[0].Partitions[0]
		require.Equal(t, int16(35), got.ErrorCode)
		require.Equal(t, int64(-1), got.BaseOffset)
	}
}

// U5: clients of transactions and of the newer group protocols go by features, not by versions. None of them works, so none
// is shown.
func TestU5_NoFeatureIsShownThatDoesNotWork(t *testing.T) {
	h := build(t)
	for v := int16(3); v <= 4; v++ {
		got := ask[*kmsg.ApiVersionsResponse](h, v, &kmsg.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"})
		require.Empty(t, got.SupportedFeatures)
		require.Empty(t, got.FinalizedFeatures)
		for _, k := range got.ApiKeys {
			require.NotContains(t, []int16{24, 25, 26, 28, 68, 76, 77, 78, 79, 88}, k.ApiKey, "%s is shown", kmsg.NameForKey(k.ApiKey))
		}
	}
}
