package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// codecs of franz-go by Kafka's names.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// producer is a franz-go client with its defaults, but for room to fill its batches of small records.
func (j job) producer(more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(j.peer.seeds()...), kgo.DefaultProduceTopic(j.topic), kgo.ProducerBatchCompression(codecs[j.row.Codec]),
		kgo.MaxBufferedRecords(max(10_000, 32<<20/j.row.Size)), kgo.MaxBufferedBytes(64 << 20),
	}
	if j.row.Acks == "1" {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	return kgo.NewClient(append(opts, more...)...)
}

func (j job) produceFranz(ctx context.Context) (measure, error) {
	client, err := j.producer()
	if err != nil {
		return measure{}, err
	}
	defer client.Close()
	var records, bytes atomic.Int64
	var failed atomic.Pointer[error]
	acked := func(r *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			return
		}
		records.Add(1)
		bytes.Add(int64(len(r.Value)))
	}
	total := func() (int64, int64) { return records.Load(), bytes.Load() }
	m, err := j.timed(ctx, total, func(ctx context.Context) error {
		for i := 0; ctx.Err() == nil; i++ {
			client.Produce(ctx, &kgo.Record{Value: j.values[i%len(j.values)]}, acked)
		}
		return nil
	})
	if f := failed.Load(); err == nil && f != nil && !errors.Is(*f, context.Canceled) {
		err = fmt.Errorf("produce: %w", *f)
	}
	return m, err
}

// consumer reads the given partitions of the topic from an offset.
func (j job) consumer(at kgo.Offset, more ...kgo.Opt) (*kgo.Client, error) {
	offsets := map[int32]kgo.Offset{}
	for p := range j.row.Partitions {
		offsets[int32(p)] = at
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(j.peer.seeds()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: offsets}),
	}
	return kgo.NewClient(append(opts, more...)...)
}

// consumeFranz reads the hot topic over and over, each time with a new client.
func (j job) consumeFranz(ctx context.Context) (measure, error) {
	var records, bytes atomic.Int64
	whole := j.s.Hot / int64(j.row.Size)
	total := func() (int64, int64) { return records.Load(), bytes.Load() }
	return j.timed(ctx, total, func(ctx context.Context) error {
		for ctx.Err() == nil {
			client, err := j.consumer(kgo.NewOffset().AtStart())
			if err != nil {
				return err
			}
			for seen := int64(0); seen < whole && ctx.Err() == nil; {
				got := client.PollFetches(ctx)
				if err := got.Err0(); err != nil && ctx.Err() == nil {
					client.Close()
					return err
				}
				n, size := int64(0), int64(0)
				got.EachRecord(func(r *kgo.Record) {
					n++
					size += int64(len(r.Value))
				})
				seen += n
				records.Add(n)
				bytes.Add(size)
			}
			client.Close()
		}
		return nil
	})
}

// fill produces size bytes of values, spread over all partitions.
func (j job) fill(ctx context.Context, size int64) error {
	client, err := j.producer(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	for i := range size / int64(j.row.Size) {
		client.Produce(ctx, &kgo.Record{Value: j.values[int(i)%len(j.values)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if f := failed.Load(); f != nil {
		return fmt.Errorf("fill %s: %w", j.topic, *f)
	}
	return nil
}
