package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/record"
)

// batchBytes is up to what size, before compression, records are gathered into one batch.
const batchBytes = 512 << 10

// topicTarget copies to a topic. Each source partition is an idempotent producer of its own.
type topicTarget struct {
	c      *Cluster
	t      Topic
	source Topic
	filter *Filter
	byKey  bool
	cp     *Checkpoint
	// keepMs is the target's retention.ms where it removes by time, else -1; expired counts the records that are older.
	keepMs  int64
	expired atomic.Int64
}

// ToTopic copies records to a topic: to the partition of the same number, or with byKey to the one that Kafka's default
// partitioner gives the key (records without a key keep their partition's number, modulo the count). ErrNoTopic.
func ToTopic(ctx context.Context, c *Cluster, topic string, source Topic, filter *Filter, byKey bool) (Target, Topic, error) {
	t, err := c.describe(ctx, topic)
	if err != nil {
		return nil, t, err
	}
	return &topicTarget{c: c, t: t, source: source, filter: filter, byKey: byKey, keepMs: c.retention(ctx, topic)}, t, nil
}

// retention is a topic's retention.ms, -1 if it removes nothing by time or does not say.
func (c *Cluster) retention(ctx context.Context, topic string) int64 {
	rs, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return -1
	}
	keep, removes := int64(-1), true
	for _, r := range rs {
		for _, config := range r.Configs {
			switch config.Key {
			case "retention.ms":
				if ms, err := strconv.ParseInt(config.MaybeValue(), 10, 64); err == nil {
					keep = ms
				}
			case "cleanup.policy":
				removes = strings.Contains(config.MaybeValue(), "delete")
			}
		}
	}
	if !removes {
		return -1
	}
	return keep
}

// note implements Target.
func (t *topicTarget) note() string {
	if n := t.expired.Load(); n > 0 {
		return fmt.Sprintf("%d of the records are older than retention.ms=%d of %s, which therefore removes them; set retention.ms=-1 there and begin anew to have them",
			n, t.keepMs, t.t.Name)
	}
	return ""
}

// begin gives each partition a producer id and notes where the target's partitions end, before anything is sent.
func (t *topicTarget) begin(ctx context.Context, cp *Checkpoint) error {
	t.cp = cp
	if cp.Resumed {
		return nil
	}
	ends := map[int32]record.Offset{}
	for q := range t.t.Partitions {
		end, err := t.c.mustOffset(ctx, t.t.Name, q, latest)
		if err != nil {
			return err
		}
		ends[q] = end
	}
	for p := range cp.Ranges() {
		if !t.byKey && p >= t.t.Partitions {
			return fmt.Errorf("%w: partition %d of %s, which has %d; raise its count or map by key", ErrGone, p, t.t.Name, t.t.Partitions)
		}
		id, epoch, err := t.c.producer(ctx)
		if err != nil {
			return err
		}
		marks := map[int32]mark{}
		for q, end := range ends {
			if t.byKey || p == q {
				marks[q] = mark{After: end}
			}
		}
		_ = cp.move(p, func(_ *state, l *lane) error {
			l.Producer, l.Epoch, l.Marks = id, epoch, marks
			return nil
		})
	}
	return nil
}

// producer asks for a new idempotent producer.
func (c *Cluster) producer(ctx context.Context) (id int64, epoch int16, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(ctx, c.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return resp.ProducerID, resp.ProducerEpoch, nil
		}
		if ctx.Err() != nil || !again(err) {
			return 0, 0, fmt.Errorf("get a producer id: %w", err)
		}
		if err := pause(ctx, requestPause); err != nil {
			return 0, 0, err
		}
	}
}

// sync implements Target: what was acknowledged is durable.
func (t *topicTarget) sync() error { return nil }

// Close implements Target.
func (t *topicTarget) Close() error { return nil }

// lane implements Target.
func (t *topicTarget) lane(p int32) writer {
	l := &topicLane{t: t, p: p, copied: map[int32]*tail{}, open: map[int32]*openBatch{}}
	if t.byKey {
		l.partitioner = kgo.StickyKeyPartitioner(nil).ForTopic(t.t.Name)
	}
	return l
}

// topicLane copies one source partition to a topic.
type topicLane struct {
	t           *topicTarget
	p           int32
	partitioner kgo.TopicPartitioner

	at lane // as of the last acknowledgement; the checkpoint has it as of the last block
	// copied are, by target partition, the records behind the checkpoint that have been copied already.
	copied  map[int32]*tail
	open    map[int32]*openBatch
	sent    bool // something, by this process
	scratch record.Scratch
}

// openBatch gathers records for one target partition.
type openBatch struct {
	b       *record.Builder
	codec   record.Codec
	records int64
	bytes   int64
}

// resume implements writer: it looks at what lies in the target behind the checkpoint's marks.
func (l *topicLane) resume(ctx context.Context) (record.Offset, error) {
	l.at = l.t.cp.at(l.p)
	clear(l.copied)
	clear(l.open)
	if !l.sent && !l.t.cp.Resumed {
		return l.at.Next, nil
	}
	for q, m := range l.at.Marks {
		t, err := l.tail(ctx, q, m)
		if err != nil {
			return 0, err
		}
		l.copied[q] = t
	}
	return l.at.Next, nil
}

// tail reads what this partition's producer has left behind a mark.
func (l *topicLane) tail(ctx context.Context, q int32, m mark) (*tail, error) {
	t, last := tail{}, int64(-1)
	start, err := l.t.c.scan(ctx, l.t.t, q, m.After, func(h record.Header, batch []byte) error {
		if h.ProducerID != l.at.Producer || h.ProducerEpoch != l.at.Epoch || !h.HasSequence() {
			return nil
		}
		last = int64(h.LastSequence())
		for r, err := range record.Records(batch, &l.scratch) {
			if err != nil {
				return err
			}
			t.sums = append(t.sums, sumOf(r))
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case last >= 0:
		t.records = (last + 1 - m.Sequence) & math.MaxInt32
		return t.trimmed(), nil
	case start > m.After:
		return nil, fmt.Errorf("%w: partition %d of %s begins at %d now, so nobody knows what was copied behind offset %d; begin anew without the checkpoint",
			ErrGone, q, l.t.t.Name, start, m.After)
	}
	return nil, nil
}

// write implements writer.
func (l *topicLane) write(ctx context.Context, b Block, from, until record.Offset) (record.Offset, error) {
	var records, bytes int64
	oldest := int64(math.MinInt64)
	if l.t.keepMs >= 0 {
		oldest = time.Now().UnixMilli() - l.t.keepMs
	}
	next, err := b.committed(from, until, &l.scratch, func(h record.Header, r record.Record) error {
		if !l.t.filter.Match(r) {
			return nil
		}
		records++
		bytes += int64(len(r.Key) + len(r.Value))
		if r.Timestamp < oldest {
			l.t.expired.Add(1)
		}
		return l.add(ctx, h, r)
	})
	if err != nil {
		return from, err
	}
	for q := range l.open {
		if err := l.flush(ctx, q); err != nil {
			return from, err
		}
	}
	l.at.Next = next
	return next, l.t.cp.move(l.p, func(s *state, c *lane) error {
		c.Next = next
		for q, m := range l.at.Marks {
			c.Marks[q] = m
		}
		s.Records += records
		s.Bytes += bytes
		return nil
	})
}

func (l *topicLane) route(r record.Record) int32 {
	switch {
	case !l.t.byKey:
		return l.p
	case r.Key == nil:
		return l.p % l.t.t.Partitions
	}
	return int32(l.partitioner.Partition(&kgo.Record{Key: r.Key}, int(l.t.t.Partitions)))
}

// add passes over a record that has been copied already, or gathers it.
func (l *topicLane) add(ctx context.Context, h record.Header, r record.Record) error {
	q := l.route(r)
	if n, is := l.copied[q].take(r); n > 0 {
		m := l.at.Marks[q]
		m.Sequence += n
		l.at.Marks[q] = m
		if is {
			return nil
		}
	}
	o := l.open[q]
	size := int64(len(r.Key)+len(r.Value)) + 64
	if o != nil && (o.codec != h.Codec() || o.bytes+size > batchBytes) {
		if err := l.flush(ctx, q); err != nil {
			return err
		}
		o = nil
	}
	if o == nil {
		o = &openBatch{codec: h.Codec(), b: record.NewBuilder(record.BuilderOptions{Codec: h.Codec(), Producer: &record.Producer{
			ID: l.at.Producer, Epoch: l.at.Epoch, BaseSequence: int32(l.at.Marks[q].Sequence & math.MaxInt32),
		}})}
		l.open[q] = o
	}
	r.Offset = record.Offset(o.records)
	o.records++
	o.bytes += size
	return o.b.Append(r)
}

// flush sends what was gathered for a partition and waits for its acknowledgement.
func (l *topicLane) flush(ctx context.Context, q int32) error {
	o := l.open[q]
	delete(l.open, q)
	l.sent = true
	base, err := l.t.c.produce(ctx, l.t.t.Name, q, o.b.Build())
	if err != nil {
		return err
	}
	m := l.at.Marks[q]
	m.Sequence += o.records
	if base >= 0 {
		m.After = base + record.Offset(o.records)
	}
	l.at.Marks[q] = m
	return nil
}

// produce sends one batch, again if need be: the broker knows it by its sequence numbers. errRewind if they are not the
// next ones.
func (c *Cluster) produce(ctx context.Context, topic string, q int32, batch []byte) (base record.Offset, err error) {
	err = c.ask(ctx, question{topic: topic, partition: q, make: func(id [16]byte) kmsg.Request {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = -1, 30_000
		t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = q, batch
		t.Topic, t.TopicID, t.Partitions = topic, id, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}, judge: func(resp kmsg.Response) error {
		r := resp.(*kmsg.ProduceResponse)
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return errAgain
		}
		p := &r.Topics[0].Partitions[0]
		base = record.Offset(p.BaseOffset)
		return c.refused(topic, q, p, len(batch))
	}})
	return base, err
}

// refused makes an error of what a broker says to a batch.
func (c *Cluster) refused(topic string, q int32, p *kmsg.ProduceResponseTopicPartition, size int) error {
	err := kerr.ErrorForCode(p.ErrorCode)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.DuplicateSequenceNumber), errors.Is(err, kerr.UnknownProducerID):
		return fmt.Errorf("%w: partition %d of %s: %w", errRewind, q, topic, err)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("partition %d of %s takes no batch of %d bytes: %w; raise the target's max.message.bytes", q, topic, size, err)
	case err != nil && p.ErrorMessage != nil && !again(err):
		return fmt.Errorf("partition %d of %s: %w: %s", q, topic, err, *p.ErrorMessage)
	}
	return err
}
