package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/record"
)

// brokers is a Source that reads as a consumer does.
type brokers struct {
	c     *Cluster
	topic Topic
}

// FromBrokers reads a topic through a cluster's brokers, committed records only. ErrNoTopic.
func FromBrokers(ctx context.Context, c *Cluster, topic string) (Source, error) {
	t, err := c.describe(ctx, topic)
	return &brokers{c, t}, err
}

// Topic implements Source.
func (b *brokers) Topic() Topic { return b.topic }

// Close implements Source.
func (b *brokers) Close() error { return nil }

// The special times of ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// Bounds implements Source.
func (b *brokers) Bounds(ctx context.Context, p int32) (start, end record.Offset, err error) {
	s, _, err := b.c.offset(ctx, b.topic.Name, p, earliest, true)
	if err != nil {
		return 0, 0, err
	}
	e, _, err := b.c.offset(ctx, b.topic.Name, p, latest, true)
	return record.Offset(s), record.Offset(e), err
}

// AtTime implements Source.
func (b *brokers) AtTime(ctx context.Context, p int32, ms int64) (record.Offset, bool, error) {
	o, ok, err := b.c.offset(ctx, b.topic.Name, p, max(ms, 0), true)
	return record.Offset(o), ok, err
}

// Read implements Source.
func (b *brokers) Read(ctx context.Context, p int32, left Range, limit int64) (block Block, err error) {
	err = b.c.ask(ctx, question{topic: b.topic.Name, partition: p, make: func(id [16]byte) kmsg.Request {
		r := kmsg.NewPtrFetchRequest()
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch, r.IsolationLevel = 500, 1, 64<<20, -1, 1
		t, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LogStartOffset = p, int64(left.From), int32(limit), -1, -1
		t.Topic, t.TopicID, t.Partitions = b.topic.Name, id, append(t.Partitions, rp)
		r.Topics = append(r.Topics, t)
		return r
	}, judge: func(resp kmsg.Response) error {
		block, err = b.fetched(p, left.From, resp.(*kmsg.FetchResponse))
		return err
	}})
	return block, err
}

func (b *brokers) fetched(p int32, from record.Offset, r *kmsg.FetchResponse) (Block, error) {
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return Block{}, err
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return Block{}, errAgain
	}
	got := &r.Topics[0].Partitions[0]
	switch err := kerr.ErrorForCode(got.ErrorCode); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return Block{}, fmt.Errorf("%w: partition %d of %s has no offset %d; it begins at %d now", ErrGone, p, b.topic.Name, from, got.LogStartOffset)
	case err != nil:
		return Block{}, err
	}
	block := Block{Batches: bytes.Clone(got.RecordBatches), Next: from}
	for _, a := range got.AbortedTransactions {
		block.Aborted = append(block.Aborted, Aborted{a.ProducerID, record.Offset(a.FirstOffset)})
	}
	slices.SortFunc(block.Aborted, func(x, y Aborted) int { return cmp.Compare(x.First, y.First) })
	if _, _, err := record.Split(block.Batches); err != nil {
		return Block{}, errors.Join(errAgain, err) // not one whole batch yet
	}
	return block, nil
}

// scan calls do for each batch of [from, the present end) of a target partition, and returns the first offset that is
// there.
func (c *Cluster) scan(ctx context.Context, t Topic, q int32, from record.Offset, do func(record.Header, []byte) error) (start record.Offset, err error) {
	src := &brokers{c, t}
	if start, err = c.mustOffset(ctx, t.Name, q, earliest); err != nil {
		return 0, err
	}
	end, err := c.mustOffset(ctx, t.Name, q, latest)
	if err != nil {
		return 0, err
	}
	for at := max(from, start); at < end; {
		readCtx, cancel := context.WithTimeout(ctx, patience)
		block, err := src.Read(readCtx, q, Range{at, end}, fetchBytes)
		cancel()
		if err != nil {
			return 0, fmt.Errorf("read back partition %d of %s at %d: %w", q, t.Name, at, err)
		}
		err = block.batches(func(h record.Header, batch []byte) error {
			at = max(at, h.NextOffset())
			return do(h, batch)
		})
		if err != nil {
			return 0, err
		}
	}
	return start, nil
}

func (c *Cluster) mustOffset(ctx context.Context, topic string, q int32, at int64) (record.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	o, _, err := c.offset(ctx, topic, q, at, true)
	return record.Offset(o), err
}
