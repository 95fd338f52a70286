package checker

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

var seed = maphash.MakeSeed()

// digest tells records apart; two different ones share a digest once in 2⁶⁴.
func digest(key, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write([]byte{byte(len(key)), byte(len(key) >> 8), byte(len(key) >> 16)})
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	return h.Sum64()
}

// Partition names one.
type Partition struct {
	Topic     string
	Partition int32
}

// Log is what was sent to a broker and what it acknowledged. Every value of a topic must be unique. Safe for
// concurrent use.
type Log struct {
	mu    sync.Mutex
	sent  map[uint64]struct{}
	acked map[Partition]map[int64]uint64
	twice []string
	n     int
}

// NewLog returns an empty model.
func NewLog() *Log {
	return &Log{sent: map[uint64]struct{}{}, acked: map[Partition]map[int64]uint64{}}
}

// Sent notes a record before it is given to a producer.
func (l *Log) Sent(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[digest(r.Key, r.Value)] = struct{}{}
}

// Acked notes a record that the broker acknowledged, with the offset that it gave.
func (l *Log) Acked(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Partition{r.Topic, r.Partition}
	if l.acked[p] == nil {
		l.acked[p] = map[int64]uint64{}
	}
	if _, known := l.acked[p][r.Offset]; known {
		l.twice = append(l.twice, fmt.Sprintf("%s/%d: offset %d was given to two records", p.Topic, p.Partition, r.Offset))
	}
	l.acked[p][r.Offset] = digest(r.Key, r.Value)
	l.n++
}

// Count is how many records were acknowledged.
func (l *Log) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Produce sends a record and notes it; done, which may be nil, hears how it ended.
func (l *Log) Produce(cl *kgo.Client, r *kgo.Record, done func(error)) {
	l.Sent(r)
	cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err == nil {
			l.Acked(r)
		}
		if done != nil {
			done(err)
		}
	})
}
