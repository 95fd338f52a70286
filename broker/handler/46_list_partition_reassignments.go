package handler

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// ListPartitionReassignments (key 46), version 0: the partitions that move, of the named ones or, without
// a list, of all (KIP-455). Others are left out.
func beginListPartitionReassignments(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ListPartitionReassignmentsRequest)
	resp := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	im := h.Metadata.Image()
	if r.Topics == nil {
		for _, t := range im.Topics() {
			resp.Topics = appendMoves(resp.Topics, t, nil)
		}
		return wire.Respond(resp)
	}
	for _, asked := range r.Topics {
		if t, ok := im.Topic(asked.Topic); ok {
			resp.Topics = appendMoves(resp.Topics, t, asked.Partitions)
		}
	}
	return wire.Respond(resp)
}

// appendMoves adds the moving partitions of a topic; only names some of them, nil all.
func appendMoves(to []kmsg.ListPartitionReassignmentsResponseTopic, t *metadata.Topic, only []int32) []kmsg.ListPartitionReassignmentsResponseTopic {
	out := kmsg.ListPartitionReassignmentsResponseTopic{Topic: t.Name}
	for _, p := range t.Partitions {
		moving := len(p.Adding)+len(p.Removing) > 0
		if !moving || (only != nil && !slices.Contains(only, p.ID.Partition)) {
			continue
		}
		e := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		e.Partition, e.Replicas = p.ID.Partition, numbers(p.Replicas)
		e.AddingReplicas, e.RemovingReplicas = numbers(p.Adding), numbers(p.Removing)
		out.Partitions = append(out.Partitions, e)
	}
	if len(out.Partitions) == 0 {
		return to
	}
	return append(to, out)
}

func numbers(ids []catalog.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
