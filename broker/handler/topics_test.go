package handler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func createRequest(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	req.Topics = topics
	return req
}

func withConfig(topic kmsg.CreateTopicsRequestTopic, name string, value *string) kmsg.CreateTopicsRequestTopic {
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = name, value
	topic.Configs = append(topic.Configs, c)
	return topic
}

func withReplicas(topic kmsg.CreateTopicsRequestTopic, partition int32, replicas ...int32) kmsg.CreateTopicsRequestTopic {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, replicas
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	return topic
}

func TestCreateTopicsRefusesWithKafkasCodesAndAWord(t *testing.T) {
	h := build(t)
	h.create(1, "there", "dotted.name")
	rf := func(n int16) kmsg.CreateTopicsRequestTopic {
		topic := newTopic("x", 1)
		topic.ReplicationFactor = n
		return topic
	}
	for _, row := range []struct {
		name  string
		topic kmsg.CreateTopicsRequestTopic
		kind  *kerr.Error
		says  string
	}{
		{"there already", newTopic("there", 1), kerr.TopicAlreadyExists, "'there' already exists"},
		{"empty name", newTopic("", 1), kerr.InvalidTopicException, "empty"},
		{"two dots", newTopic("..", 1), kerr.InvalidTopicException, "'..'"},
		{"a space", newTopic("a b", 1), kerr.InvalidTopicException, "'a b'"},
		{"250 characters", newTopic(strings.Repeat("x", 250), 1), kerr.InvalidTopicException, "249"},
		{"collides", newTopic("dotted_name", 1), kerr.InvalidTopicException, "collides with existing topic: dotted.name"},
		{"no partitions", newTopic("x", 0), kerr.InvalidPartitions, "0"},
		{"too many partitions", newTopic("x", 2_000_000_000), kerr.PolicyViolation, "2000000000"},
		{"no replicas", rf(0), kerr.InvalidReplicationFactor, "0"},
		{"more replicas than brokers", rf(3), kerr.InvalidReplicationFactor, "3"},
		{"unknown config", withConfig(newTopic("x", 1), "retention.sm", kmsg.StringPtr("1")), kerr.InvalidConfig, "retention.ms"},
		{"bad value", withConfig(newTopic("x", 1), "retention.ms", kmsg.StringPtr("soon")), kerr.InvalidConfig, "soon"},
		{"null value", withConfig(newTopic("x", 1), "retention.ms", nil), kerr.InvalidConfig, "retention.ms"},
		{"compaction without a tier", withConfig(withConfig(newTopic("x", 1), "cleanup.policy", kmsg.StringPtr("compact")),
			"remote.storage.enable", kmsg.StringPtr("false")), kerr.InvalidConfig, "remote.storage.enable"},
		{"assignment and count", withReplicas(newTopic("x", 1), 0, 1), kerr.InvalidRequest, "numPartitions"},
		{"a hole in the assignment", withReplicas(newTopic("x", -1), 1, 1), kerr.InvalidReplicaAssignment, "0-based"},
		{"an unknown broker", withReplicas(newTopic("x", -1), 0, 9), kerr.InvalidReplicaAssignment, "9"},
		{"a broker twice", withReplicas(newTopic("x", -1), 0, 1, 1), kerr.InvalidReplicaAssignment, "more than once"},
		{"no broker", withReplicas(newTopic("x", -1), 0), kerr.InvalidReplicaAssignment, "empty replica list"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ask[*kmsg.CreateTopicsResponse](h, 7, createRequest(row.topic)).Topics[0]
			require.Equal(t, row.kind.Code, got.ErrorCode, "%v", got.ErrorMessage)
			require.Contains(t, *got.ErrorMessage, row.says)
		})
	}
	twice := ask[*kmsg.CreateTopicsResponse](h, 7, createRequest(newTopic("x", 1), newTopic("x", 2), newTopic("y", 1)))
	require.Len(t, twice.Topics, 2)
	require.Equal(t, kerr.InvalidRequest.Code, twice.Topics[0].ErrorCode)
	require.Zero(t, twice.Topics[1].ErrorCode)
}

func TestCreateTopicsFillsInDefaultsAndDescribesThem(t *testing.T) {
	h := build(t, "TIDEMARK_DEFAULT_PARTITIONS=4")
	topic := withConfig(newTopic("x", -1), "retention.ms", kmsg.StringPtr("9223372036854775807"))
	dry := createRequest(topic)
	dry.ValidateOnly = true
	require.Zero(t, ask[*kmsg.CreateTopicsResponse](h, 7, dry).Topics[0].ErrorCode)
	_, there := h.follower.Image().Topic("x")
	require.False(t, there, "validate only changes nothing")

	got := ask[*kmsg.CreateTopicsResponse](h, 7, createRequest(topic)).Topics[0]
	require.Zero(t, got.ErrorCode)
	require.Equal(t, int32(4), got.NumPartitions)
	require.Equal(t, int16(1), got.ReplicationFactor)
	require.NotZero(t, got.TopicID)
	values := map[string]string{}
	for _, c := range got.Configs {
		values[c.Name] = *c.Value
	}
	require.Equal(t, "9223372036854775807", values["retention.ms"])
	require.Equal(t, "true", values["remote.storage.enable"])

	ask[*kmsg.CreateTopicsResponse](h, 2, createRequest(withReplicas(withReplicas(newTopic("placed", -1), 1, 1), 0, 1)))
	placed, there := h.follower.Image().Topic("placed")
	require.True(t, there)
	require.Len(t, placed.Partitions, 2)
}

// G4: a topic is said to be made only when it is.
func TestG4_CreateTopicsSaysYesOnlyAfterTheCommit(t *testing.T) {
	h := build(t)
	h.store.freeze(true)
	req := createRequest(newTopic("x", 1))
	req.TimeoutMillis = 1000
	got := ask[*kmsg.CreateTopicsResponse](h, 7, req).Topics[0]
	require.Equal(t, kerr.RequestTimedOut.Code, got.ErrorCode)
	h.store.freeze(false)
	require.Zero(t, ask[*kmsg.CreateTopicsResponse](h, 7, createRequest(newTopic("x", 1))).Topics[0].ErrorCode)
}

// K5: a change whose answer is lost is asked for again, and answered as it would have been.
func TestK5_AChangeWithALostAnswerIsDoneOnceAndAnsweredRight(t *testing.T) {
	h := build(t)
	h.store.lose(2)
	h.create(2, "a")
	a, _ := h.follower.Image().Topic("a")

	h.store.lose(1)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "a", 5
	grow.Topics = append(grow.Topics, topic)
	require.Zero(t, ask[*kmsg.CreatePartitionsResponse](h, 3, grow).Topics[0].ErrorCode)
	grown, _ := h.follower.Image().Topic("a")
	require.Len(t, grown.Partitions, 5)
	require.Equal(t, a.ID, grown.ID)

	h.store.lose(1)
	require.Zero(t, alter(h, kmsg.ConfigResourceTypeTopic, "a", change{"retention.ms", set, "60000"}).ErrorCode)
	h.store.lose(1)
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"a"}
	require.Zero(t, ask[*kmsg.DeleteTopicsResponse](h, 5, del).Topics[0].ErrorCode)
	require.Empty(t, h.follower.Image().Topics())
}

func TestDeleteTopicsByNameAndID(t *testing.T) {
	h := build(t)
	h.create(1, "a", "b", "c")
	a, _ := h.follower.Image().Topic("a")
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range []*string{kmsg.StringPtr("b"), kmsg.StringPtr("b"), kmsg.StringPtr("none"), nil, nil} {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
	}
	req.Topics[3].TopicID = a.ID
	req.Topics[4].TopicID = [16]byte{1}
	got := ask[*kmsg.DeleteTopicsResponse](h, 6, req)
	var codes []int16
	for _, topic := range got.Topics {
		codes = append(codes, topic.ErrorCode)
	}
	require.Equal(t, []int16{0, kerr.InvalidRequest.Code, kerr.UnknownTopicOrPartition.Code, 0, kerr.UnknownTopicID.Code}, codes)
	require.Equal(t, "a", *got.Topics[3].Topic)

	h.create(1, "a")
	again, _ := h.follower.Image().Topic("a")
	require.NotEqual(t, a.ID, again.ID, "D18: another topic")
}

func TestCreatePartitionsOnlyGrows(t *testing.T) {
	h := build(t)
	h.create(2, "a")
	grow := func(count int32, name string, replicas ...int32) kmsg.CreatePartitionsResponseTopic {
		req := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, count
		if replicas != nil {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = replicas
			topic.Assignment = append(topic.Assignment, a)
		}
		req.Topics = append(req.Topics, topic)
		return ask[*kmsg.CreatePartitionsResponse](h, 3, req).Topics[0]
	}
	require.Equal(t, kerr.InvalidPartitions.Code, grow(2, "a").ErrorCode)
	require.Equal(t, kerr.InvalidPartitions.Code, grow(1, "a").ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, grow(3, "none").ErrorCode)
	require.Equal(t, kerr.InvalidReplicaAssignment.Code, grow(5, "a", 1).ErrorCode)
	require.Equal(t, kerr.InvalidReplicaAssignment.Code, grow(3, "a", 8).ErrorCode)
	require.Zero(t, grow(3, "a", 1).ErrorCode)
	require.Zero(t, grow(5, "a").ErrorCode)
	a, _ := h.follower.Image().Topic("a")
	require.Len(t, a.Partitions, 5)
	require.Equal(t, int32(1), int32(a.Partitions[4].Leader))
}
