package handler

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// seeds are requests that reach deep into the handlers, for garbage to be made from.
func seeds() []kmsg.Request {
	who := joined{"m", 1}
	create := createRequest(withConfig(withReplicas(newTopic("b", -1), 0, 1), "retention.ms", kmsg.StringPtr("1")))
	create.ValidateOnly = true
	configs := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, "a", []string{"retention.ms"}
	configs.Resources = append(configs.Resources, res)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = "a", []int32{0, 1}
	group.Group, group.Topics = "g", append(group.Topics, topic)
	fetch.Groups = append(fetch.Groups, group)
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "a"}, {Topic: "b"}}
	describe.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "a", Partition: 1}
	reqs := []kmsg.Request{
		metadataOf("a", "b"), create, configs, fetch, describe, joinRequest("g", "m"),
		commitRequest("g", who, 4, topicNamed("a")),
	}
	versions := []int16{12, 7, 4, 9, 0, 9, 9}
	for i, v := range versions {
		reqs[i].SetVersion(v)
	}
	for _, a := range byNumber() {
		req := kmsg.RequestForKey(a.key)
		req.SetVersion(a.max)
		reqs = append(reqs, req)
	}
	return reqs
}

// Garbage in a frame closes its connection or is answered; it never panics, which would show as a closed
// connection with that reason, or end this process.
func TestGarbageInRequestsNeverPanics(t *testing.T) {
	h := build(t)
	h.create(2, "a")
	all := seeds()
	rapid.Check(t, func(rt *rapid.T) {
		c := h.client()
		defer c.Close()
		frame := c.Frame(all[rapid.IntRange(0, len(all)-1).Draw(rt, "seed")])
		for range rapid.IntRange(0, 4).Draw(rt, "flips") {
			frame[rapid.IntRange(6, len(frame)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		if err := c.SendRaw(frame); err != nil {
			return
		}
		require.NoError(rt, c.Conn().(*net.TCPConn).CloseWrite())
		require.NoError(rt, c.Conn().SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.Copy(io.Discard, c.Conn())
		if err != nil && !errors.Is(err, syscall.ECONNRESET) {
			rt.Fatalf("neither answered nor closed: %v", err)
		}
	})
	families, err := h.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" && l.GetValue() == "panic" {
					require.Zero(t, m.GetCounter().GetValue(), "a handler panicked")
				}
			}
		}
	}
}
