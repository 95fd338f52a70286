package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/record"
)

// The special timestamps of ListOffsets.
const (
	askLatest        = -1
	askEarliest      = -2
	askMaxTimestamp  = -3 // KIP-734, v7
	askEarliestLocal = -4 // KIP-405, v8
	askLatestTiered  = -5 // KIP-1005, v9
	askPendingUpload = -6 // KIP-1023, v11
)

// coldLookup bounds a lookup by time where the request does not.
const coldLookup = 30 * time.Second

// ListOffsets, key 2, versions 1–11. A special timestamp in a version that does not know it is answered
// UNSUPPORTED_VERSION for its partition. Lookups by time may have to ask the object tier, so the request
// waits off the connection's goroutine; they are bounded by v10's timeout.
func beginListOffsets(h *Handlers, ctx context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ListOffsetsRequest)
	if !byTime(r) {
		return wire.Respond(h.listOffsets(ctx, r))
	}
	return h.later(func() wire.Reply {
		limit := coldLookup
		if r.Version >= 10 && r.TimeoutMillis > 0 {
			limit = time.Duration(r.TimeoutMillis) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return wire.Respond(h.listOffsets(ctx, r))
	})
}

// byTime reports whether any entry may need the object tier.
func byTime(r *kmsg.ListOffsetsRequest) bool {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.Timestamp >= 0 || p.Timestamp == askMaxTimestamp {
				return true
			}
		}
	}
	return false
}

func (h *Handlers) listOffsets(ctx context.Context, r *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
	type key struct {
		topic string
		part  int32
	}
	seen := map[key]bool{}
	for _, t := range r.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Timestamp, rp.Offset, rp.LeaderEpoch = p.Partition, record.NoTimestamp, -1, -1
			var tp partition.TimePoint
			err := error(kerr.InvalidRequest)
			if !seen[key{t.Topic, p.Partition}] {
				seen[key{t.Topic, p.Partition}] = true
				tp, err = h.listOffset(ctx, r, t.Topic, p)
			}
			if err != nil {
				rp.ErrorCode = codeFor(err)
			} else {
				rp.Timestamp, rp.Offset, rp.LeaderEpoch = tp.Timestamp, int64(tp.Offset), int32(tp.Epoch)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// since is the version from which a special timestamp is known; 0 for a time.
func since(ts int64) (version int16, known bool) {
	switch ts {
	case askLatest, askEarliest:
		return 1, true
	case askMaxTimestamp:
		return 7, true
	case askEarliestLocal:
		return 8, true
	case askLatestTiered:
		return 9, true
	case askPendingUpload:
		return 11, true
	}
	return 1, ts >= 0
}

func (h *Handlers) listOffset(ctx context.Context, r *kmsg.ListOffsetsRequest, topic string, q kmsg.ListOffsetsRequestTopicPartition) (partition.TimePoint, error) {
	none := partition.TimePoint{Offset: -1, Timestamp: record.NoTimestamp, Epoch: record.NoEpoch}
	if v, known := since(q.Timestamp); !known || r.Version < v {
		return none, fmt.Errorf("%w: timestamp %d in version %d", kerr.UnsupportedVersion, q.Timestamp, r.Version)
	}
	p, err := h.find(false, topic, catalog.TopicID{}, q.Partition)
	if err != nil {
		return none, err
	}
	if r.ReplicaID == partition.AnyReplica && q.Timestamp == askLatest { // the end of this replica's own log, whoever leads
		end, err := p.LogEnd()
		return partition.TimePoint{Offset: end.End, Timestamp: record.NoTimestamp, Epoch: end.Epoch}, err
	}
	client := record.NoEpoch
	if r.Version >= 4 {
		client = record.Epoch(q.CurrentLeaderEpoch)
	}
	v, err := p.View(client, r.IsolationLevel == 1)
	if err != nil {
		return none, err
	}
	at := func(o record.Offset) partition.TimePoint {
		return partition.TimePoint{Offset: o, Timestamp: record.NoTimestamp, Epoch: v.EpochAt(o)}
	}
	if q.Timestamp == askLatest || q.Timestamp == askMaxTimestamp || q.Timestamp >= 0 {
		if err := v.EndKnown(); err != nil {
			if r.Version < 5 { // KIP-207: they do not know the other one
				err = fmt.Errorf("%w: %w", kerr.LeaderNotAvailable, err)
			}
			return none, err
		}
	}
	switch q.Timestamp {
	case askLatest:
		tp := at(v.Visible)
		tp.Epoch = p.LeaderEpoch()
		return tp, nil
	case askEarliest:
		return at(v.Start), nil
	case askEarliestLocal:
		return at(v.LocalStart), nil
	case askLatestTiered:
		return v.LatestTiered(), nil
	case askPendingUpload:
		return v.PendingUpload(), nil
	case askMaxTimestamp:
		return v.MaxTimestamp(ctx)
	}
	return v.AtTime(ctx, q.Timestamp)
}
