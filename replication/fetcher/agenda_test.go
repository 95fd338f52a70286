package fetcher

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
)

// A round looks only at what is on the agenda. Whatever happens to partitions, sessions and connections, each fetch leaves
// the leader's session with what a look at every partition finds, and no round rests while such a look finds work.
func TestTheAgendaHasWhatALookAtEveryPartitionFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // a deadline of the test would be of another clock
			ctx, cancel := context.WithCancel(context.Background())
			w := &agendaWorld{T: rt, session: map[catalog.PartitionID]asked{}, logs: map[catalog.PartitionID]*fakeLog{}}
			for i := range 3 {
				topic := catalog.NewUUID()
				w.ids = append(w.ids, catalog.PartitionID{Topic: topic}, catalog.PartitionID{Topic: topic, Partition: int32(i + 1)})
			}
			w.f = newFetcher(New(Options{Dial: w.dial, CatchUp: 20}), 1)
			w.f.ctx = ctx
			defer w.f.restarts.Wait()
			defer cancel()
			w.assign()
			for range rapid.IntRange(1, 60).Draw(rt, "rounds") {
				switch rapid.IntRange(0, 9).Draw(rt, "before") {
				case 0:
					w.assign()
				case 1, 2, 3:
					time.Sleep(time.Duration(rapid.IntRange(1, 300).Draw(rt, "ms")) * time.Millisecond)
				}
				synctest.Wait() // what restarts is done
				w.round()
			}
		})
	})
}

// agendaWorld is a fetcher and a leader that answers at random, and remembers what it was told in the session.
type agendaWorld struct {
	*rapid.T
	net.Conn
	f       *fetcher
	ids     []catalog.PartitionID
	logs    map[catalog.PartitionID]*fakeLog
	session map[catalog.PartitionID]asked
	next    int32 // the epoch that the session expects
	out     []byte
}

func (w *agendaWorld) odds(n int, what string) bool { return rapid.IntRange(1, n).Draw(w.T, what) == 1 }

func (w *agendaWorld) assign() {
	t := Target{Addr: "leader"}
	for _, id := range w.ids {
		if w.odds(3, "not ours") {
			continue
		}
		a := Assignment{ID: id, Topic: id.Topic.String(), Epoch: 5, CatchingUp: w.odds(3, "catching up")}
		if p := w.f.parts[id]; p != nil {
			a.Epoch, a.Replica = p.Epoch, p.Replica
		}
		if a.Replica == nil || w.odds(3, "a new epoch") {
			a.Epoch++
			w.logs[id] = &fakeLog{restart: w.odds(4, "an empty log")}
			a.Replica = w.logs[id]
		}
		t.Parts = append(t.Parts, a)
	}
	w.f.assign(t)
}

func (w *agendaWorld) round() {
	w.f.adopt()
	wait, err := w.f.round(context.Background())
	if err != nil {
		w.f.failed(err)
		return
	}
	if wait == 0 {
		return
	}
	now, next := time.Now(), time.Time{}
	for _, p := range w.f.parts {
		if p.phase == stale || p.phase == restarting {
			continue
		}
		require.True(w, p.retryAt.After(now), "it rests, and %v is in phase %d", p.ID, p.phase)
		if next.IsZero() || p.retryAt.Before(next) {
			next = p.retryAt
		}
	}
	if !next.IsZero() {
		require.Positive(w, wait)
		require.LessOrEqual(w, wait, max(next.Sub(now), time.Millisecond))
	}
}

// wanted is what a look at every partition finds to fetch.
func (w *agendaWorld) wanted() map[catalog.PartitionID]asked {
	out, now := map[catalog.PartitionID]asked{}, time.Now()
	for id, p := range w.f.parts {
		if p.phase != fetching || p.retryAt.After(now) || p.CatchingUp && w.f.pool.catchUp.Pause(now) > 0 {
			continue
		}
		l, _ := p.Replica.Log()
		out[id] = asked{l.End, p.Epoch}
	}
	return out
}

func (w *agendaWorld) dial(context.Context, string) (net.Conn, error) {
	if w.odds(8, "no connection") {
		return nil, errors.New("refused")
	}
	return w, nil
}

func (w *agendaWorld) SetDeadline(time.Time) error { return nil }
func (w *agendaWorld) Close() error                { return nil }

func (w *agendaWorld) Write(b []byte) (int, error) {
	if w.odds(20, "the connection breaks") {
		return 0, io.ErrClosedPipe
	}
	req, id, err := readRequest(b)
	require.NoError(w, err)
	var resp kmsg.Response
	if q, ok := req.(*kmsg.FetchRequest); ok {
		resp = w.fetched(q)
	} else {
		resp = w.ends(req.(*kmsg.OffsetForLeaderEpochRequest))
	}
	w.out = writeAnswer(w.out[:0], id, req.GetVersion(), resp)
	return len(b), nil
}

func (w *agendaWorld) Read(b []byte) (int, error) {
	n := copy(b, w.out)
	w.out = w.out[n:]
	return n, nil
}

// ends answers a question about epochs, or not.
func (w *agendaWorld) ends(q *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := answerEpochs(q, 3)
	for i := range resp.Topics {
		ps := resp.Topics[i].Partitions
		for j := range ps {
			if w.odds(6, "the question is refused") {
				ps[j].ErrorCode = kerr.UnknownLeaderEpoch.Code
			}
		}
		if w.odds(8, "the question is overheard") {
			resp.Topics[i].Partitions = ps[1:]
		}
	}
	return resp
}

// fetched takes over what a fetch says of the session, as a leader does, and answers it.
func (w *agendaWorld) fetched(q *kmsg.FetchRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	if q.SessionEpoch == 0 {
		clear(w.session)
		w.next = 0
	}
	require.Equal(w, w.next, q.SessionEpoch)
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			w.session[catalog.PartitionID{Topic: t.TopicID, Partition: p.Partition}] =
				asked{record.Offset(p.FetchOffset), record.Epoch(p.CurrentLeaderEpoch)}
		}
	}
	for _, t := range q.ForgottenTopics {
		for _, p := range t.Partitions {
			delete(w.session, catalog.PartitionID{Topic: t.TopicID, Partition: p})
		}
	}
	require.Equal(w, w.wanted(), w.session)
	w.next++
	switch rapid.IntRange(0, 20).Draw(w.T, "the session") {
	case 0:
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return resp
	case 1:
		resp.ErrorCode = kerr.UnknownServerError.Code
		return resp
	case 2: // none is kept
	default:
		resp.SessionID = 77
	}
	for _, id := range w.ids {
		if _, ok := w.session[id]; !ok || !w.odds(3, "there is news") {
			continue
		}
		t := kmsg.NewFetchResponseTopic()
		t.TopicID = id.Topic
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = id.Partition
		w.fill(&p, w.logs[id])
		t.Partitions = append(t.Partitions, p)
		if w.odds(20, "it is told twice") {
			w.fill(&p, w.logs[id])
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (w *agendaWorld) fill(p *kmsg.FetchResponseTopicPartition, log *fakeLog) {
	switch rapid.IntRange(0, 9).Draw(w.T, "the news") {
	case 0:
		p.ErrorCode = kerr.OffsetMovedToTieredStorage.Code
	case 1:
		p.ErrorCode = kerr.OffsetOutOfRange.Code
	case 2:
		p.ErrorCode = kerr.UnknownTopicID.Code
	case 3:
		p.HighWatermark = 1
	case 4:
		log.appendOK = rapid.SampledFrom([]error{ErrDiverged, ErrRestart, ErrStale, io.ErrShortWrite}).Draw(w.T, "the log says")
	default:
		p.RecordBatches = []byte("ab")
	}
}
