package handler

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a client changes of topics is in the log with its name and address, and what it only asks about is not.
func TestChangesOfTopicsAreLogged(t *testing.T) {
	h := build(t)
	check := createRequest(newTopic("a", 1))
	check.ValidateOnly = true
	ask[*kmsg.CreateTopicsResponse](h, 7, check)
	require.NotContains(t, h.logged.String(), "topic created")

	ask[*kmsg.CreateTopicsResponse](h, 7, createRequest(newTopic("a", 1)))
	require.Regexp(t, `level=INFO msg="topic created" topic=a id=\S+ partitions=1 replicas=1 client=\S* from=127\.0\.0\.1:`, h.logged.String())

	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis = 5000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "a", 3
	more.Topics = append(more.Topics, topic)
	ask[*kmsg.CreatePartitionsResponse](h, 3, more)
	require.Contains(t, h.logged.String(), `msg="partitions added" topic=a partitions=3`)

	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "a"
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.ms", kmsg.StringPtr("1000")
	resource.Configs = append(resource.Configs, c)
	alter.Resources = append(alter.Resources, resource)
	ask[*kmsg.IncrementalAlterConfigsResponse](h, 1, alter)
	require.Contains(t, h.logged.String(), `msg="topic configs changed" topic=a changes="retention.ms=1000"`)
	alter.Resources[0].Configs[0].Op, alter.Resources[0].Configs[0].Value = kmsg.IncrementalAlterConfigOpDelete, nil
	ask[*kmsg.IncrementalAlterConfigsResponse](h, 1, alter)
	require.Contains(t, h.logged.String(), `msg="topic configs changed" topic=a changes=-retention.ms`)

	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.TimeoutMillis = 5000
	gone.TopicNames = []string{"a"}
	ask[*kmsg.DeleteTopicsResponse](h, 5, gone)
	require.Contains(t, h.logged.String(), `msg="topic deleted" topic=a id=`)
}
