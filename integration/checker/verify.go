package checker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxFaults is how many faults are told apart before the rest is only counted.
const maxFaults = 10

// faults collects sentences.
type faults struct {
	list []error
	more int
}

func (f *faults) add(format string, args ...any) {
	if len(f.list) >= maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, fmt.Errorf(format, args...))
}

func (f *faults) err() error {
	if f.more > 0 {
		f.list = append(f.list, fmt.Errorf("and %d more", f.more))
		f.more = 0
	}
	return errors.Join(f.list...)
}

// Verify reads all partitions of a topic from start to the high watermark with a client of its own (bootstrap is
// host:port) and compares them with the model.
func (l *Log) Verify(ctx context.Context, bootstrap, topic string) error {
	var f faults
	l.mu.Lock()
	for _, t := range l.twice {
		f.add("%s", t)
	}
	l.mu.Unlock()
	seen := map[uint64]string{}
	err := ReadAll(ctx, bootstrap, topic, func(p Partition, start, end int64, records []*kgo.Record) {
		l.judge(&f, p, start, end, records, seen)
	})
	return errors.Join(err, f.err())
}

// judge compares one partition's records, read from start to end, with the model. seen holds where each value of the
// topic was met.
func (l *Log) judge(f *faults, p Partition, start, end int64, records []*kgo.Record, seen map[uint64]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked := l.acked[p]
	at := start
	for _, r := range records {
		if r.Offset != at {
			f.add("%s/%d: offset %d comes where %d is due", p.Topic, p.Partition, r.Offset, at)
		}
		at = r.Offset + 1
		d := digest(r.Key, r.Value)
		here := fmt.Sprintf("%s/%d@%d", p.Topic, p.Partition, r.Offset)
		if there, again := seen[d]; again {
			f.add("%s: the record stands at %s too", here, there)
		}
		seen[d] = here
		if want, was := acked[r.Offset]; was && want != d {
			f.add("%s: another record was acknowledged at this offset", here)
		}
		if _, was := l.sent[d]; !was {
			f.add("%s: nobody sent this record (key %q, value of %d bytes)", here, r.Key, len(r.Value))
		}
	}
	if at != end {
		f.add("%s/%d: reading ended at %d, the high watermark is %d", p.Topic, p.Partition, at, end)
	}
	for offset := range acked {
		if offset >= end {
			f.add("%s/%d: offset %d was acknowledged, the high watermark is %d", p.Topic, p.Partition, offset, end)
		}
	}
}

// ReadAll reads every partition of a topic from start to the high watermark of the moment and gives each, in order, to
// done.
func ReadAll(ctx context.Context, bootstrap, topic string, done func(p Partition, start, end int64, records []*kgo.Record)) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DialTimeout(5*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("start offsets of %s: %w", topic, err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	for partition := range int32(len(ends[topic])) {
		start, end := starts[topic][partition].Offset, ends[topic][partition].Offset
		records, err := Read(ctx, bootstrap, topic, partition, start, end)
		done(Partition{topic, partition}, start, end, records)
		if err != nil {
			return fmt.Errorf("%s/%d: read [%d,%d): %w", topic, partition, start, end, err)
		}
	}
	return nil
}

// Read reads the records of [from, to) of a partition. An error of the broker that a client does not retry by itself
// ends it, and so does ctx; then what was read so far is returned with it.
func Read(ctx context.Context, bootstrap, topic string, partition int32, from, to int64) ([]*kgo.Record, error) {
	if from >= to {
		return nil, nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DialTimeout(5*time.Second), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []*kgo.Record
	for {
		fs := cl.PollFetches(ctx)
		for _, e := range fs.Errors() {
			return out, e.Err
		}
		for _, r := range fs.Records() {
			if r.Offset >= to {
				return out, nil
			}
			out = append(out, r)
		}
		if len(out) > 0 && out[len(out)-1].Offset >= to-1 {
			return out, nil
		}
	}
}
