package handler

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
)

// DeleteTopics (key 20), versions 1–6.
//
//   - v6 names topics by name or by id, not both: INVALID_REQUEST. An unknown name is
//     UNKNOWN_TOPIC_OR_PARTITION, an unknown id UNKNOWN_TOPIC_ID.
//   - The name and the committed offsets are free when it answers; local files and objects go later, in
//     steps (R8, H33). A topic of the same name has another id and shares nothing with the old one (D18).
func beginDeleteTopics(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DeleteTopicsRequest)
	resp := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()

	asked := r.Topics
	for i := range r.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &r.TopicNames[i]
		asked = append(asked, t)
	}
	seen := map[catalog.TopicID]bool{}
	deleted := false
	for _, t := range asked {
		e := kmsg.NewDeleteTopicsResponseTopic()
		e.Topic, e.TopicID = t.Topic, t.TopicID
		id, name, err := h.resolve(t.Topic, t.TopicID)
		if err == nil {
			e.Topic, e.TopicID = &name, id
			if seen[id] {
				err = refuse(kerr.InvalidRequest, "The topic %s is named twice.", name)
			}
			seen[id] = true
		}
		if err == nil {
			err = untilKnown(ctx, func() error { return h.Catalog.DeleteTopic(ctx, id) })
			if err == nil {
				deleted = true
				h.told(conn, req, "topic deleted", "topic", name, "id", id)
			}
		}
		if errors.Is(err, catalog.ErrUnknownTopic) && t.Topic == nil {
			err = refuse(kerr.UnknownTopicID, "There is no topic with the id %s.", id)
		}
		e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
		resp.Topics = append(resp.Topics, e)
	}
	if deleted {
		// The topics are gone whether or not this broker hears of it now; its loop will.
		if err := h.Metadata.Refresh(ctx); err != nil {
			h.Log.Warn("topics were deleted; their partitions close when the catalog answers", "error", err)
		}
	}
	return wire.Respond(resp)
}

// resolve finds the topic that a request names either by name or by id.
func (h *Handlers) resolve(name *string, id catalog.TopicID) (catalog.TopicID, string, error) {
	im := h.Metadata.Image()
	switch {
	case name != nil && id != (catalog.TopicID{}):
		return id, "", refuse(kerr.InvalidRequest, "Topic %s is named by name and by id %s: only one of them may be given.", *name, id)
	case name != nil:
		if t, ok := im.Topic(*name); ok {
			return t.ID, t.Name, nil
		}
		return id, "", refuse(kerr.UnknownTopicOrPartition, "There is no topic %s.", *name)
	}
	if t, ok := im.TopicByID(id); ok {
		return t.ID, t.Name, nil
	}
	return id, "", refuse(kerr.UnknownTopicID, "There is no topic with the id %s.", id)
}
