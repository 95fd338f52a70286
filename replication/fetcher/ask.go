package fetcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/record"
)

// callTime bounds a request that does not wait for records, and what a fetch may take beyond its wait.
const callTime = 10 * time.Second

// askEpochs asks the leader one question for each partition and cuts the logs whose place is found.
func (f *fetcher) askEpochs(ctx context.Context, parts []*part) error {
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.SetVersion(4)
	r.ReplicaID = int32(f.pool.o.Self.Broker)
	type key struct {
		topic string
		part  int32
	}
	by := map[key]*part{}
	at := map[string]int{}
	for _, p := range parts {
		epoch, more := p.trunc.Ask()
		if !more {
			f.cut(p)
			continue
		}
		i, ok := at[p.Topic]
		if !ok {
			i = len(r.Topics)
			at[p.Topic] = i
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = p.Topic
			r.Topics = append(r.Topics, t)
		}
		q := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch, q.LeaderEpoch = p.ID.Partition, int32(p.Epoch), int32(epoch)
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, q)
		by[key{p.Topic, p.ID.Partition}] = p
	}
	if len(by) == 0 {
		return nil
	}
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	if err := f.do(ctx, r, resp, callTime); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, a := range t.Partitions {
			p := by[key{t.Topic, a.Partition}]
			if p == nil {
				continue
			}
			delete(by, key{t.Topic, a.Partition})
			if a.ErrorCode != 0 {
				f.refused(p, a.ErrorCode)
			} else if err := p.trunc.Answer(record.Epoch(a.LeaderEpoch), record.Offset(a.EndOffset)); err != nil {
				f.later(p, err, longPause)
				f.enter(p, begin)
			} else if _, more := p.trunc.Ask(); !more {
				f.cut(p)
			}
		}
	}
	for _, p := range by {
		f.later(p, errors.New("the leader did not answer for it"), longPause)
	}
	return nil
}

// do is one request on the connection; what works ends the pauses.
func (f *fetcher) do(ctx context.Context, req kmsg.Request, resp kmsg.Response, timeout time.Duration) error {
	if err := f.conn.Do(ctx, req, resp, timeout); err != nil {
		return err
	}
	f.pause = 0
	if f.away {
		f.away = false
		f.pool.o.Log.Info("the leader answers again", "leader", f.leader)
	}
	return nil
}

// cut makes the log one that may fetch.
func (f *fetcher) cut(p *part) {
	l, _ := p.Replica.Log()
	to := p.trunc.To()
	err := p.Replica.Truncate(to)
	p.trunc = nil
	if err == nil {
		if to < l.End {
			f.pool.metrics.truncations.Inc()
		}
		f.enter(p, fetching)
		return
	}
	f.trouble(p, err)
}

// trouble sorts what the replica itself said.
func (f *fetcher) trouble(p *part, err error) {
	switch {
	case errors.Is(err, ErrStale):
		f.enter(p, stale)
	case errors.Is(err, ErrRestart):
		f.restart(p)
	case errors.Is(err, ErrDiverged):
		f.enter(p, begin)
		f.later(p, err, shortPause)
	default:
		f.enter(p, begin)
		f.later(p, err, longPause)
	}
}

// refused sorts what the leader said.
func (f *fetcher) refused(p *part, code int16) {
	err := kerr.ErrorForCode(code)
	switch err {
	case kerr.OffsetMovedToTieredStorage:
		f.restart(p)
		return
	case kerr.OffsetOutOfRange:
		f.enter(p, begin)
	}
	// One of us has an older image than the other; it is pulled every 250 ms.
	f.later(p, fmt.Errorf("leader %d: %w", f.leader, err), shortPause)
}

// fetch is one fetch of the session and its answer. The session is told of what is on the agenda; a new one of all parts.
func (f *fetcher) fetch(ctx context.Context) error {
	o := f.pool.o
	changed := slices.Values(f.todo)
	if f.session.isNew() {
		changed = maps.Values(f.parts)
	}
	req := f.session.request(o, changed)
	f.sift(func(*part) bool { return false })
	resp := kmsg.NewPtrFetchResponse()
	if err := f.do(ctx, req, resp, o.MaxWait+callTime); err != nil {
		return err
	}
	f.pool.metrics.fetches.Inc()
	if resp.ErrorCode != 0 {
		switch err := kerr.ErrorForCode(resp.ErrorCode); err {
		case kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch, kerr.FetchSessionTopicIDError:
			f.session = newSession()
			return nil
		default:
			return fmt.Errorf("fetch: %w", err)
		}
	}
	f.session.answered(resp.SessionID)
	f.heldUntil = time.Now().Add(time.Duration(resp.ThrottleMillis) * time.Millisecond)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			f.take(catalog.PartitionID{Topic: t.TopicID, Partition: t.Partitions[j].Partition}, &t.Partitions[j])
		}
	}
	return nil
}

// take is the answer for one partition.
func (f *fetcher) take(id catalog.PartitionID, a *kmsg.FetchResponseTopicPartition) {
	p := f.parts[id]
	if p == nil || p.phase != fetching || p.isOff {
		return
	}
	if a.ErrorCode != 0 {
		f.refused(p, a.ErrorCode)
		return
	}
	if err := p.Replica.Append(a.RecordBatches, record.Offset(a.HighWatermark), record.Offset(a.LogStartOffset)); err != nil {
		f.trouble(p, err)
		return
	}
	if len(a.RecordBatches) > 0 {
		f.list(p) // the session is told how far it is now
		f.copied(p, len(a.RecordBatches))
	}
}
