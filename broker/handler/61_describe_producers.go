package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/record"
)

// DescribeProducers (key 61), version 0 (KIP-664): the producers that a partition remembers. Only the
// leader answers: NOT_LEADER_OR_FOLLOWER elsewhere.
func beginDescribeProducers(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DescribeProducersRequest)
	resp := r.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, t := range once(r.Topics, func(t kmsg.DescribeProducersRequestTopic) string { return t.Topic }) {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, n := range once(t.Partitions, func(n int32) int32 { return n }) {
			rt.Partitions = append(rt.Partitions, h.producersOf(t.Topic, n))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Respond(resp)
}

func (h *Handlers) producersOf(topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	e := kmsg.NewDescribeProducersResponseTopicPartition()
	e.Partition = partition
	p, err := h.Partitions.Find(topic, partition)
	if err != nil {
		e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
		return e
	}
	active, err := p.Producers()
	e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
	for _, a := range active {
		ap := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		ap.ProducerID, ap.ProducerEpoch, ap.LastSequence = a.ID, int32(a.Epoch), a.LastSequence
		ap.LastTimestamp, ap.CoordinatorEpoch, ap.CurrentTxnStartOffset = a.LastTimestamp, a.CoordinatorEpoch, -1
		if a.TxnFirst != record.NoOffset {
			ap.CurrentTxnStartOffset = int64(a.TxnFirst)
		}
		e.ActiveProducers = append(e.ActiveProducers, ap)
	}
	return e
}
