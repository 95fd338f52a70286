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

// Produce, key 0, versions 3–13 (13 names topics by id, KIP-516). ApiVersions shows versions from 0 on,
// as Kafka 4 does, since older librdkafka would else drop compression silently; 0–2 are answered
// UNSUPPORTED_VERSION.
//
// Appends happen in request order on the connection's goroutine; only the wait for acknowledgement is
// parallel (R19), and the request's buffer is given back before it (R20). acks=0 is not answered; an
// error closes its connection, which is how such a client learns of it, as in Kafka.
func beginProduce(h *Handlers, ctx context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	h.Traffic.Producing()
	r := req.Body.(*kmsg.ProduceRequest)
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	p := produce{h: h, req: r, resp: resp}
	if r.Acks < -1 || r.Acks > 1 {
		p.failAll(kerr.InvalidRequiredAcks)
		return wire.Respond(resp)
	}
	p.appendAll()
	switch {
	case r.Acks == 0 && p.failed != nil:
		return wire.CloseConn(fmt.Sprintf("produce with acks=0: %v", p.failed))
	case r.Acks == 0:
		return wire.NoReply()
	case len(p.waits) == 0:
		return wire.Respond(resp)
	}
	return p.await(ctx)
}

// produce is one request on its way.
type produce struct {
	h      *Handlers
	req    *kmsg.ProduceRequest
	resp   *kmsg.ProduceResponse
	waits  []produceWait
	acks   []partition.Ack // of waits
	failed error           // the first error

	arrived *partition.Arrivals
}

// produceWait is a partition whose acknowledgement is not there yet, as its place in the request.
type produceWait struct{ topic, part int }

func (p *produce) appendAll() {
	n := 0
	for i := range p.req.Topics {
		n += len(p.req.Topics[i].Partitions)
	}
	p.arrived = partition.NewArrivals(n)
	defer p.arrived.Announce()
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.req.Topics))
	for ti := range p.req.Topics {
		t := &p.req.Topics[ti]
		rt := &p.resp.Topics[ti]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for pi := range t.Partitions {
			rp := &rt.Partitions[pi]
			rp.Default()
			rp.Partition = t.Partitions[pi].Partition
			rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
			p.appendOne(ti, pi, rp)
		}
	}
}

func (p *produce) appendOne(ti, pi int, rp *kmsg.ProduceResponseTopicPartition) {
	t, records := &p.req.Topics[ti], p.req.Topics[ti].Partitions[pi].Records
	part, err := p.h.find(p.req.Version >= 13, t.Topic, t.TopicID, rp.Partition)
	if err == nil && p.req.Version < 7 {
		err = refuseZstd(records)
	}
	if err != nil {
		p.fail(rp, part, err)
		return
	}
	done, err := part.Append(records, p.req.Acks, p.arrived)
	if err != nil {
		p.fail(rp, part, err)
		return
	}
	rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = int64(done.Base), done.AppendTime, int64(done.Start)
	if p.req.Acks != partition.AcksAll {
		return
	}
	ok, err := done.Ack.Done()
	switch {
	case err != nil:
		p.fail(rp, part, err)
	case !ok:
		p.waits = append(p.waits, produceWait{ti, pi})
		p.acks = append(p.acks, done.Ack)
	}
}

// await answers when all acknowledgements are there; those that do not come in the request's time are answered
// REQUEST_TIMED_OUT: appended, so that a retry is recognised as a duplicate (F7).
func (p *produce) await(ctx context.Context) wire.Reply {
	answer := wire.NewPending()
	p.h.waits.Add(1)
	partition.Await(ctx, p.acks, time.Duration(max(p.req.TimeoutMillis, 0))*time.Millisecond, func(errs []error) {
		defer p.h.waits.Done()
		for i, w := range p.waits {
			if errs[i] != nil {
				p.fail(&p.resp.Topics[w.topic].Partitions[w.part], nil, errs[i])
			}
		}
		answer.Resolve(wire.Respond(p.resp))
	})
	return wire.Later(answer)
}

func (p *produce) fail(rp *kmsg.ProduceResponseTopicPartition, part *partition.Partition, err error) {
	if p.failed == nil {
		p.failed = err
	}
	p.h.metrics.produceErrors.Inc()
	rp.ErrorCode, rp.ErrorMessage = codeFor(err), messageFor(err)
	rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
	if rp.ErrorCode == kerr.NotLeaderForPartition.Code && part != nil {
		if row, ok := p.h.Metadata.Image().Partition(part.ID); ok {
			rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = int32(row.Leader), int32(row.LeaderEpoch)
		}
	}
}

func (p *produce) failAll(kind *kerr.Error) {
	fillProduceErrors(p.req, p.resp, kind)
}

// fillProduceErrors answers every partition with one code.
func fillProduceErrors(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse, kind *kerr.Error) {
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, x := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = x.Partition, kind.Code, -1, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// refuseProduce answers versions 0–2.
func refuseProduce(req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ProduceRequest)
	if r.Acks == 0 {
		return wire.CloseConn("produce of an old version with acks=0")
	}
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	fillProduceErrors(r, resp, kerr.UnsupportedVersion)
	return wire.Respond(resp)
}

// refuseZstd refuses zstd in versions whose clients' peers could not read it (KIP-110).
func refuseZstd(records []byte) error {
	head, err := record.ParseHeader(records)
	if err == nil && head.Codec() == record.CodecZstd {
		return fmt.Errorf("%w: zstd needs produce version 7 or later", kerr.UnsupportedCompressionType)
	}
	return nil
}

// find is the partition that a request names by topic name or, if byID, by topic id.
func (h *Handlers) find(byID bool, name string, id catalog.TopicID, part int32) (*partition.Partition, error) {
	if byID {
		if _, ok := h.Metadata.Image().TopicByID(id); !ok {
			h.Metadata.Hurry()
			return nil, fmt.Errorf("%w: %s", kerr.UnknownTopicID, id)
		}
		p, err := h.Partitions.Get(catalog.PartitionID{Topic: id, Partition: part})
		return p, h.elsewhere(err, catalog.PartitionID{Topic: id, Partition: part})
	}
	p, err := h.Partitions.Find(name, part)
	if err == nil {
		return p, nil
	}
	if t, ok := h.Metadata.Image().Topic(name); ok {
		return nil, h.elsewhere(err, catalog.PartitionID{Topic: t.ID, Partition: part})
	}
	h.Metadata.Hurry()
	return nil, err
}

// elsewhere tells a partition that exists but is not served here from one that does not exist.
func (h *Handlers) elsewhere(err error, id catalog.PartitionID) error {
	if err == nil {
		return nil
	}
	if _, ok := h.Metadata.Image().Partition(id); ok {
		return fmt.Errorf("%w: %w", partition.ErrNotLeader, err)
	}
	return err
}
