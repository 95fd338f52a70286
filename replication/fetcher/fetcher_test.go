package fetcher

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a Replica that notes what happens to it. Its batches are text: one byte, one offset.
type fakeLog struct {
	mu       sync.Mutex
	start    record.Offset
	log      string
	epochs   record.EpochHistory
	restart  bool
	stale    bool
	tiered   record.Offset
	hw       record.Offset
	said     []string
	appendOK error
}

func (f *fakeLog) say(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *fakeLog) Log() (Log, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Log{Start: f.start, End: f.start + record.Offset(len(f.log)), Epochs: f.epochs}, f.restart
}

func (f *fakeLog) Truncate(to record.Offset) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say("cut %d", to)
	if to < f.start {
		return ErrRestart
	}
	f.log = f.log[:min(len(f.log), int(to-f.start))]
	return nil
}

func (f *fakeLog) Restart(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say("restart at %d", f.tiered)
	f.start, f.log, f.restart = f.tiered, "", false
	return nil
}

func (f *fakeLog) Append(b []byte, hw, _ record.Offset) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		return ErrStale
	}
	if err := f.appendOK; err != nil {
		f.appendOK = nil
		f.say("refuse %s", b)
		return err
	}
	if f.hw = hw; len(b) > 0 {
		f.say("append %s", b)
	}
	f.log += string(b)
	return nil
}

func (f *fakeLog) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, ", ")
}

// fakeLeader answers one fetch after the other by a script, and any question about epochs by the end of its log.
type fakeLeader struct {
	t      *testing.T
	topic  catalog.TopicID
	end    int64
	mu     sync.Mutex
	script []func(*kmsg.FetchRequest) *kmsg.FetchResponse
	seen   []string
	// throttle is the pause that each answer asks for, in ms.
	throttle int32
	conns    int
}

func (l *fakeLeader) dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	l.mu.Lock()
	l.conns++
	l.mu.Unlock()
	go l.serve(there)
	return here, nil
}

func (l *fakeLeader) serve(c net.Conn) {
	defer c.Close()
	for {
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		req, id, err := readRequest(append(head[:], b...))
		if err != nil {
			return
		}
		resp := l.answer(req)
		if resp == nil {
			return
		}
		if _, err := c.Write(writeAnswer(nil, id, req.GetVersion(), resp)); err != nil {
			return
		}
	}
}

// readRequest reads a frame, its length included.
func readRequest(b []byte) (req kmsg.Request, id []byte, err error) {
	key, version, id := int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:])), b[8:12]
	rest := b[12:]
	rest = rest[2+binary.BigEndian.Uint16(rest)+1:] // client id, no tags
	req = kmsg.RequestForKey(key)
	req.SetVersion(version)
	return req, id, req.ReadFrom(rest)
}

// writeAnswer appends the frame of an answer.
func writeAnswer(out, id []byte, version int16, resp kmsg.Response) []byte {
	at := len(out)
	out = append(append(append(out, 0, 0, 0, 0), id...), 0)
	resp.SetVersion(version)
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out[at:], uint32(len(out)-at-4))
	return out
}

// answerEpochs answers a question about epochs: each ends at end.
func answerEpochs(q *kmsg.OffsetForLeaderEpochRequest, end int64) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range q.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, end
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (l *fakeLeader) answer(req kmsg.Request) kmsg.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, ok := req.(*kmsg.OffsetForLeaderEpochRequest); ok {
		return answerEpochs(q, l.end)
	}
	q := req.(*kmsg.FetchRequest)
	l.seen = append(l.seen, describe(q))
	if len(l.script) == 0 {
		resp := fetched(q.SessionID, l.topic)
		resp.ThrottleMillis = l.throttle
		return resp
	}
	next := l.script[0]
	l.script = l.script[1:]
	if resp := next(q); resp != nil {
		resp.ThrottleMillis = l.throttle
		return resp
	}
	return nil
}

// describe is a fetch in a line: session and epoch, what it asks for, what it forgets.
func describe(q *kmsg.FetchRequest) string {
	s := fmt.Sprintf("s%d/%d", q.SessionID, q.SessionEpoch)
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d@%d(e%d)", p.Partition, p.FetchOffset, p.CurrentLeaderEpoch)
		}
	}
	for _, t := range q.ForgottenTopics {
		s += fmt.Sprintf(" -%v", t.Partitions)
	}
	return s
}

type part1 struct {
	part    int32
	code    *kerr.Error
	records string
}

// fetched is an answer in session id.
func fetched(id int32, topic catalog.TopicID, ps ...part1) *kmsg.FetchResponse {
	r := kmsg.NewPtrFetchResponse()
	r.SessionID = id
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = topic
	for _, p := range ps {
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.RecordBatches, rp.HighWatermark = p.part, []byte(p.records), 7
		if p.code != nil {
			rp.ErrorCode = p.code.Code
		}
		t.Partitions = append(t.Partitions, rp)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// follow runs a pool that follows the leader in partitions 0, 1, … until the test ends.
func (l *fakeLeader) follow(logs ...*fakeLog) *Pool {
	l.topic = catalog.NewUUID()
	p := New(Options{Self: catalog.Member{Broker: 2, Incarnation: 9}, Dial: l.dial, MaxWait: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	l.t.Cleanup(func() { cancel(); <-done })
	l.assign(p, 5, logs...)
	return p
}

func (l *fakeLeader) assign(p *Pool, epoch record.Epoch, logs ...*fakeLog) {
	t := Target{Addr: "leader"}
	for i, f := range logs {
		if f != nil {
			id := catalog.PartitionID{Topic: l.topic, Partition: int32(i)}
			t.Parts = append(t.Parts, Assignment{ID: id, Topic: "t", Epoch: epoch, Replica: f})
		}
	}
	p.Assign(map[catalog.BrokerID]Target{1: t})
}

func (l *fakeLeader) until(cond func() bool) {
	l.t.Helper()
	require.Eventually(l.t, cond, time.Minute, time.Millisecond)
}

func (l *fakeLeader) sawPrefix(want ...string) {
	l.t.Helper()
	l.until(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.seen) >= len(want)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Equal(l.t, want, l.seen[:len(want)])
}

func TestASessionSaysOnlyWhatHasChanged(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic, part1{0, nil, "de"}) },
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic) },
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic, part1{0, nil, "f"}) },
	}
	a := &fakeLog{log: "abc"}
	l.follow(a)
	l.sawPrefix("s0/0 0@3(e5)", "s77/1 0@5(e5)", "s77/2", "s77/3 0@6(e5)")
	require.Equal(t, "cut 3, append de, append f", a.told())
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Equal(t, record.Offset(7), a.hw)
}

func TestASessionThatTheLeaderForgotBeginsAnew(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic) },
		func(*kmsg.FetchRequest) *kmsg.FetchResponse {
			r := fetched(0, l.topic)
			r.ErrorCode = kerr.FetchSessionIDNotFound.Code
			return r
		},
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(0, l.topic) }, // keeps none
	}
	l.follow(&fakeLog{log: "abc"})
	l.sawPrefix("s0/0 0@3(e5)", "s77/1", "s0/0 0@3(e5)", "s0/0 0@3(e5)")
}

func TestH23_WhatTheLeaderHasNotBeginsAtTheTier(t *testing.T) {
	l := &fakeLeader{t: t, end: 90}
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		func(*kmsg.FetchRequest) *kmsg.FetchResponse {
			return fetched(77, l.topic, part1{0, kerr.OffsetMovedToTieredStorage, ""}, part1{1, nil, "x"})
		},
	}
	a, b := &fakeLog{log: "abc", tiered: 80}, &fakeLog{}
	l.follow(a, b)
	l.until(func() bool { return a.told() == "cut 3, restart at 80, cut 80" })
	l.until(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.seen, func(s string) bool { return strings.Contains(s, " 0@80(e5)") })
	})
	require.Equal(t, "cut 0, append x", b.told(), "the other goes on")
}

func TestAnEmptyLogBeginsAtTheTierAtOnce(t *testing.T) {
	l := &fakeLeader{t: t, end: 90}
	a := &fakeLog{restart: true, tiered: 80}
	l.follow(a)
	l.until(func() bool { return a.told() == "restart at 80, cut 80" })
	l.sawPrefix("s0/0 0@80(e5)")
}

func TestRefusalsPutOffOnePartition(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	var refuse func(*kmsg.FetchRequest) *kmsg.FetchResponse
	refuse = func(q *kmsg.FetchRequest) *kmsg.FetchResponse {
		if len(q.ForgottenTopics) > 0 {
			return fetched(77, l.topic)
		}
		l.script = append(l.script, refuse) // a pause may be over before the next fetch: it is longer the next time
		return fetched(77, l.topic, part1{0, kerr.UnknownLeaderEpoch, ""}, part1{1, nil, ""})
	}
	l.script = append(l.script, refuse)
	l.follow(&fakeLog{log: "abc"}, &fakeLog{log: "abc"})
	l.until(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		off := slices.IndexFunc(l.seen, func(s string) bool { return strings.Contains(s, "-[0]") })
		return off > 0 && strings.Contains(strings.Join(l.seen[off+1:], ""), " 0@3(e5)")
	})
}

func TestABatchThatDoesNotFitIsAskedForAgainAfterACut(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	again := func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic, part1{0, nil, "d"}) }
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{again}
	a := &fakeLog{log: "abc", appendOK: ErrDiverged}
	l.follow(a)
	l.until(func() bool { return a.told() == "cut 3, refuse d, cut 3" })
}

func TestABrokenConnectionIsMadeAgain(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic) },
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return nil },
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(78, l.topic, part1{0, nil, "d"}) },
	}
	a := &fakeLog{log: "abc"}
	l.follow(a)
	l.sawPrefix("s0/0 0@3(e5)", "s77/1", "s0/0 0@3(e5)", "s78/1 0@4(e5)")
	require.Equal(t, "cut 3, append d", a.told(), "the log was cut for this epoch already")
}

func TestAnotherEpochBeginsWithACut(t *testing.T) {
	l := &fakeLeader{t: t, end: 2}
	a, b := &fakeLog{log: "abc"}, &fakeLog{log: "abc"}
	a.epochs.Assign(4, 0)
	b.epochs.Assign(4, 0)
	p := l.follow(a)
	l.until(func() bool { return a.told() == "cut 2" })
	l.assign(p, 6, b)
	l.until(func() bool { return b.told() == "cut 2" })
	l.until(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.seen) > 0 && strings.Contains(l.seen[len(l.seen)-1], "s0/0") || strings.Contains(strings.Join(l.seen, ""), "(e6)")
	})
	l.assign(p, 6)
	require.Equal(t, "cut 2", a.told())
}

func TestAStaleReplicaIsLeftAlone(t *testing.T) {
	l := &fakeLeader{t: t, end: 3}
	a := &fakeLog{log: "abc", stale: true}
	l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		func(*kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(77, l.topic, part1{0, nil, "d"}) },
	}
	p := l.follow(a)
	l.sawPrefix("s0/0 0@3(e5)")
	b := &fakeLog{log: "abc"}
	l.assign(p, 6, b)
	l.until(func() bool { return b.told() == "cut 3" })
	require.Equal(t, "cut 3", a.told())
}

func TestConnRefusesWhatIsNoAnswer(t *testing.T) {
	for name, answer := range map[string][]byte{
		"another id":      {0, 0, 0, 5, 0, 0, 0, 9, 0},
		"too long":        {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0},
		"too short":       {0, 0, 0, 2, 0, 0, 0, 1, 0},
		"tags":            {0, 0, 0, 5, 0, 0, 0, 1, 3},
		"half an answer":  {0, 0, 0, 7, 0, 0, 0, 1, 0, 1, 2},
		"the end at once": {},
	} {
		here, there := net.Pipe()
		go func() {
			_, _ = there.Read(make([]byte, 1<<16))
			_, _ = there.Write(answer)
			_ = there.Close()
		}()
		c := NewConn(here, "test", 1<<20)
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(fetchVersion)
		err := c.Do(t.Context(), req, kmsg.NewPtrFetchResponse(), time.Second)
		require.Error(t, err, name)
		require.NoError(t, errors.Join(c.Close()))
	}
}

// What a replica that is not in sync copied has to be paid off before it is asked for again, whichever of the limits it is
// under: the broker's own, the one of throttled followers, or the pause that the leader asks for. What is in sync goes on.
func TestAReplicaThatCatchesUpLeavesTheOthersAlone(t *testing.T) {
	for name, row := range map[string]struct {
		o     Options
		a     Assignment
		asked int32 // ms
		free  bool
	}{
		"the broker's limit":          {o: Options{CatchUp: 1}, a: Assignment{CatchingUp: true}},
		"throttled followers":         {o: Options{Throttle: throttle(1)}, a: Assignment{CatchingUp: true, FollowerThrottled: true}},
		"not a throttled follower":    {o: Options{Throttle: throttle(1)}, a: Assignment{CatchingUp: true, LeaderThrottled: true}, free: true},
		"throttled, but in sync":      {o: Options{CatchUp: 1, Throttle: throttle(1)}, a: Assignment{FollowerThrottled: true, LeaderThrottled: true}, asked: 3_600_000, free: true},
		"the leader asks for a pause": {a: Assignment{CatchingUp: true, LeaderThrottled: true}, asked: 3_600_000},
		"it asks others for a pause":  {a: Assignment{CatchingUp: true, FollowerThrottled: true}, asked: 3_600_000, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &fakeLeader{t: t, end: 3, throttle: row.asked}
			hour := strings.Repeat("s", 3600) // to pay off at a byte a second
			l.topic = catalog.NewUUID()
			a, b := &fakeLog{log: "abc"}, &fakeLog{log: "abc"}
			l.script = []func(*kmsg.FetchRequest) *kmsg.FetchResponse{
				func(*kmsg.FetchRequest) *kmsg.FetchResponse {
					return fetched(77, l.topic, part1{0, nil, hour}, part1{1, nil, "d"})
				},
			}
			row.o.Self, row.o.Dial, row.o.MaxWait = catalog.Member{Broker: 2, Incarnation: 9}, l.dial, time.Millisecond
			p := New(row.o)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })
			id := func(part int32) catalog.PartitionID { return catalog.PartitionID{Topic: l.topic, Partition: part} }
			row.a.ID, row.a.Topic, row.a.Epoch, row.a.Replica = id(0), "t", 5, a
			p.Assign(map[catalog.BrokerID]Target{1: {Addr: "leader", Parts: []Assignment{
				row.a, {ID: id(1), Topic: "t", Epoch: 5, Replica: b},
			}}})
			l.until(func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.seen) > 20
			})
			l.mu.Lock()
			defer l.mu.Unlock()
			if row.free {
				require.Contains(t, l.seen[1], " 0@", "it is asked for at once")
				return
			}
			require.Contains(t, l.seen[1], "-[0]", "it is left out until what it copied is paid off")
			require.NotContains(t, strings.Join(l.seen[2:], ""), " 0@")
		})
	}
}

func throttle(rate int64) *replication.Throttle {
	t := &replication.Throttle{}
	t.SetRate(rate, time.Now())
	return t
}
