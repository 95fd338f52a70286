package handler

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// CreatePartitions (key 37), versions 0–3: raises a topic's partition count. The new partitions have as
// many replicas as the topic's first one, or are placed as the request says. A count that is no increase
// is INVALID_PARTITIONS; a topic that is named twice INVALID_REQUEST. It answers when this broker's own
// state holds the new partitions.
func beginCreatePartitions(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.CreatePartitionsRequest)
	resp := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()

	seen := map[string]bool{}
	changed := false
	for _, t := range r.Topics {
		e := kmsg.NewCreatePartitionsResponseTopic()
		e.Topic = t.Topic
		var err error
		if seen[t.Topic] {
			err = refuse(kerr.InvalidRequest, "The topic %s is named twice.", t.Topic)
		} else {
			err = h.createPartitions(ctx, t, r.ValidateOnly)
			if err == nil && !r.ValidateOnly {
				changed = true
				h.told(conn, req, "partitions added", "topic", t.Topic, "partitions", t.Count)
			}
		}
		seen[t.Topic] = true
		e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
		resp.Topics = append(resp.Topics, e)
	}
	if changed {
		if err := h.Metadata.Refresh(ctx); err != nil {
			for i := range resp.Topics {
				if e := &resp.Topics[i]; e.ErrorCode == 0 {
					e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
				}
			}
		}
	}
	return wire.Respond(resp)
}

func (h *Handlers) createPartitions(ctx context.Context, t kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	im := h.Metadata.Image()
	topic, ok := im.Topic(t.Topic)
	if !ok {
		return refuse(kerr.UnknownTopicOrPartition, "There is no topic %s.", t.Topic)
	}
	where, err := placeMore(topic, t)
	if err != nil {
		return err
	}
	if validateOnly {
		_, err := where(im.Placeable())
		return err
	}
	asked := false
	return untilKnown(ctx, func() error {
		err := h.Catalog.AddPartitions(ctx, topic.ID, int(t.Count), where)
		if errors.Is(err, catalog.ErrInvalid) && asked && h.hasPartitions(ctx, t) {
			return nil // the first call had been heard, only its answer was lost
		}
		asked = true
		return err
	})
}

// hasPartitions reports whether the topic has by now what the request asks for.
func (h *Handlers) hasPartitions(ctx context.Context, t kmsg.CreatePartitionsRequestTopic) bool {
	if h.Metadata.Refresh(ctx) != nil {
		return false
	}
	topic, ok := h.Metadata.Image().Topic(t.Topic)
	return ok && len(topic.Partitions) == int(t.Count)
}

// placeMore checks a request for more partitions and says where they go.
func placeMore(topic *metadata.Topic, t kmsg.CreatePartitionsRequestTopic) (place, error) {
	have, want := len(topic.Partitions), int(t.Count)
	switch {
	case want == have:
		return nil, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case want < have:
		return nil, refuse(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, have, want)
	case want-have > maxPartitions:
		return nil, refuse(kerr.PolicyViolation, "Excessively large number of partitions per request: %d, at most %d.", want-have, maxPartitions)
	}
	replicas := len(topic.Partitions[0].Replicas)
	if t.Assignment == nil {
		return spread(want-have, replicas), nil
	}
	if len(t.Assignment) != want-have {
		return nil, refuse(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", want-have, len(t.Assignment))
	}
	lists := make([][]int32, 0, len(t.Assignment))
	for _, a := range t.Assignment {
		if len(a.Replicas) != replicas {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes a partition with %d replica(s), but the topic's partitions have %d.", len(a.Replicas), replicas)
		}
		lists = append(lists, a.Replicas)
	}
	return assigned(lists)
}
