package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cleaningPoll is how often a cleaner's log is looked at.
const cleaningPoll = 20 * time.Millisecond

// set changes a config of a topic.
func (p *peer) set(ctx context.Context, topic, name, value string) error {
	answers, err := p.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: name, Value: &value}}, topic)
	if err != nil {
		return err
	}
	for _, a := range answers {
		err = errors.Join(err, a.Err)
	}
	return err
}

// seal produces records of sealKey until one has made all before it cleanable. Kafka begins a segment with the first record
// that is later than the setting says; Tidemark seals when the time is over.
func (c *cleaner) seal(ctx context.Context, j job) error {
	if err := c.set(ctx, j.topic, "segment.ms", "100"); err != nil {
		return err
	}
	client, err := j.producer()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		r := kgo.KeySliceRecord([]byte(sealKey), []byte("sealed"))
		r.Timestamp = time.Now().Add(time.Second)
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return fmt.Errorf("seal: %w", err)
		}
		deadline := time.Now().Add(5 * time.Second)
		for time.Now().Before(deadline) {
			if done, err := c.sealed(ctx, j.topic, r.Offset); done || err != nil {
				return err
			}
			select {
			case <-time.After(cleaningPoll):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// watch allows cleaning, and waits until the cleaner tells of a pass after which no more records are left than there are
// keys. One in a hundred may stay: Tidemark leaves objects of which less than the dirty ratio goes.
func (c *cleaner) watch(ctx context.Context, j job, s *keyedStream) (m cleaned, err error) {
	told, err := os.Stat(c.log)
	if err != nil {
		return m, err
	}
	before, err := c.procs.cpu()
	if err != nil {
		return m, err
	}
	began := time.Now()
	if err := c.set(ctx, j.topic, "min.cleanable.dirty.ratio", "0.01"); err != nil {
		return m, err
	}
	for {
		log, err := logSince(c.log, told.Size())
		if err != nil {
			return m, err
		}
		if passes := c.tells(log); len(passes) > m.Passes {
			after, err := c.procs.cpu()
			if err != nil {
				return m, err
			}
			m = cleaned{Passes: len(passes), Wall: time.Since(began).Seconds(), CPU: (after - before).Seconds()}
			for _, p := range passes {
				m.Seconds += p.Seconds
				m.Read += p.Read
				m.Written += p.Written
			}
			if m.Left, err = j.judge(ctx, s); err != nil || m.Left <= s.Keys+s.Keys/100 {
				return m, err
			}
		}
		if p := c.procs.ended(); p != nil {
			return m, fmt.Errorf("the process has ended: %s", tail(p.log))
		}
		select {
		case <-time.After(cleaningPoll):
		case <-ctx.Done():
			return m, fmt.Errorf("not clean after %d passes, with %d records for %d keys: %w", m.Passes, m.Left, s.Keys, ctx.Err())
		}
	}
}

// judge reads the topic, whose last values must be the stream's, and counts the stream's records that are left.
func (j job) judge(ctx context.Context, s *keyedStream) (left int, err error) {
	ends, err := j.peer.admin.ListEndOffsets(ctx, j.topic)
	if err != nil {
		return 0, err
	}
	client, err := j.consumer(kgo.NewOffset().AtStart())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	state := make(map[string]uint64, s.Keys)
	for next := int64(0); next < ends[j.topic][0].Offset; {
		got := client.PollFetches(ctx)
		if err := got.Err(); err != nil {
			return 0, fmt.Errorf("read what is left, at %d: %w", next, err)
		}
		got.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if string(r.Key) != sealKey {
				left++
				state[string(r.Key)] = valueSum(r.Value)
			}
		})
	}
	if len(state) != len(s.last) {
		return left, fmt.Errorf("%d keys are left of %d", len(state), len(s.last))
	}
	for key, sum := range s.last {
		if state[key] != sum {
			return left, fmt.Errorf("the last value of %s is not the one that was produced", key)
		}
	}
	return left, nil
}
