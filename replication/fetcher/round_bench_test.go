package fetcher

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/record"
)

// BenchmarkRound is one fetch of a follower's session, its answer included, and nothing of the leader's work: none of the
// partitions has anything new, or one has.
func BenchmarkRound(b *testing.B) {
	for _, partitions := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			topic, log, moving := catalog.NewUUID(), &fakeLog{log: "abc"}, &fakeLog{log: "abc"}
			t := Target{Addr: "leader"}
			for i := range partitions {
				id := catalog.PartitionID{Topic: topic, Partition: int32(i)}
				t.Parts = append(t.Parts, Assignment{ID: id, Topic: "t", Epoch: 5, Replica: log})
			}
			t.Parts[0].Replica = moving
			leader := &instantLeader{fetched: fetched(77, topic)}
			f := newFetcher(New(Options{Dial: leader.dial}), 1)
			f.ctx = b.Context()
			f.assign(t)
			f.adopt()
			round := func() {
				wait, err := f.round(b.Context())
				require.NoError(b, err)
				require.Zero(b, wait)
			}
			for leader.fetches == 0 {
				round()
			}
			round()
			b.Run("idle", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
			})
			b.Run("one moved", func(b *testing.B) {
				leader.fetched = fetched(77, topic, part1{0, nil, "d"})
				b.ReportAllocs()
				for b.Loop() {
					moving.start, moving.log, moving.said = moving.start+record.Offset(len(moving.log)), "", moving.said[:0]
					round()
				}
			})
		})
	}
}

// instantLeader is a connection that has the answer as soon as the request is written.
type instantLeader struct {
	net.Conn
	fetched *kmsg.FetchResponse
	fetches int
	out     []byte
}

func (l *instantLeader) dial(context.Context, string) (net.Conn, error) { return l, nil }
func (l *instantLeader) SetDeadline(time.Time) error                    { return nil }
func (l *instantLeader) Close() error                                   { return nil }

func (l *instantLeader) Write(b []byte) (int, error) {
	if key := int16(binary.BigEndian.Uint16(b[4:])); key == 1 {
		l.fetches++
		l.out = writeAnswer(l.out[:0], b[8:12], fetchVersion, l.fetched)
		return len(b), nil
	}
	req, id, err := readRequest(b)
	if err != nil {
		return 0, err
	}
	l.out = writeAnswer(l.out[:0], id, req.GetVersion(), answerEpochs(req.(*kmsg.OffsetForLeaderEpochRequest), 3))
	return len(b), nil
}

func (l *instantLeader) Read(b []byte) (int, error) {
	n := copy(b, l.out)
	l.out = l.out[:copy(l.out, l.out[n:])]
	return n, nil
}
