package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	rawConnections = 2        // to a peer of one broker; each has half of the partitions
	rawBatch       = 64 << 10 // bytes of values in a batch
	rawInFlight    = 5        // requests, as the Java and franz-go clients'
	batchHeader    = 61
)

// buildBatch makes a record batch of format 2 without producer, as many values as fit into rawBatch, at least one.
func buildBatch(values [][]byte, codec string) (batch []byte, records int, err error) {
	var body []byte
	for used := 0; records < len(values) && (records == 0 || used+len(values[records]) <= rawBatch); records++ {
		v := values[records]
		var rec []byte
		rec = append(rec, 0)
		rec = binary.AppendVarint(rec, 0)
		rec = binary.AppendVarint(rec, int64(records))
		rec = binary.AppendVarint(rec, -1)
		rec = binary.AppendVarint(rec, int64(len(v)))
		rec = append(rec, v...)
		rec = binary.AppendVarint(rec, 0)
		body = append(binary.AppendVarint(body, int64(len(rec))), rec...)
		used += len(v)
	}
	attributes := uint16(0)
	if codec != "none" {
		c, err := kgo.DefaultCompressor(codecs[codec])
		if err != nil {
			return nil, 0, err
		}
		packed, used := c.Compress(new(bytes.Buffer), body)
		body, attributes = bytes.Clone(packed), uint16(used)
	}
	now := uint64(time.Now().UnixMilli())
	b := make([]byte, batchHeader, batchHeader+len(body))
	binary.BigEndian.PutUint32(b[8:], uint32(batchHeader-12+len(body)))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], attributes)
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	binary.BigEndian.PutUint64(b[43:], 1<<64-1)
	binary.BigEndian.PutUint16(b[51:], 1<<16-1)
	binary.BigEndian.PutUint32(b[53:], 1<<32-1)
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b, records, nil
}

// produceRaw sends one prepared batch to each partition in turn, over and over, with rawInFlight requests on their way on
// each connection: one to each broker of a cluster, for what it leads.
func (j job) produceRaw(ctx context.Context) (measure, error) {
	addresses, partitions, err := j.lanes(ctx)
	if err != nil {
		return measure{}, err
	}
	batch, perBatch, err := buildBatch(j.values, j.row.Codec)
	if err != nil {
		return measure{}, err
	}
	var records atomic.Int64
	total := func() (int64, int64) { return records.Load(), records.Load() * int64(j.row.Size) }
	return j.timed(ctx, total, func(ctx context.Context) error {
		return connections(ctx, addresses, func(ctx context.Context, i int, c *conn) error {
			own := &numbered{batch: bytes.Clone(batch), records: perBatch}
			if j.row.Idempotent {
				if err := own.register(ctx, c); err != nil {
					return err
				}
			}
			for sent, inFlight := 0, 0; ; {
				for ; inFlight < rawInFlight; inFlight++ {
					round, n := sent/len(partitions[i]), sent%len(partitions[i])
					if err := c.send(j.produceRequest(partitions[i][n], own.number(round))); err != nil {
						return err
					}
					sent++
				}
				if err := acknowledged(c); err != nil {
					return err
				}
				inFlight--
				records.Add(int64(perBatch))
			}
		})
	})
}

// lanes are the addresses to connect to and which partitions to write through each.
func (j job) lanes(ctx context.Context) (addresses []string, partitions [][]int32, err error) {
	if j.peer.replicas() == 1 {
		addresses = slices.Repeat([]string{j.peer.address}, rawConnections)
		partitions = make([][]int32, rawConnections)
		for p := range j.row.Partitions {
			i := p % rawConnections
			partitions[i] = append(partitions[i], int32(p))
		}
		return addresses, partitions, nil
	}
	m, err := j.peer.admin.Metadata(ctx, j.topic)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range m.Brokers {
		var led []int32
		for _, p := range m.Topics[j.topic].Partitions.Sorted() {
			if p.Leader == b.NodeID {
				led = append(led, p.Partition)
			}
		}
		if len(led) > 0 {
			addresses = append(addresses, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
			partitions = append(partitions, led)
		}
	}
	return addresses, partitions, nil
}

// numbered is a prepared batch to which an idempotent producer gives its number in each partition; of one that is not
// registered it stays as it is.
type numbered struct {
	batch      []byte
	records    int
	registered bool
}

// register gets a producer id; a cluster that has just started is asked again until it has one.
func (n *numbered) register(ctx context.Context, c *conn) error {
	for {
		err := n.ask(c)
		if !kerr.IsRetriable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (n *numbered) ask(c *conn) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 3, -1, -1
	if err := c.send(req); err != nil {
		return err
	}
	b, err := c.receive(true)
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(b); err != nil {
		return err
	}
	binary.BigEndian.PutUint64(n.batch[43:], uint64(resp.ProducerID))
	binary.BigEndian.PutUint16(n.batch[51:], uint16(resp.ProducerEpoch))
	n.registered = true
	return kerr.ErrorForCode(resp.ErrorCode)
}

// number makes it the batch of that round.
func (n *numbered) number(round int) []byte {
	if n.registered {
		// Sequence numbers wrap to 0 after 2^31-1.
		binary.BigEndian.PutUint32(n.batch[53:], uint32(int64(round)*int64(n.records)&(1<<31-1)))
		binary.BigEndian.PutUint32(n.batch[17:], crc32.Checksum(n.batch[21:], castagnoli))
	}
	return n.batch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const rawProduceVersion, rawFetchVersion = 9, 12

func (j job) produceRequest(partition int32, batch []byte) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = rawProduceVersion, -1, 30000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Topic, t.Partitions = j.topic, []kmsg.ProduceRequestTopicPartition{p}
	req.Topics = []kmsg.ProduceRequestTopic{t}
	return req
}

func acknowledged(c *conn) error {
	b, err := c.receive(true)
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = rawProduceVersion
	if err := resp.ReadFrom(b); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// consumeRaw fetches the hot topic over and over, without a session, with the sizes of the Java client (1 MiB a partition,
// 50 MiB in all), and looks at no more than each batch's header.
func (j job) consumeRaw(ctx context.Context) (measure, error) {
	var records atomic.Int64
	total := func() (int64, int64) { return records.Load(), records.Load() * int64(j.row.Size) }
	return j.timed(ctx, total, func(ctx context.Context) error {
		return connections(ctx, slices.Repeat(j.peer.seeds(), rawConnections), func(_ context.Context, i int, c *conn) error {
			next := map[int32]int64{}
			for p := i; p < j.row.Partitions; p += rawConnections {
				next[int32(p)] = 0
			}
			for {
				n, _, err := j.fetch(c, next)
				if err != nil {
					return err
				}
				records.Add(n)
			}
		})
	})
}

// fetch asks once for all partitions of next, moves it on, and counts records and bytes of batches. A partition that is
// read to its end begins again.
func (j job) fetch(c *conn, next map[int32]int64) (records, bytes int64, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = rawFetchVersion, 500, 1, 50<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = j.topic
	for partition, at := range next {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, at, 1<<20
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = []kmsg.FetchRequestTopic{t}
	if err := c.send(req); err != nil {
		return 0, 0, err
	}
	b, err := c.receive(true)
	if err != nil {
		return 0, 0, err
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = rawFetchVersion
	if err := resp.UnsafeReadFrom(b); err != nil {
		return 0, 0, err
	}
	for ti := range resp.Topics {
		for pi := range resp.Topics[ti].Partitions {
			p := &resp.Topics[ti].Partitions[pi]
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return 0, 0, fmt.Errorf("fetch partition %d at %d: %w", p.Partition, next[p.Partition], err)
			}
			n, after := walk(p.RecordBatches, next[p.Partition])
			records += n
			bytes += int64(len(p.RecordBatches))
			if after >= p.HighWatermark {
				after = 0
			}
			next[p.Partition] = after
		}
	}
	return records, bytes, nil
}

// walk goes over the headers of whole batches; it returns how many records lie at or after from, and the offset after them.
func walk(b []byte, from int64) (records, next int64) {
	next = from
	for len(b) >= batchHeader {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		base := int64(binary.BigEndian.Uint64(b))
		after := base + int64(binary.BigEndian.Uint32(b[23:])) + 1
		records += after - max(base, next)
		next = max(next, after)
		b = b[size:]
	}
	return records, next
}
