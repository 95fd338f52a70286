package handler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// Metadata (key 3), versions 0–13.
//
//   - v0: no topic named means all; from v1 on null means all and an empty list none.
//   - Topics by name, from v12 on also by id (KIP-516): an unknown name is UNKNOWN_TOPIC_OR_PARTITION, an
//     unknown id UNKNOWN_TOPIC_ID, a name that no topic can have INVALID_TOPIC_EXCEPTION. Entries come in
//     the order of the request, each topic once.
//   - A named topic that is missing is created when TIDEMARK_AUTO_CREATE_TOPICS is set and the request
//     allows it (v4+; older ones always do), and is in the same answer with its leaders.
//   - Brokers are named by the address that they advertise under the listener that the request came in by
//     (KIP-103, H29). The controller is the one that this broker has seen; while nobody has the role, the
//     answering broker, because most of what administrators ask any broker does.
//   - A partition without a live leader is LEADER_NOT_AVAILABLE, leader -1; v5+ list the replicas whose
//     brokers are away.
func beginMetadata(h *Handlers, ctx context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.MetadataRequest)
	if missing := h.missing(r); len(missing) > 0 {
		// A catalog that does not answer must not hold up what else the connection asks.
		return h.later(func() wire.Reply {
			failed := h.createMissing(ctx, missing)
			return wire.Respond(h.metadata(c.Listener(), r, failed))
		})
	}
	return wire.Respond(h.metadata(c.Listener(), r, nil))
}

// metadata makes the answer; failed says why topics could not be created.
func (h *Handlers) metadata(listener string, r *kmsg.MetadataRequest, failed map[string]error) *kmsg.MetadataResponse {
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	v := h.view(listener)
	resp.Topics = metadataTopics(v, r, failed)
	for _, n := range v.nodes() {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = n.id, n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	id := h.Cluster.ID.String()
	resp.ClusterID = &id
	resp.ControllerID = h.controllerID(v)
	resp.AuthorizedOperations = operations(r.IncludeClusterAuthorizedOperations, clusterOperations)
	return resp
}

func metadataTopics(v view, r *kmsg.MetadataRequest, failed map[string]error) []kmsg.MetadataResponseTopic {
	show := topicShow{view: v, asked: r.IncludeTopicAuthorizedOperations, version: r.Version}
	out := []kmsg.MetadataResponseTopic{}
	if r.Topics == nil || (r.Version == 0 && len(r.Topics) == 0) {
		for _, t := range v.im.Topics() {
			out = append(out, show.topic(t))
		}
		return out
	}
	seenName, seenID := map[string]bool{}, map[catalog.TopicID]bool{}
	for _, t := range r.Topics {
		// An id goes before a name: the Java client sends an empty name with it.
		switch byID := t.Topic == nil || t.TopicID != [16]byte{}; {
		case byID && !seenID[t.TopicID]:
			seenID[t.TopicID] = true
			out = append(out, show.byID(t.TopicID))
		case !byID && !seenName[*t.Topic]:
			seenName[*t.Topic] = true
			out = append(out, show.named(*t.Topic, failed[*t.Topic]))
		}
	}
	return out
}

// missing names the topics that are to be created for the request.
func (h *Handlers) missing(r *kmsg.MetadataRequest) []string {
	if !h.Config.Topics.AutoCreate || (r.Version >= 4 && !r.AllowAutoTopicCreation) {
		return nil
	}
	im := h.Metadata.Image()
	var names []string
	for _, t := range r.Topics {
		if t.Topic == nil || t.TopicID != [16]byte{} || slices.Contains(names, *t.Topic) {
			continue
		}
		if _, there := im.Topic(*t.Topic); !there && checkTopicName(*t.Topic) == nil {
			names = append(names, *t.Topic)
		}
	}
	return names
}

// autoCreateWait bounds what a Metadata request waits for the topics that it makes; clients ask again.
const autoCreateWait = 3 * time.Second

// createMissing creates topics with the broker's defaults and returns why some could not be made.
func (h *Handlers) createMissing(ctx context.Context, names []string) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, autoCreateWait)
	defer cancel()
	failed := map[string]error{}
	for _, name := range names {
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = name, -1, -1
		p, err := h.planTopic(h.Metadata.Image(), asked)
		if err == nil {
			if _, err = h.Catalog.CreateTopic(ctx, p.topic); err == nil {
				h.Log.Info("topic created, because a client named it", "topic", name, "id", p.topic.ID)
			}
		}
		// Somebody else may have made it in the meantime.
		if err != nil && !errors.Is(err, catalog.ErrTopicExists) && !errors.Is(err, kerr.TopicAlreadyExists) {
			failed[name] = err
		}
	}
	if len(failed) == len(names) {
		return failed
	}
	if err := h.Metadata.Refresh(ctx); err != nil {
		for _, name := range names {
			failed[name] = err
		}
	}
	return failed
}

// topicShow makes the topics' part of one answer.
type topicShow struct {
	view    view
	asked   bool // for authorized operations
	version int16
}

// named shows the topic of a name; failed says why it could not be created, if that was tried.
func (s topicShow) named(name string, failed error) kmsg.MetadataResponseTopic {
	if found, ok := s.view.im.Topic(name); ok {
		return s.topic(found)
	}
	e := kmsg.NewMetadataResponseTopic()
	e.Topic, e.Partitions = &name, []kmsg.MetadataResponseTopicPartition{}
	nameErr := checkTopicName(name)
	switch {
	case nameErr != nil:
		e.ErrorCode = codeFor(nameErr)
	case catalog.Unavailable(failed):
		// Clients retry this one for a topic; REQUEST_TIMED_OUT some of them do not.
		e.ErrorCode = kerr.LeaderNotAvailable.Code
	case failed != nil:
		e.ErrorCode = codeFor(failed)
	default:
		e.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	return e
}

func (s topicShow) byID(id catalog.TopicID) kmsg.MetadataResponseTopic {
	t, ok := s.view.im.TopicByID(id)
	if ok && s.version >= 12 {
		return s.topic(t)
	}
	e := kmsg.NewMetadataResponseTopic()
	e.TopicID, e.Partitions = id, []kmsg.MetadataResponseTopicPartition{}
	e.ErrorCode = kerr.UnknownTopicID.Code
	if s.version < 12 || id == (catalog.TopicID{}) {
		e.ErrorCode = kerr.InvalidRequest.Code
		none := "" // not nullable before v12
		e.Topic = &none
	}
	return e
}

func (s topicShow) topic(t *metadata.Topic) kmsg.MetadataResponseTopic {
	e := kmsg.NewMetadataResponseTopic()
	e.Topic, e.TopicID = &t.Name, t.ID
	e.AuthorizedOperations = operations(s.asked, topicOperations)
	e.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for _, p := range t.Partitions {
		st := s.view.partition(p)
		if st.code == kerr.ListenerNotFound.Code && s.version < 6 {
			st.code = kerr.LeaderNotAvailable.Code
		}
		mp := kmsg.NewMetadataResponseTopicPartition()
		mp.ErrorCode, mp.Partition = st.code, p.ID.Partition
		mp.Leader, mp.LeaderEpoch = st.leader, st.epoch
		mp.Replicas, mp.ISR, mp.OfflineReplicas = st.replicas, st.isr, st.offline
		e.Partitions = append(e.Partitions, mp)
	}
	return e
}
