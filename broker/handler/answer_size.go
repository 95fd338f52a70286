package handler

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/wire"
)

// What an entry of an answer takes in memory, as values and as bytes, roughly.
const (
	answeredTopic     = 256
	answeredPartition = 256
	answeredConfigs   = 32 << 10 // all configs of a topic or a broker, with synonyms and documentation
	answeredProducer  = 80
	answeredGroup     = 256
	// echoedByte is what a byte of a request may take in the answer, where each thing that it names has an entry.
	echoedByte = 64
	// unreadRequest is the size of a request whose echo is not worth counting.
	unreadRequest = 16 << 10
)

// AnswerSize implements wire.Handler. What waits for members of a group takes nothing: TIDEMARK_GROUP_MEMORY bounds it.
func (h *Handlers) AnswerSize(req *wire.Request) int {
	echo := 0
	if req.Size() > unreadRequest {
		echo = req.Size() * echoedByte
	}
	switch r := req.Body.(type) {
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest:
		return 0
	case *kmsg.MetadataRequest:
		if r.Topics == nil || (r.Version == 0 && len(r.Topics) == 0) {
			return answeredTopics(h.Metadata.Image())
		}
		return echo + h.answeredNamed(r)
	case *kmsg.DescribeTopicPartitionsRequest:
		return echo + maxDescribedPartitions*answeredPartition
	case *kmsg.ListConfigResourcesRequest:
		return echo + h.Metadata.Image().TopicCount()*answeredTopic
	case *kmsg.ListPartitionReassignmentsRequest:
		return answeredTopics(h.Metadata.Image())
	case *kmsg.DescribeLogDirsRequest:
		if r.Topics == nil {
			return answeredTopics(h.Metadata.Image())
		}
	case *kmsg.DescribeConfigsRequest:
		return echo + len(r.Resources)*answeredConfigs
	case *kmsg.DescribeProducersRequest:
		n := 0
		for _, t := range r.Topics {
			n += len(t.Partitions)
		}
		return echo + n*h.Config.Disk.MaxProducerIDs*answeredProducer
	case *kmsg.DescribeGroupsRequest:
		for _, g := range r.Groups {
			echo += 3 * h.Groups.Bytes(g)
		}
	case *kmsg.ListGroupsRequest:
		return h.Groups.Count() * answeredGroup
	case *kmsg.OffsetFetchRequest:
		return echo + h.answeredOffsets(r)
	}
	return echo
}

// answeredTopics is what an answer about all topics takes.
func answeredTopics(im *metadata.Image) int {
	return im.TopicCount()*answeredTopic + im.PartitionCount()*answeredPartition
}

func (h *Handlers) answeredNamed(r *kmsg.MetadataRequest) (n int) {
	im := h.Metadata.Image()
	for _, t := range r.Topics {
		found, ok := im.TopicByID(t.TopicID)
		if t.Topic != nil && *t.Topic != "" {
			found, ok = im.Topic(*t.Topic)
		}
		if ok {
			n += answeredTopic + len(found.Partitions)*answeredPartition
		}
	}
	return n
}

// answeredOffsets is what an answer about offsets takes, each with the text that was committed with it.
func (h *Handlers) answeredOffsets(r *kmsg.OffsetFetchRequest) int {
	most := answeredPartition + h.Config.Groups.OffsetMetadataMax
	if r.Version < 8 {
		asked := 0
		for _, t := range r.Topics {
			asked += len(t.Partitions)
		}
		return h.answeredGroup(r.Group, r.Topics == nil, asked*most)
	}
	n := 0
	for _, g := range r.Groups {
		asked := 0
		for _, t := range g.Topics {
			asked += len(t.Partitions)
		}
		n += h.answeredGroup(g.Group, g.Topics == nil, asked*most)
	}
	return n
}

func (h *Handlers) answeredGroup(group string, all bool, most int) int {
	if !all && most <= unreadRequest {
		return most
	}
	n := h.Groups.OffsetBytes(group)
	if all {
		return n
	}
	return min(n, most)
}

// once leaves out of a request's entries what is named again, so that a name of some bytes is not answered at length a
// million times.
func once[E any, K comparable](entries []E, key func(E) K) []E {
	if len(entries) < 2 {
		return entries
	}
	seen := make(map[K]bool, len(entries))
	return slices.DeleteFunc(slices.Clone(entries), func(e E) bool {
		k := key(e)
		again := seen[k]
		seen[k] = true
		return again
	})
}
