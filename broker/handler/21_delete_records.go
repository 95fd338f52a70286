package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/record"
)

// DeleteRecords, key 21, versions 0–2: moves the log start over both tiers. It returns when the catalog
// has committed the new start; local files and objects go later. Offset -1 stands for the high watermark;
// one above it is OFFSET_OUT_OF_RANGE; a topic that is compacted only is POLICY_VIOLATION.
func beginDeleteRecords(h *Handlers, ctx context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DeleteRecordsRequest)
	resp := r.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()
	for _, t := range r.Topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for _, q := range t.Partitions {
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition, rp.LowWatermark = q.Partition, -1
			low, err := h.deleteRecords(ctx, t.Topic, q.Partition, record.Offset(q.Offset))
			rp.ErrorCode = codeFor(err)
			if err == nil {
				rp.LowWatermark = int64(low)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Respond(resp)
}

func (h *Handlers) deleteRecords(ctx context.Context, topic string, part int32, to record.Offset) (record.Offset, error) {
	p, err := h.find(false, topic, catalog.TopicID{}, part)
	if err != nil {
		return -1, err
	}
	return p.DeleteRecords(ctx, to)
}
