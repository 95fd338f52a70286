package handler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/integration/rawclient"
)

func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// Clients are told the address of the listener that they came in by.
func TestH29_MetadataNamesTheListenerOfTheRequest(t *testing.T) {
	h := build(t)
	got := ask[*kmsg.MetadataResponse](h, 12, metadataOf())
	require.Len(t, got.Brokers, 1)
	require.Equal(t, "outside.example", got.Brokers[0].Host)
	require.Equal(t, "r1", *got.Brokers[0].Rack)
	require.Equal(t, int32(1), got.ControllerID)
	require.Len(t, *got.ClusterID, 22)

	inside := viewOf(h.follower.Image(), "INSIDE")
	require.Equal(t, "inside.example", inside.nodes()[0].host)
	require.Empty(t, viewOf(h.follower.Image(), "OTHER").nodes())
}

func TestMetadataInEveryVersion(t *testing.T) {
	h := build(t, "TIDEMARK_AUTO_CREATE_TOPICS=false")
	h.create(3, "b", "a")
	for v := int16(0); v <= 13; v++ {
		all := kmsg.NewPtrMetadataRequest()
		if v == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		got := ask[*kmsg.MetadataResponse](h, v, all)
		require.Len(t, got.Topics, 2, "version %d", v)
		require.Equal(t, "a", *got.Topics[0].Topic)
		for _, p := range got.Topics[0].Partitions {
			require.Zero(t, p.ErrorCode)
			require.Equal(t, int32(1), p.Leader)
			require.Equal(t, []int32{1}, p.ISR)
		}
		got = ask[*kmsg.MetadataResponse](h, v, metadataOf("b", "missing", "b", "no way"))
		require.Len(t, got.Topics, 3, "version %d", v)
		require.Zero(t, got.Topics[0].ErrorCode)
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.Topics[1].ErrorCode)
		require.Equal(t, kerr.InvalidTopicException.Code, got.Topics[2].ErrorCode)
		if v > 0 {
			require.Empty(t, ask[*kmsg.MetadataResponse](h, v, metadataOf()).Topics, "an empty list is none")
		}
	}
}

func TestMetadataByID(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	a, _ := h.follower.Image().Topic("a")
	byID := func(id catalog.TopicID) *kmsg.MetadataRequest {
		req := metadataOf()
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id
		req.Topics = append(req.Topics, topic)
		return req
	}
	for _, name := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("a")} { // the Java client sends ""
		req := byID(a.ID)
		req.Topics[0].Topic = name
		got := ask[*kmsg.MetadataResponse](h, 13, req)
		require.Len(t, got.Topics, 1)
		require.Zero(t, got.Topics[0].ErrorCode)
		require.Equal(t, "a", *got.Topics[0].Topic)
		require.Equal(t, a.ID, catalog.TopicID(got.Topics[0].TopicID))
	}
	got := ask[*kmsg.MetadataResponse](h, 12, byID(catalog.NewUUID()))
	require.Equal(t, kerr.UnknownTopicID.Code, got.Topics[0].ErrorCode)
	require.Nil(t, got.Topics[0].Topic)
	got = ask[*kmsg.MetadataResponse](h, 10, byID(a.ID))
	require.Equal(t, kerr.InvalidRequest.Code, got.Topics[0].ErrorCode)
}

func TestU4_TopicsAreMadeOnUseWhereSettingAndRequestAllowIt(t *testing.T) {
	allow := func(req *kmsg.MetadataRequest, yes bool) *kmsg.MetadataRequest {
		req.AllowAutoTopicCreation = yes
		return req
	}
	h := build(t) // dev: on
	got := ask[*kmsg.MetadataResponse](h, 12, allow(metadataOf("made", "bad name"), true))
	require.Zero(t, got.Topics[0].ErrorCode)
	require.Equal(t, int32(1), got.Topics[0].Partitions[0].Leader, "usable at once")
	require.Equal(t, kerr.InvalidTopicException.Code, got.Topics[1].ErrorCode)
	got = ask[*kmsg.MetadataResponse](h, 12, allow(metadataOf("not-made"), false))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.Topics[0].ErrorCode)
	got = ask[*kmsg.MetadataResponse](h, 3, metadataOf("old-client")) // has no flag
	require.Zero(t, got.Topics[0].ErrorCode)

	h.store.freeze(true)
	got = ask[*kmsg.MetadataResponse](h, 12, allow(metadataOf("later"), true))
	require.Equal(t, kerr.LeaderNotAvailable.Code, got.Topics[0].ErrorCode, "clients retry it")
	h.store.freeze(false)
	got = ask[*kmsg.MetadataResponse](h, 12, allow(metadataOf("later"), true))
	require.Zero(t, got.Topics[0].ErrorCode)
}

func TestAPartitionWithoutLiveLeader(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	brokers, err := h.store.Brokers(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.store.Release(t.Context(), 1, brokers[0].Incarnation, nil))
	require.NoError(t, h.follower.Refresh(t.Context()))
	got := ask[*kmsg.MetadataResponse](h, 12, metadataOf("a"))
	p := got.Topics[0].Partitions[0]
	require.Equal(t, kerr.LeaderNotAvailable.Code, p.ErrorCode)
	require.Equal(t, int32(-1), p.Leader)
	require.Equal(t, []int32{1}, p.OfflineReplicas)

	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	all := ask[*kmsg.DescribeClusterResponse](h, 2, req)
	require.Len(t, all.Brokers, 1)
	require.True(t, all.Brokers[0].IsFenced)
	require.Empty(t, ask[*kmsg.DescribeClusterResponse](h, 0, kmsg.NewPtrDescribeClusterRequest()).Brokers)
}

func TestDescribeClusterHasNoControllersApart(t *testing.T) {
	h := build(t)
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2
	require.Equal(t, kerr.UnsupportedEndpointType.Code, ask[*kmsg.DescribeClusterResponse](h, 1, req).ErrorCode)
}

func TestDescribeTopicPartitionsGoesOnWhereItEnded(t *testing.T) {
	h := build(t)
	h.create(3, "a", "c")
	h.create(1, "b")
	var seen []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	for range 10 {
		got := ask[*kmsg.DescribeTopicPartitionsResponse](h, 0, req)
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				require.NotNil(t, p.EligibleLeaderReplicas, "null breaks the Java client")
				require.NotNil(t, p.LastKnownELR, "null breaks the Java client")
				seen = append(seen, *topic.Topic+string(rune('0'+p.Partition)))
			}
		}
		if got.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = got.NextCursor.Topic, got.NextCursor.Partition
		req.Cursor = &cursor
	}
	require.Equal(t, "a0 a1 a2 b0 c0 c1 c2", strings.Join(seen, " "))
}

// What a connection pipelines takes effect in order: the second request sees what the first one did.
func TestR19_APipelinedRequestSeesTheOneBefore(t *testing.T) {
	h := build(t)
	c := h.client()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	create.Topics = append(create.Topics, newTopic("a", 1))
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TopicNames = 5, []string{"a"}
	meta := metadataOf("a")
	meta.Version = 12
	for _, req := range []kmsg.Request{create, meta, del, meta} {
		_, err := c.Send(req)
		require.NoError(t, err)
	}
	next := func(c *rawclient.Client) kmsg.Response {
		resp, err := c.Recv()
		require.NoError(t, err)
		return resp
	}
	require.Zero(t, next(c).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	require.Zero(t, next(c).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	require.Zero(t, next(c).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, next(c).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
}
