package handler

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func describe(h *house, kind kmsg.ConfigResourceType, name string, only ...string) kmsg.DescribeConfigsResponseResource {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, only
	req.Resources = append(req.Resources, res)
	return ask[*kmsg.DescribeConfigsResponse](h, 4, req).Resources[0]
}

func byName(res kmsg.DescribeConfigsResponseResource) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	out := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range res.Configs {
		out[c.Name] = c
	}
	return out
}

type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

// alter sends one IncrementalAlterConfigs for one resource.
func alter(h *house, kind kmsg.ConfigResourceType, name string, changes ...change) kmsg.IncrementalAlterConfigsResponseResource {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, ch := range changes {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = ch.name, ch.op
		if ch.op != kmsg.IncrementalAlterConfigOpDelete {
			c.Value = &ch.value
		}
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	return ask[*kmsg.IncrementalAlterConfigsResponse](h, 1, req).Resources[0]
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	unset    = kmsg.IncrementalAlterConfigOpDelete
	appended = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func TestATopicsConfigsAreSetAndDescribed(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	topic := kmsg.ConfigResourceTypeTopic
	value := func(name string) string { return *byName(describe(h, topic, "a"))[name].Value }

	require.Zero(t, alter(h, topic, "a", change{"retention.ms", set, "60000"}, change{"cleanup.policy", appended, "compact"}).ErrorCode)
	got := byName(describe(h, topic, "a"))
	require.Equal(t, "60000", *got["retention.ms"].Value)
	require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, got["retention.ms"].Source)
	require.Len(t, got["retention.ms"].ConfigSynonyms, 2)
	require.NotEmpty(t, *got["retention.ms"].Documentation)
	require.Equal(t, kmsg.ConfigTypeLong, got["retention.ms"].ConfigType)
	require.Equal(t, "delete,compact", value("cleanup.policy"))
	require.Equal(t, kmsg.ConfigSourceDefaultConfig, got["segment.bytes"].Source)

	require.Zero(t, alter(h, topic, "a", change{"cleanup.policy", subtract, "delete"}, change{"retention.ms", unset, ""}).ErrorCode)
	require.Equal(t, "compact", value("cleanup.policy"))
	require.NotEqual(t, "60000", value("retention.ms"))

	// One fault, and nothing of the topic changes.
	bad := alter(h, topic, "a", change{"segment.ms", set, "5000"}, change{"retention.ms", set, "never"})
	require.Equal(t, kerr.InvalidConfig.Code, bad.ErrorCode)
	require.Contains(t, *bad.ErrorMessage, "never")
	require.NotEqual(t, "5000", value("segment.ms"))
	tierless := alter(h, topic, "a", change{"remote.storage.enable", set, "false"})
	require.Equal(t, kerr.InvalidConfig.Code, tierless.ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, alter(h, topic, "none", change{"retention.ms", set, "1"}).ErrorCode)

	require.Len(t, describe(h, topic, "a", "retention.ms", "no.such").Configs, 1)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, describe(h, topic, "none").ErrorCode)
}

func TestAlterConfigsReplacesAll(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	topic := kmsg.ConfigResourceTypeTopic
	require.Zero(t, alter(h, topic, "a", change{"segment.ms", set, "5000"}).ErrorCode)
	req := kmsg.NewPtrAlterConfigsRequest()
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = topic, "a"
	c := kmsg.NewAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.ms", kmsg.StringPtr("60000")
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res, res)
	got := ask[*kmsg.AlterConfigsResponse](h, 2, req)
	require.Zero(t, got.Resources[0].ErrorCode)
	require.Equal(t, kerr.InvalidRequest.Code, got.Resources[1].ErrorCode, "named twice")
	a, _ := h.follower.Image().Topic("a")
	require.Equal(t, map[string]string{"retention.ms": "60000"}, a.Configs)
}

// U3: tools ask brokers for Kafka's names, and are told how to change what is read-only.
func TestU3_BrokersAreDescribedUnderKafkasNames(t *testing.T) {
	h := build(t)
	broker := kmsg.ConfigResourceTypeBroker
	got := byName(describe(h, broker, "1"))
	for _, name := range []string{"default.replication.factor", "delete.topic.enable", "auto.create.topics.enable", "num.partitions",
		"message.max.bytes", "offsets.retention.minutes", "log.retention.hours"} {
		require.Contains(t, got, name)
		require.True(t, got[name].ReadOnly)
	}
	require.Equal(t, "true", *got["auto.create.topics.enable"].Value)
	require.Equal(t, "1", *got["default.replication.factor"].Value, "what a topic here gets, where nothing is set")
	require.Empty(t, describe(h, broker, "").Configs)
	require.Equal(t, kerr.InvalidRequest.Code, describe(h, broker, "2").ErrorCode)
	require.Equal(t, kerr.InvalidRequest.Code, describe(h, broker, "one").ErrorCode)
	refused := alter(h, broker, "1", change{"log.retention.ms", set, "1"})
	require.Equal(t, kerr.InvalidRequest.Code, refused.ErrorCode)
	require.Contains(t, *refused.ErrorMessage, "TIDEMARK_")

	require.NotEmpty(t, describe(h, kmsg.ConfigResourceTypeGroupConfig, "g").Configs)
	require.Equal(t, kerr.InvalidRequest.Code, alter(h, kmsg.ConfigResourceTypeGroupConfig, "g", change{"x", set, "1"}).ErrorCode)
	require.Equal(t, kerr.InvalidRequest.Code, describe(h, kmsg.ConfigResourceTypeBrokerLogger, "1").ErrorCode)
}

func TestListConfigResources(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	got := ask[*kmsg.ListConfigResourcesResponse](h, 1, kmsg.NewPtrListConfigResourcesRequest())
	require.Len(t, got.ConfigResources, 2)
	require.Equal(t, "a", got.ConfigResources[0].Name)
	require.Empty(t, ask[*kmsg.ListConfigResourcesResponse](h, 0, kmsg.NewPtrListConfigResourcesRequest()).ConfigResources)
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{77}
	require.Equal(t, kerr.UnsupportedVersion.Code, ask[*kmsg.ListConfigResourcesResponse](h, 1, req).ErrorCode)
}
