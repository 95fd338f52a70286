package handler

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
)

// maxDescribedPartitions is Kafka's max.request.partition.size.limit.
const maxDescribedPartitions = 2000

// DescribeTopicPartitions (key 75), version 0 (KIP-966): topics by name, in order, with their eligible
// replicas; all topics if none is named. An answer holds at most the asked number of partitions, 2000 at
// most, and a cursor to the first one that did not fit. A cursor whose topic is gone goes on with the
// next one.
func beginDescribeTopicPartitions(h *Handlers, _ context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := r.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	v := h.view(c.Listener())

	names := make([]string, 0, len(r.Topics))
	for _, t := range r.Topics {
		names = append(names, t.Topic)
	}
	if len(names) == 0 {
		for _, t := range v.im.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	first := int32(0)
	if r.Cursor != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return strings.Compare(n, r.Cursor.Topic) < 0 })
		if len(names) > 0 && names[0] == r.Cursor.Topic {
			first = max(0, r.Cursor.Partition)
		}
	}
	room := int32(maxDescribedPartitions)
	if r.ResponsePartitionLimit > 0 {
		room = min(room, r.ResponsePartitionLimit)
	}
	for _, name := range names {
		if room <= 0 {
			resp.NextCursor = cursorTo(name, first)
			break
		}
		t, ok := v.im.Topic(name)
		if !ok {
			resp.Topics = append(resp.Topics, undescribed(name))
			first = 0
			continue
		}
		e := v.describe(t, first, &room)
		resp.Topics = append(resp.Topics, e)
		if next := first + int32(len(e.Partitions)); int(next) < len(t.Partitions) {
			resp.NextCursor = cursorTo(name, next)
			break
		}
		first = 0
	}
	return wire.Respond(resp)
}

func cursorTo(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

func undescribed(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	e := kmsg.NewDescribeTopicPartitionsResponseTopic()
	e.Topic, e.ErrorCode = &name, kerr.UnknownTopicOrPartition.Code
	if err := checkTopicName(name); err != nil {
		e.ErrorCode = codeFor(err)
	}
	return e
}

// describe shows the partitions from first on, as many as there is room for, and takes the room.
func (v view) describe(t *metadata.Topic, first int32, room *int32) kmsg.DescribeTopicPartitionsResponseTopic {
	e := kmsg.NewDescribeTopicPartitionsResponseTopic()
	e.Topic, e.TopicID, e.AuthorizedOperations = &t.Name, t.ID, topicOperations
	for i := int(first); i < len(t.Partitions) && *room > 0; i++ {
		*room--
		st := v.partition(t.Partitions[i])
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.ErrorCode, p.Partition, p.LeaderID, p.LeaderEpoch = st.code, int32(i), st.leader, st.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = st.replicas, st.isr, st.offline
		// Null, which the protocol allows for both, is a NullPointerException in the Java client.
		p.EligibleLeaderReplicas, p.LastKnownELR = st.elr, []int32{}
		e.Partitions = append(e.Partitions, p)
	}
	return e
}
