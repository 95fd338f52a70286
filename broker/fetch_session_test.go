package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// sessionWorld is a topic, what a client of a fetch session knows of its partitions, and the session.
type sessionWorld struct {
	client
	name    string
	id      [16]byte
	version int16
	session int32
	epoch   int32
	at      []int64     // where the client reads; -1: the partition is not in the session
	asked   []int64     // what the session was last told
	known   []knownPart // by answers of the session
}

// knownPart is what a client learns of a partition without reading.
type knownPart struct {
	code      int16
	hw, start int64
}

func newSessionWorld(c client, name string, partitions int, version int16) *sessionWorld {
	w := &sessionWorld{client: c, name: name, version: version}
	w.id = c.create(name, int32(partitions), map[string]string{"retention.ms": "-1"})
	w.at, w.asked, w.known = make([]int64, partitions), make([]int64, partitions), make([]knownPart, partitions)
	for i := range w.asked {
		w.asked[i] = -1
	}
	return w
}

// request is a fetch of the partitions for which want holds.
func (w *sessionWorld) request(maxBytes int32, want func(i int) bool) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = w.version, 1, maxBytes, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = w.name, w.id
	for i := range w.at {
		if want(i) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = int32(i), w.at[i], 1<<20, -1
			t.Partitions = append(t.Partitions, p)
		}
	}
	if len(t.Partitions) > 0 {
		req.Topics = append(req.Topics, t)
	}
	return req
}

// incremental is the session's next fetch: only what has changed on the client's side.
func (w *sessionWorld) incremental(maxBytes int32) *kmsg.FetchRequest {
	req := w.request(maxBytes, func(i int) bool { return w.at[i] >= 0 && w.at[i] != w.asked[i] })
	req.SessionID, req.SessionEpoch = w.session, w.epoch
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic, forgotten.TopicID = w.name, w.id
	for i := range w.at {
		if w.at[i] < 0 && w.asked[i] >= 0 {
			forgotten.Partitions = append(forgotten.Partitions, int32(i))
		}
		w.asked[i] = w.at[i]
	}
	if len(forgotten.Partitions) > 0 {
		req.ForgottenTopics = append(req.ForgottenTopics, forgotten)
	}
	return req
}

// parts is an answer by partition.
func parts(resp *kmsg.FetchResponse) map[int]kmsg.FetchResponseTopicPartition {
	m := map[int]kmsg.FetchResponseTopicPartition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			m[int(p.Partition)] = p
		}
	}
	return m
}

// fetch is one fetch of the session, taken over.
func (w *sessionWorld) fetch(maxBytes int32) map[int]kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := ask[*kmsg.FetchResponse](w.client, w.incremental(maxBytes))
	return w.take(resp)
}

func (w *sessionWorld) take(resp *kmsg.FetchResponse) map[int]kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	require.Zero(w.t, resp.ErrorCode)
	require.NotZero(w.t, resp.SessionID)
	w.session, w.epoch = resp.SessionID, w.epoch+1
	got := parts(resp)
	for i, p := range got {
		w.known[i] = knownPart{p.ErrorCode, p.HighWatermark, p.LogStartOffset}
	}
	return got
}

// scan is the model: a fetch without session looks at everything.
func (w *sessionWorld) scan() map[int]kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	return parts(ask[*kmsg.FetchResponse](w.client, w.request(50<<20, func(i int) bool { return w.at[i] >= 0 })))
}

// fetchAndCompare fetches by the session and without, and demands that the client has learned the same.
func (w *sessionWorld) fetchAndCompare(t interface{ Fatalf(string, ...any) }) {
	got := w.fetch(50 << 20)
	for i, want := range w.scan() {
		p, named := got[i]
		if k := (knownPart{want.ErrorCode, want.HighWatermark, want.LogStartOffset}); w.known[i] != k && (want.ErrorCode == 0 || w.known[i].code != want.ErrorCode) {
			t.Fatalf("partition %d at %d: the session's client knows %+v (named now: %t), a full fetch says %+v", i, w.at[i], w.known[i], named, k)
		}
		if string(p.RecordBatches) != string(want.RecordBatches) {
			t.Fatalf("partition %d at %d: %d bytes by the session (named: %t), %d by a full fetch", i, w.at[i], len(p.RecordBatches), named, len(want.RecordBatches))
		}
	}
	for i, p := range got {
		w.advance(i, p)
	}
}

// advance moves the client past what it was given, or to where a refused one begins again.
func (w *sessionWorld) advance(i int, p kmsg.FetchResponseTopicPartition) {
	for rest := p.RecordBatches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		require.NoError(w.t, err)
		h, err := record.ParseHeader(batch)
		require.NoError(w.t, err)
		w.at[i], rest = int64(h.NextOffset()), after
	}
}

func (w *sessionWorld) deleteRecords(part int, to int64) {
	w.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = w.name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = int32(part), to
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	ask[*kmsg.DeleteRecordsResponse](w.client, req)
}

func (w *sessionWorld) deleteTopic() {
	w.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 5000, []string{w.name}
	resp := ask[*kmsg.DeleteTopicsResponse](w.client, req)
	require.Zero(w.t, resp.Topics[0].ErrorCode)
}

// What a session's client learns from what is named is what a client without session learns from fetches of everything,
// whatever is produced, removed, sought, taken out, put back, deleted or made again in between.
func TestASessionTellsWhatAFullFetchTells(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	topics := 0
	rapid.Check(t, func(rt *rapid.T) {
		topics++
		const partitions = 5
		w := newSessionWorld(c, fmt.Sprint("s", topics), partitions, rapid.SampledFrom([]int16{7, 11, 12, 13, 18}).Draw(rt, "version"))
		part := func(rt *rapid.T) int { return rapid.IntRange(0, partitions-1).Draw(rt, "partition") }
		rt.Repeat(map[string]func(*rapid.T){
			"produce": func(rt *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(rt, "batches") {
					require.Zero(t, c.produce(w.name, int32(part(rt)), batchOf(2, record.CodecNone, "x")).ErrorCode)
				}
			},
			"delete records": func(rt *rapid.T) { w.deleteRecords(part(rt), -1) },
			"seek": func(rt *rapid.T) {
				if i := part(rt); w.at[i] >= 0 {
					w.at[i] = rapid.Int64Range(0, 8).Draw(rt, "offset")
				}
			},
			"forget":   func(rt *rapid.T) { w.at[part(rt)] = -1 },
			"ask for":  func(rt *rapid.T) { w.at[part(rt)] = 0 },
			"fetch":    func(rt *rapid.T) { w.fetchAndCompare(rt) },
			"fetch on": func(rt *rapid.T) { w.fetchAndCompare(rt); w.fetchAndCompare(rt) },
			"make again": func(rt *rapid.T) {
				if w.version < 13 {
					w.deleteTopic()
					w.id = c.create(w.name, partitions, map[string]string{"retention.ms": "-1"})
				}
			},
		})
	})
}

// A session with room for one batch a fetch comes to everything in as many fetches as there are batches, whatever else is
// produced meanwhile: what was served last is served next to last (H13).
func TestH13_ASessionWithLittleRoomServesAllInTurn(t *testing.T) {
	const partitions, batches = 8, 3
	n := brokertest.Start(t, brokertest.Options{})
	w := newSessionWorld(dial(t, n), "little", partitions, 17)
	batch := batchOf(10, record.CodecNone, "some value that takes a little room")
	w.fetch(1) // everything is idle
	for range batches {
		for i := range int32(partitions) {
			require.Zero(t, w.produce(w.name, i, batch).ErrorCode)
		}
	}
	last := map[int]int{}
	for round := range partitions * batches {
		require.Zero(t, w.produce(w.name, 0, batch).ErrorCode, "one partition grows all the time")
		for i, p := range w.fetch(int32(len(batch))) {
			if len(p.RecordBatches) > 0 {
				require.LessOrEqual(t, round-last[i], partitions, "partition %d waits for its turn", i)
				last[i] = round
				w.advance(i, p)
			}
		}
	}
	for i := 1; i < partitions; i++ {
		require.EqualValues(t, batches*10, w.at[i], "partition %d", i)
	}
}

// A long poll of a session in which nothing was left to look at is woken by whatever moves: an append, a removal that
// takes the reader's offset, the deletion of the topic (P11). Nothing polls: the wait is longer than the test.
func TestP11_AnIdleSessionIsWokenByWhatMoves(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	for _, row := range []struct {
		name   string
		move   func(c client, w *sessionWorld)
		expect func(t *testing.T, p kmsg.FetchResponseTopicPartition)
	}{
		{"append", func(c client, w *sessionWorld) { c.produce(w.name, 3, batchOf(1, record.CodecNone, "x")) },
			func(t *testing.T, p kmsg.FetchResponseTopicPartition) { require.NotEmpty(t, p.RecordBatches) }},
		{"topic is deleted", func(c client, w *sessionWorld) { (&sessionWorld{client: c, name: w.name}).deleteTopic() },
			func(t *testing.T, p kmsg.FetchResponseTopicPartition) {
				require.Contains(t, []int16{kerr.UnknownTopicID.Code, kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code}, p.ErrorCode)
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newSessionWorld(dial(t, n), "woken-"+row.name[:5], 10, 17)
			for range 3 {
				w.fetch(50 << 20) // nothing is left to look at
			}
			req := w.incremental(50 << 20)
			req.MaxWaitMillis = int32(time.Hour.Milliseconds())
			_, err := w.Send(req)
			require.NoError(t, err)
			other := dial(t, n)
			require.Eventually(t, func() bool { return gauge(t, n, "tidemark_fetches_waiting") > 0 }, time.Minute, time.Millisecond)
			row.move(other, w)
			resp, err := w.Recv()
			require.NoError(t, err)
			got := w.take(resp.(*kmsg.FetchResponse))
			require.NotEmpty(t, got)
			for i, p := range got {
				if i == 3 || row.name != "append" {
					row.expect(t, p)
				}
			}
		})
	}
}

// gauge is the value of a metric without labels.
func gauge(t testing.TB, n *brokertest.Node, name string) float64 {
	families, err := n.Metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// What sessions remember and what waiting fetches name is bounded together, whatever clients ask for (R20): beyond it no
// session is made or grows, and a fetch that would wait without one is answered at once, with the pause it wanted to make.
func TestR20_FetchedPartitionsAreBounded(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{Env: []string{"TIDEMARK_FETCH_PARTITIONS=1000"}})
	c := dial(t, n)
	id := c.create("bounded", 1, nil)
	inUse := func(want float64, msg string) { // what a request has taken it may give back after its answer
		t.Helper()
		require.Eventually(t, func() bool { return gauge(t, n, "tidemark_fetch_partitions") == want }, time.Minute, time.Millisecond, msg)
	}
	whole := func(partitions int) *kmsg.FetchRequest { // of a session; all but the first do not exist
		req := fetchRequest(17, "bounded", id, 0, 0)
		req.MaxWaitMillis, req.SessionEpoch = 0, 0
		for i := 1; i < partitions; i++ {
			p := req.Topics[0].Partitions[0]
			p.Partition = int32(i)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		return req
	}
	first := ask[*kmsg.FetchResponse](c, whole(900))
	require.NotZero(t, first.SessionID)
	inUse(900, "of the first session")
	none := ask[*kmsg.FetchResponse](c, whole(200))
	require.Zero(t, none.SessionID, "no session beyond the bound")
	require.Len(t, parts(none), 200, "and yet an answer")

	grow := whole(1100)
	grow.SessionID, grow.SessionEpoch = first.SessionID, 1
	grow.Topics[0].Partitions = grow.Topics[0].Partitions[900:]
	require.Equal(t, kerr.FetchSessionIDNotFound.Code, ask[*kmsg.FetchResponse](c, grow).ErrorCode)
	inUse(0, "it has ended")

	second := ask[*kmsg.FetchResponse](c, whole(900))
	require.NotZero(t, second.SessionID)
	wait := fetchRequest(17, "bounded", id, 0, 0)
	wait.MaxWaitMillis = int32(time.Hour.Milliseconds())
	for range 200 {
		wait.Topics[0].Partitions = append(wait.Topics[0].Partitions, wait.Topics[0].Partitions[0])
	}
	resp := ask[*kmsg.FetchResponse](c, wait)
	require.EqualValues(t, wait.MaxWaitMillis, resp.ThrottleMillis)
	inUse(900, "of the second session")

	wait.Topics[0].Partitions, wait.MaxWaitMillis = wait.Topics[0].Partitions[:10], 200
	require.Zero(t, ask[*kmsg.FetchResponse](c, wait).ThrottleMillis, "there is room for ten")
	end := fetchRequest(17, "", [16]byte{}, 0, 0)
	end.Topics, end.SessionID, end.SessionEpoch = nil, second.SessionID, -1
	ask[*kmsg.FetchResponse](c, end)
	inUse(0, "nothing is left")
}

// A client that sends its next fetch before the last one is answered is answered in turn.
func TestAFetchWaitsForItsSessionsTurn(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	w := newSessionWorld(dial(t, n), "turn", 2, 17)
	w.fetch(50 << 20)
	req := w.incremental(50 << 20)
	req.MaxWaitMillis = int32(time.Hour.Milliseconds())
	_, err := w.Send(req)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return gauge(t, n, "tidemark_fetches_waiting") > 0 }, time.Minute, time.Millisecond)
	w.epoch++
	next := w.incremental(50 << 20)
	_, err = w.Send(next)
	require.NoError(t, err)
	require.Zero(t, dial(t, n).produce("turn", 1, batchOf(1, record.CodecNone, "x")).ErrorCode)
	for range 2 {
		resp, err := w.Recv()
		require.NoError(t, err)
		require.Zero(t, resp.(*kmsg.FetchResponse).ErrorCode)
		require.NotEmpty(t, parts(resp.(*kmsg.FetchResponse))[1].RecordBatches)
	}
}
