package handler

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/replication"
)

// CreateTopics (key 19), versions 0–7.
//
//   - Partitions and replication factor -1 mean the broker's defaults (KIP-464; taken in older versions
//     too). Explicit assignments go with -1 for both.
//   - Configs are checked by broker/topicconfig with Kafka's sentences: INVALID_CONFIG.
//   - Validate only (v1+) checks the same and changes nothing.
//   - It answers when the topic is committed and this broker's own state holds it with its leaders, so the
//     client's next request finds it here. v5+ answer counts and configs (KIP-525), v7 the topic id.
//   - A catalog that does not answer is REQUEST_TIMED_OUT: the topic may or may not have been made.
func beginCreateTopics(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.CreateTopicsRequest)
	resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()

	// A broker that has just come counts at once. Without an answer the plan is made on what is known, save that
	// brokers are missing.
	stale := h.Metadata.Refresh(ctx)
	count := map[string]int{}
	for _, t := range r.Topics {
		count[t.Topic]++
	}
	created := false
	for _, t := range r.Topics {
		n := count[t.Topic]
		delete(count, t.Topic)
		switch n {
		case 0: // answered at its first entry
		case 1:
			e := h.createTopic(ctx, t, r.ValidateOnly, stale)
			if e.ErrorCode == 0 && !r.ValidateOnly {
				created = true
				h.told(conn, req, "topic created", "topic", e.Topic, "id", catalog.TopicID(e.TopicID), "partitions", e.NumPartitions,
					"replicas", e.ReplicationFactor)
			}
			resp.Topics = append(resp.Topics, e)
		default:
			resp.Topics = append(resp.Topics, topicRefused(t.Topic, refuse(kerr.InvalidRequest, "Duplicate topic name: %s.", t.Topic)))
		}
	}
	if created {
		if err := h.Metadata.Refresh(ctx); err != nil {
			for i, e := range resp.Topics {
				if e.ErrorCode == 0 {
					resp.Topics[i] = topicRefused(e.Topic, err)
				}
			}
		}
	}
	return wire.Respond(resp)
}

func topicRefused(name string, err error) kmsg.CreateTopicsResponseTopic {
	e := kmsg.NewCreateTopicsResponseTopic()
	e.Topic, e.ErrorCode, e.ErrorMessage = name, codeFor(err), messageFor(err)
	e.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return e
}

// createTopic makes one topic; stale says why the brokers that are known may be too few.
func (h *Handlers) createTopic(ctx context.Context, t kmsg.CreateTopicsRequestTopic, validateOnly bool, stale error) kmsg.CreateTopicsResponseTopic {
	p, err := h.planTopic(h.Metadata.Image(), t)
	if stale != nil && lacksBrokers(err) {
		err = stale
	}
	if err == nil && !validateOnly {
		err = untilKnown(ctx, func() error {
			_, err := h.Catalog.CreateTopic(ctx, p.topic)
			return err
		})
		if errors.Is(err, catalog.ErrTopicExists) {
			err = topicExists(t.Topic)
		}
	}
	if err != nil {
		return topicRefused(t.Topic, err)
	}
	e := kmsg.NewCreateTopicsResponseTopic()
	e.Topic, e.NumPartitions, e.ReplicationFactor = t.Topic, int32(p.partitions), int16(p.replicas)
	if !validateOnly {
		e.TopicID = p.topic.ID
	}
	for _, d := range h.Defaults.Describe(p.topic.Configs, p.replicas) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.ReadOnly, c.Source = d.Name, entryValue(d), d.ReadOnly, int8(d.Source)
		e.Configs = append(e.Configs, c)
	}
	return e
}

// lacksBrokers says that a plan failed because of the brokers that there are.
func lacksBrokers(err error) bool {
	var few replication.TooFewBrokersError
	return errors.As(err, &few) || errors.Is(err, kerr.InvalidReplicaAssignment)
}

func topicExists(name string) error {
	return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
}

// plan is a topic that can be created: the request checked, the defaults filled in.
type plan struct {
	topic                catalog.NewTopic
	partitions, replicas int
}

// planTopic checks a request for a topic against the cluster as im shows it. What depends on the
// brokers is checked again by the plan's Place, in the transaction.
func (h *Handlers) planTopic(im *metadata.Image, t kmsg.CreateTopicsRequestTopic) (plan, error) {
	if err := checkTopicName(t.Topic); err != nil {
		return plan{}, err
	}
	if _, there := im.Topic(t.Topic); there {
		return plan{}, topicExists(t.Topic)
	}
	if err := checkCollision(im, t.Topic); err != nil {
		return plan{}, err
	}
	p := plan{topic: catalog.NewTopic{ID: catalog.NewUUID(), Name: t.Topic, Configs: map[string]string{}}}
	if err := h.planPlace(&p, t); err != nil {
		return plan{}, err
	}
	placed, err := p.topic.Place(im.Placeable())
	if err != nil {
		return plan{}, err
	}
	p.partitions, p.replicas = len(placed), len(placed[0])
	for _, c := range t.Configs {
		if c.Value == nil {
			return plan{}, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s.", c.Name)
		}
		p.topic.Configs[c.Name] = *c.Value
	}
	return p, h.Defaults.Check(p.topic.Configs, p.replicas)
}

// planPlace decides how the topic's replicas are placed.
func (h *Handlers) planPlace(p *plan, t kmsg.CreateTopicsRequestTopic) (err error) {
	if len(t.ReplicaAssignment) > 0 {
		if t.ReplicationFactor != -1 {
			return refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
		}
		if t.NumPartitions != -1 {
			return refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
		}
		lists, err := assignmentLists(t.ReplicaAssignment)
		if err == nil {
			p.topic.Place, err = assigned(lists)
		}
		return err
	}
	n, rf := int(t.NumPartitions), int(t.ReplicationFactor)
	switch {
	case n == -1:
		n = h.Config.Topics.DefaultPartitions
	case n <= 0:
		return refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value: %d.", n)
	}
	if n > maxPartitions {
		return refuse(kerr.PolicyViolation, "Excessively large number of partitions per request: %d, at most %d.", n, maxPartitions)
	}
	switch {
	case rf == -1:
		rf = h.Config.Topics.DefaultReplication
	case rf <= 0:
		return refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value: %d.", rf)
	}
	p.topic.Place = spread(n, rf)
	return nil
}

// assignmentLists puts the assignments in the order of their partitions, which must be 0 to n-1.
func assignmentLists(as []kmsg.CreateTopicsRequestTopicReplicaAssignment) ([][]int32, error) {
	if len(as) > maxPartitions {
		return nil, refuse(kerr.PolicyViolation, "Excessively large number of partitions per request: %d, at most %d.", len(as), maxPartitions)
	}
	lists, seen := make([][]int32, len(as)), make([]bool, len(as))
	for _, a := range as {
		if a.Partition < 0 || int(a.Partition) >= len(as) {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"Partitions should be a consecutive 0-based integer sequence: there are %d, one of them is %d.", len(as), a.Partition)
		}
		if seen[a.Partition] {
			return nil, refuse(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d.", a.Partition)
		}
		lists[a.Partition], seen[a.Partition] = a.Replicas, true
	}
	return lists, nil
}

// entryValue is a described config's value as the protocol has it.
func entryValue(e topicconfig.Entry) *string {
	if e.Null {
		return nil
	}
	return &e.Value
}
