package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// ElectLeaders (key 43), versions 0–2: type 0 gives partitions to their preferred replicas where those are
// in sync, type 1 (v1+) gives partitions without leader to any live replica and accepts what is lost by
// it (KIP-460; `tidemark topic elect --accept-loss`). No topic list means all partitions. Only the
// controller does it: NOT_CONTROLLER elsewhere. A partition that is led as it should be is
// ELECTION_NOT_NEEDED.
func beginElectLeaders(h *Handlers, ctx context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ElectLeadersRequest)
	resp := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()

	if err := h.Metadata.Refresh(ctx); err != nil {
		resp.ErrorCode = codeFor(err)
		return wire.Respond(resp)
	}
	ids, topics := electable(h.Metadata.Image(), r)
	errs, err := h.electLeaders(ctx, ids, r.ElectionType)
	resp.ErrorCode = codeFor(err)
	for i, t := range topics {
		if i == 0 || t.name != topics[i-1].name {
			resp.Topics = append(resp.Topics, kmsg.ElectLeadersResponseTopic{Topic: t.name})
		}
		e := kmsg.NewElectLeadersResponseTopicPartition()
		e.Partition = t.partition
		failed := err
		switch {
		case failed == nil && !t.known:
			failed = refuse(kerr.UnknownTopicOrPartition, "There is no partition %d of a topic %s.", t.partition, t.name)
		case failed == nil:
			failed = errs[t.at]
		}
		e.ErrorCode, e.ErrorMessage = codeFor(failed), messageFor(failed)
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, e)
	}
	return wire.Respond(resp)
}

func (h *Handlers) electLeaders(ctx context.Context, ids []catalog.PartitionID, kind int8) ([]error, error) {
	const preferred, unclean = 0, 1
	if kind != preferred && kind != unclean {
		return nil, refuse(kerr.InvalidRequest, "There is no election of type %d: 0 is preferred, 1 is unclean.", kind)
	}
	return h.Controller.Elect(ctx, ids, kind == unclean)
}

// asked is one partition of a request, and where its outcome stands.
type asked struct {
	name      string
	partition int32
	known     bool
	at        int
}

func electable(im *metadata.Image, r *kmsg.ElectLeadersRequest) (ids []catalog.PartitionID, topics []asked) {
	add := func(name string, partition int32) {
		a := asked{name: name, partition: partition, at: len(ids)}
		if t, ok := im.Topic(name); ok && partition >= 0 && int(partition) < len(t.Partitions) {
			a.known = true
			ids = append(ids, t.Partitions[partition].ID)
		}
		topics = append(topics, a)
	}
	if r.Topics == nil {
		for _, t := range im.Topics() {
			for _, p := range t.Partitions {
				add(t.Name, p.ID.Partition)
			}
		}
		return ids, topics
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			add(t.Topic, p)
		}
	}
	return ids, topics
}
