package broker_test

import (
	"bytes"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// commitText commits offsets with text to the first partitions of a topic and returns the request that reads them all.
func (c client) commitText(group, topic string, partitions, bytes int) *kmsg.OffsetFetchRequest {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	text := strings.Repeat("x", bytes)
	for i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), 1, &text
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = []kmsg.OffsetCommitRequestTopic{rt}
	for _, p := range ask[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions {
		require.Zero(c.t, p.ErrorCode)
	}
	all := kmsg.NewPtrOffsetFetchRequest()
	all.Version, all.Group = 5, group
	return all
}

// R20: two hundred peers ask for answers of megabytes and do not read. Memory stays within its bound and a neighbour's
// requests are answered.
func TestR20_SlowReadersOfLargeAnswersDisturbNobody(t *testing.T) {
	const readers, partitions, text = 200, 500, 4000
	n := brokertest.Start(t, brokertest.Options{Env: []string{"TIDEMARK_ANSWER_MEMORY=16MiB", "TIDEMARK_LOG_LEVEL=error"}})
	neighbour := dial(t, n)
	neighbour.Timeout = time.Minute
	neighbour.create("wide", partitions, nil)
	all := neighbour.commitText("g", "wide", partitions, text)
	answer := ask[*kmsg.OffsetFetchResponse](neighbour, all)
	require.Len(t, answer.Topics[0].Partitions, partitions)

	asked := bytes.Repeat(neighbour.Frame(all), 4)
	for range readers {
		c, err := net.Dial("tcp", n.Addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(32<<10))
		_, err = c.Write(asked)
		require.NoError(t, err)
	}
	var most uint64
	for i := range 20 {
		p := neighbour.produce("wide", 0, batchOf(1, record.CodecNone, "mine"))
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.BaseOffset)
		named := "wide"
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &named
		m := ask[*kmsg.MetadataResponse](neighbour, &kmsg.MetadataRequest{Version: 9, Topics: []kmsg.MetadataRequestTopic{topic}})
		require.Len(t, m.Topics[0].Partitions, partitions)
		runtime.GC()
		var m1 runtime.MemStats
		runtime.ReadMemStats(&m1)
		most = max(most, m1.HeapAlloc)
	}
	t.Logf("%d MiB at most, %d MiB if all were answered", most>>20, readers*partitions*text>>20)
	require.Less(t, most, uint64(readers*partitions*text/3))
}

// R20: what one request names again and again is answered once: a partition of one byte may have text of thousands, a
// name of some bytes sixty configs.
func TestR20_WhatIsNamedAgainIsAnsweredOnce(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	c.Timeout = time.Minute
	c.create("t", 1, nil)
	const times = 50_000
	offsets := c.commitText("g", "t", 1, 4000)
	again := make([]int32, times)

	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = "t", again
	offsets.Topics = []kmsg.OffsetFetchRequestTopic{topic, topic}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	groups := kmsg.NewPtrOffsetFetchRequest()
	groups.Version, groups.Groups = 8, slices.Repeat([]kmsg.OffsetFetchRequestGroup{group}, times)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, slices.Repeat([]string{"g"}, times)
	config := kmsg.NewDescribeConfigsRequestResource()
	config.ResourceType, config.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version, configs.Resources = 4, slices.Repeat([]kmsg.DescribeConfigsRequestResource{config}, times)
	kinds := kmsg.NewPtrListConfigResourcesRequest()
	kinds.Version, kinds.ResourceTypes = 1, slices.Repeat([]int8{2}, times)
	active := kmsg.NewDescribeProducersRequestTopic()
	active.Topic, active.Partitions = "t", again
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{active, active}

	for _, req := range []kmsg.Request{offsets, groups, describe, configs, kinds, producers} {
		_, err := c.Send(req)
		require.NoError(t, err)
		_, raw, err := c.RecvRaw()
		require.NoError(t, err)
		require.Less(t, len(raw), 20_000, "%T", req)
	}
	require.Zero(t, panics(t, n))
}
