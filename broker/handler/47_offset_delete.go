package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// OffsetDelete (key 47), version 0 (KIP-496): forgets committed offsets. A topic that the group's members
// read is GROUP_SUBSCRIBED_TO_TOPIC.
func beginOffsetDelete(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.OffsetDeleteRequest)
	resp := r.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var topics []group.TopicPartitions
	for _, t := range r.Topics {
		tp := group.TopicPartitions{Name: t.Topic}
		for _, p := range t.Partitions {
			tp.Partitions = append(tp.Partitions, p.Partition)
		}
		topics = append(topics, tp)
	}
	all := newGather(1, resp)
	h.Groups.DeleteOffsets(r.Group, topics, func(code group.Code, codes []group.Code) {
		resp.ErrorCode = int16(code)
		for i, c := range codes {
			e := kmsg.NewOffsetDeleteResponseTopic()
			e.Topic = topics[i].Name
			for _, p := range topics[i].Partitions {
				ep := kmsg.NewOffsetDeleteResponseTopicPartition()
				ep.Partition, ep.ErrorCode = p, int16(c)
				e.Partitions = append(e.Partitions, ep)
			}
			resp.Topics = append(resp.Topics, e)
		}
		all.done()
	})
	return all.reply()
}
