package handler

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/record"
)

// OffsetForLeaderEpoch, key 23, versions 0–4 (KIP-101, KIP-279, KIP-320): where an epoch ended, from the
// history since the log start, the object tier's part included. An epoch above all known ones is
// answered -1, -1 without an error. A replica that names a higher epoch than the one that this broker leads tells it
// that another leads by now (H17).
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
				if r.Version >= 3 && h.isReplica(p, r.ReplicaID) {
					p.HeardOf(client)
				}
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

// isReplica reports whether a broker is one of the partition's replicas. That it is who it says is not known: the
// worst that a liar does is a look at the catalog.
func (h *Handlers) isReplica(p *partition.Partition, id int32) bool {
	row, ok := h.Metadata.Image().Partition(p.ID)
	return ok && id >= 0 && slices.Contains(row.Replicas, catalog.BrokerID(id))
}
