package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/record"
)

// OffsetForLeaderEpoch, key 23, versions 0–4 (KIP-101, KIP-279, KIP-320): where an epoch ended, from the
// history since the log start, the object tier's part included. An epoch above all known ones is
// answered -1, -1 without an error.
func beginOffsetForLeaderEpoch(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, q := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = q.Partition, -1, -1
			client := record.NoEpoch
			if r.Version >= 2 {
				client = record.Epoch(q.CurrentLeaderEpoch)
			}
			p, err := h.find(false, t.Topic, catalog.TopicID{}, q.Partition)
			if err == nil {
				var e record.Epoch
				var end record.Offset
				e, end, err = p.EpochEnd(client, record.Epoch(q.LeaderEpoch))
				rp.LeaderEpoch, rp.EndOffset = int32(e), int64(end)
			}
			rp.ErrorCode = codeFor(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Respond(resp)
}
