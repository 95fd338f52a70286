package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/record"
)

// OffsetCommit (key 8), versions 2–10. Commits of a connection take effect in the order of its requests;
// each partition is answered once its offset is durable in the catalog, or refused (G4).
//
//   - v10 names topics by id: one that is gone is UNKNOWN_TOPIC_ID and nothing is stored. By name, the
//     group has to join again after its topic was deleted and made anew: REBALANCE_IN_PROGRESS (G9).
//   - A partition that the topic does not have is UNKNOWN_TOPIC_OR_PARTITION, a negative offset
//     INVALID_COMMIT_OFFSET_SIZE; the other partitions are stored all the same.
//   - v2–v4's retention time is not looked at: offsets live as long as their group and
//     TIDEMARK_OFFSETS_RETENTION after it.
func beginOffsetCommit(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.OffsetCommitRequest)
	resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
	commit := group.CommitRequest{Identity: group.Identity{
		Group: r.Group, MemberID: r.MemberID, InstanceID: orEmpty(r.InstanceID), Generation: r.Generation,
	}}
	for _, t := range r.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		ct := group.CommitTopic{Name: t.Topic, ID: t.TopicID}
		partitions := h.partitionCount(t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			switch {
			case p.Partition < 0 || (partitions > 0 && int(p.Partition) >= partitions):
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Offset < 0:
				rp.ErrorCode = kerr.InvalidCommitOffsetSize.Code
			default:
				ct.Partitions = append(ct.Partitions, group.CommitPartition{
					Partition: p.Partition, Offset: record.Offset(p.Offset),
					LeaderEpoch: record.Epoch(p.LeaderEpoch), Metadata: orEmpty(p.Metadata),
				})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		commit.Topics = append(commit.Topics, ct)
		resp.Topics = append(resp.Topics, rt)
	}
	answer := wire.NewPending()
	h.Groups.CommitOffsets(commit, func(done group.CommitResponse) {
		fillCommit(resp, done)
		answer.Resolve(wire.Respond(resp))
	})
	return wire.Later(answer)
}

// fillCommit puts the codes of the partitions that were handed on, in their order, beside those that
// were refused before.
func fillCommit(resp *kmsg.OffsetCommitResponse, done group.CommitResponse) {
	for i := range resp.Topics {
		next := 0
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = int16(done.Topics[i].Partitions[next].Code)
				next++
			}
		}
	}
}

// partitionCount is how many partitions a topic has, named by id or, if that is zero, by name; 0 if it
// is not known here.
func (h *Handlers) partitionCount(name string, id catalog.TopicID) int {
	im := h.Metadata.Image()
	t, ok := im.Topic(name)
	if id != (catalog.TopicID{}) {
		t, ok = im.TopicByID(id)
	}
	if !ok {
		return 0
	}
	return len(t.Partitions)
}
