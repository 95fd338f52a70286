package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// OffsetFetch (key 9), versions 1–10: one group up to v7, several from v8 on (KIP-709), topics by id in
// v10 (KIP-848). No topic list means all (v2+). Offset -1 is answered only when the catalog holds no row,
// also for a group that nobody knows; while a group is being read it is COORDINATOR_LOAD_IN_PROGRESS
// (G4, G11). An error of the group stands beside each asked partition too (G5). There are no
// transactional commits yet, so every offset is stable (v7+).
func beginOffsetFetch(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.OffsetFetchRequest)
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	if r.Version < 8 {
		ask := group.FetchRequest{Group: r.Group, All: r.Topics == nil}
		for _, t := range r.Topics {
			ask.Topics = append(ask.Topics, group.TopicPartitions{Name: t.Topic, Partitions: t.Partitions})
		}
		all := newGather(1, resp)
		h.Groups.FetchOffsets(ask, func(f group.FetchResponse) {
			resp.ErrorCode, resp.Topics = int16(f.Code), fetchedTopics(f)
			all.done()
		})
		return all.reply()
	}
	groups := once(r.Groups, func(g kmsg.OffsetFetchRequestGroup) string { return g.Group })
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(groups))
	all := newGather(len(groups), resp)
	for i, g := range groups {
		ask := group.FetchRequest{Group: g.Group, All: g.Topics == nil}
		for _, t := range g.Topics {
			ask.Topics = append(ask.Topics, group.TopicPartitions{Name: t.Topic, ID: t.TopicID, Partitions: t.Partitions})
		}
		h.Groups.FetchOffsets(ask, func(f group.FetchResponse) {
			e := kmsg.NewOffsetFetchResponseGroup()
			e.Group, e.ErrorCode, e.Topics = g.Group, int16(f.Code), fetchedGroupTopics(f)
			resp.Groups[i] = e
			all.done()
		})
	}
	return all.reply()
}

func fetchedTopics(f group.FetchResponse) []kmsg.OffsetFetchResponseTopic {
	out := []kmsg.OffsetFetchResponseTopic{}
	for _, t := range f.Topics {
		e := kmsg.NewOffsetFetchResponseTopic()
		e.Topic = t.Name
		for _, p := range t.Partitions {
			ep := kmsg.NewOffsetFetchResponseTopicPartition()
			ep.Partition, ep.Offset, ep.LeaderEpoch = p.Partition, int64(p.Offset), int32(p.LeaderEpoch)
			ep.Metadata, ep.ErrorCode = &p.Metadata, int16(p.Code)
			e.Partitions = append(e.Partitions, ep)
		}
		out = append(out, e)
	}
	return out
}

func fetchedGroupTopics(f group.FetchResponse) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, t := range f.Topics {
		e := kmsg.NewOffsetFetchResponseGroupTopic()
		e.Topic, e.TopicID = t.Name, t.ID
		for _, p := range t.Partitions {
			ep := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			ep.Partition, ep.Offset, ep.LeaderEpoch = p.Partition, int64(p.Offset), int32(p.LeaderEpoch)
			ep.Metadata, ep.ErrorCode = &p.Metadata, int16(p.Code)
			e.Partitions = append(e.Partitions, ep)
		}
		out = append(out, e)
	}
	return out
}
