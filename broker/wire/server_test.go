package wire

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"tidemark/integration/rawclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is the one fake Handler: a function for Handle, and refusals as
// the contract says. It serves all keys up to 18 at kmsg's versions, and no
// Produce below 3.
type scripted struct {
	handle func(ctx context.Context, c *Conn, req *Request) Reply
	size   func(req *Request) int
}

func (s scripted) AnswerSize(req *Request) int {
	if s.size == nil {
		return 0
	}
	return s.size(req)
}

func (s scripted) Supports(key, version int16) bool {
	return key >= 0 && key <= 18 && (key != 0 || version >= 3)
}

func (s scripted) Handle(ctx context.Context, c *Conn, req *Request) Reply {
	return s.handle(ctx, c, req)
}

func (s scripted) Refuse(_ *Conn, req *Request) Reply {
	if req.Key == 18 {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = 35
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 4}}
		return Respond(resp)
	}
	return Unsupported(req)
}

// echo answers every request with an empty response of its kind.
func echo(_ context.Context, _ *Conn, req *Request) Reply { return Respond(req.Body.ResponseKind()) }

type harness struct {
	*Server
	t    *testing.T
	stop func()
}

// start runs a server until the test ends and fails if it does not stop.
func start(t *testing.T, opts Options, handle func(context.Context, *Conn, *Request) Reply) *harness {
	t.Helper()
	return startScripted(t, opts, scripted{handle: handle})
}

func startScripted(t *testing.T, opts Options, handler scripted) *harness {
	t.Helper()
	opts.Listeners = append(opts.Listeners, ListenerOptions{Name: "PLAINTEXT", Address: "127.0.0.1:0"})
	s, err := Listen(t.Context(), opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, handler) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Error("the server does not stop")
		}
	})
	t.Cleanup(stop)
	return &harness{s, t, stop}
}

func (h *harness) dial() *rawclient.Client {
	h.t.Helper()
	c, err := rawclient.Dial(h.t.Context(), h.Addr("PLAINTEXT").String())
	require.NoError(h.t, err)
	c.Timeout = time.Minute
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (h *harness) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 2*time.Millisecond, what)
}

func requireClosed(t *testing.T, c *rawclient.Client) {
	t.Helper()
	_, _, err := c.RecvRaw()
	var ne net.Error
	require.False(t, err == nil || errors.As(err, &ne) && ne.Timeout(), "the connection is still open: %v", err)
}

func metadata(version int16) kmsg.Request {
	r := kmsg.NewPtrMetadataRequest()
	r.SetVersion(version)
	return r
}

func produce(acks int16, records []byte) kmsg.Request {
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(9)
	r.Acks = acks
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return r
}

func TestH7_AnswersLeaveInRequestOrder(t *testing.T) {
	slow, quick := NewPending(), make(chan struct{})
	h := start(t, Options{}, func(_ context.Context, _ *Conn, req *Request) Reply {
		switch req.Key {
		case 1:
			return Later(slow)
		case 18:
			defer close(quick)
		}
		return Respond(req.Body.ResponseKind())
	})
	c := h.dial()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SetVersion(12)
	for _, r := range []kmsg.Request{fetch, metadata(9), produce(-1, nil), kmsg.NewPtrApiVersionsRequest()} {
		_, err := c.Send(r)
		require.NoError(t, err)
	}
	<-quick // all four have begun; the first still waits
	slow.Resolve(Respond(fetch.ResponseKind()))
	for _, key := range []int16{1, 3, 0, 18} {
		resp, err := c.Recv()
		require.NoError(t, err)
		require.Equal(t, key, resp.Key())
	}
}

func TestH12_PipelinedRequestsTakeEffectInOrder(t *testing.T) {
	var log []int32 // written by one connection's goroutine only: the race detector watches
	h := start(t, Options{MaxInFlight: 4}, func(_ context.Context, _ *Conn, req *Request) Reply {
		log = append(log, req.Body.(*kmsg.ProduceRequest).TimeoutMillis)
		p := NewPending()
		go p.Resolve(Respond(req.Body.ResponseKind()))
		return Later(p)
	})
	c := h.dial()
	const n = 500
	go func() {
		for i := range n {
			r := produce(-1, nil).(*kmsg.ProduceRequest)
			r.TimeoutMillis = int32(i)
			_, _ = c.Send(r)
		}
	}()
	for i := range n {
		id, _, err := c.RecvRaw()
		require.NoError(t, err)
		require.EqualValues(t, i, id)
	}
	h.stop()
	require.Len(t, log, n)
	for i, v := range log {
		require.EqualValues(t, i, v)
	}
}

func TestP3_RequestBytesAreTakenFromABudget(t *testing.T) {
	const size = 1 << 20
	var held []*Request
	begun := make(chan struct{}, 16)
	h := start(t, Options{MaxRequestBytes: size, ProduceBytes: size + size/2, OtherBytes: size}, func(_ context.Context, _ *Conn, req *Request) Reply {
		if req.Key == 0 {
			req.Retain()
			held = append(held, req)
			begun <- struct{}{}
		}
		return Respond(req.Body.ResponseKind())
	})
	first, second, other := h.dial(), h.dial(), h.dial()
	big := make([]byte, size-100)
	_, err := first.Send(produce(-1, big))
	require.NoError(t, err)
	<-begun
	go func() { _, _ = second.Send(produce(-1, big)) }()

	// A follower's fetch, a heartbeat: not behind the produces.
	_, err = other.Do(metadata(9))
	require.NoError(t, err)
	select {
	case <-begun:
		t.Fatal("two requests hold more bytes than the budget has")
	default:
	}
	held[0].Release()
	<-begun
	held[1].Release()
}

func TestP3_TheBufferGoesBackWhenHandleReturns(t *testing.T) {
	const size = 1 << 20
	waits := make(chan *Pending, 8)
	h := start(t, Options{MaxRequestBytes: size, ProduceBytes: size, MaxInFlight: 8}, func(_ context.Context, _ *Conn, req *Request) Reply {
		p := NewPending()
		waits <- p
		return Later(p)
	})
	c := h.dial()
	for range 5 { // five appended produces wait for replication, with room for one
		_, err := c.Send(produce(-1, make([]byte, size-100)))
		require.NoError(t, err)
	}
	for range 5 {
		(<-waits).Resolve(Respond(produce(-1, nil).ResponseKind()))
		_, err := c.Recv()
		require.NoError(t, err)
	}
}

func TestInFlightBoundStopsReading(t *testing.T) {
	var begun atomic.Int32
	gate := NewPending()
	h := start(t, Options{MaxInFlight: 3}, func(_ context.Context, _ *Conn, req *Request) Reply {
		if begun.Add(1) == 1 {
			return Later(gate)
		}
		return Respond(req.Body.ResponseKind())
	})
	c := h.dial()
	for range 50 {
		_, err := c.Send(produce(-1, nil))
		require.NoError(t, err)
	}
	// One waits at the writer, three in the queue, one at its door.
	eventually(t, "requests begin", func() bool { return begun.Load() == 5 })
	gate.Resolve(Respond(produce(-1, nil).ResponseKind()))
	for range 50 {
		_, err := c.Recv()
		require.NoError(t, err)
	}
	require.EqualValues(t, 50, begun.Load())
}

// Requests of some bytes that each ask for much are begun few at a time, whether a long poll stands before them or the peer
// does not read; produce goes on.
func TestR20_FewLargeAnswersWaitOnAConnection(t *testing.T) {
	var begun atomic.Int32
	poll, produced := NewPending(), make(chan struct{})
	answer := make([]byte, 16<<20) // more than sockets hold
	h := start(t, Options{}, func(_ context.Context, _ *Conn, req *Request) Reply {
		switch req.Key {
		case keyProduce:
			close(produced)
		case keyFetch:
			return Later(poll)
		default:
			begun.Add(1)
			return RespondBody(&countedBody{size: len(answer), write: func(w *Writer) error { _, err := w.Write(answer); return err }})
		}
		return Respond(req.Body.ResponseKind())
	})
	c := h.dial()
	require.NoError(t, c.Conn().(*net.TCPConn).SetReadBuffer(64<<10)) // the system's own may grow to hold an answer
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SetVersion(12)
	const n = 20
	for _, r := range append([]kmsg.Request{fetch, produce(-1, nil)}, slices.Repeat([]kmsg.Request{metadata(1)}, n)...) {
		_, err := c.Send(r)
		require.NoError(t, err)
	}
	<-produced
	eventually(t, "requests begin", func() bool { return begun.Load() == maxOthers })
	poll.Resolve(Respond(fetch.ResponseKind()))
	for i := range n + 2 {
		require.LessOrEqual(t, begun.Load(), int32(max(0, i-1)+maxOthers), "after %d answers", i)
		_, _, err := c.RecvRaw()
		require.NoError(t, err)
	}
	require.EqualValues(t, n, begun.Load())
}

func TestH15_ALateAnswerReachesNobodyElse(t *testing.T) {
	late := make(chan *Pending, 1)
	ended := make(chan struct{})
	h := start(t, Options{}, func(ctx context.Context, _ *Conn, req *Request) Reply {
		if req.Key != 1 {
			return echo(ctx, nil, req)
		}
		p := NewPending()
		context.AfterFunc(ctx, func() { close(ended) })
		late <- p
		return Later(p)
	})
	// An address of its own, so that nobody else takes the port before it is used again.
	own := &net.TCPAddr{IP: net.IPv4(127, 0, 77, 15)}
	first, err := (&net.Dialer{LocalAddr: own}).DialContext(t.Context(), "tcp", h.Addr("PLAINTEXT").String())
	require.NoError(t, err)
	c := rawclient.New(first)
	local := c.Conn().LocalAddr()
	_, err = c.Send(kmsg.NewPtrFetchRequest())
	require.NoError(t, err)
	p := <-late
	require.NoError(t, c.Conn().(*net.TCPConn).SetLinger(0)) // so the port is free at once
	require.NoError(t, c.Close())
	<-ended // a dead client's waits are told

	again, err := (&net.Dialer{LocalAddr: local}).DialContext(t.Context(), "tcp", h.Addr("PLAINTEXT").String())
	require.NoError(t, err)
	c2 := rawclient.New(again)
	defer c2.Close()
	body := &countedBody{}
	p.Resolve(RespondBody(body))
	resp, err := c2.Do(metadata(1))
	require.NoError(t, err)
	require.EqualValues(t, 3, resp.Key())
	eventually(t, "the stray body is released", func() bool { return body.released.Load() == 1 })
	require.Zero(t, body.written.Load())
}

type countedBody struct {
	size              int
	write             func(w *Writer) error
	released, written atomic.Int32
}

func (b *countedBody) Size() int { return b.size }
func (b *countedBody) Release()  { b.released.Add(1) }
func (b *countedBody) WriteTo(w *Writer) error {
	b.written.Add(1)
	if b.write == nil {
		return nil
	}
	return b.write(w)
}

func TestBodyOfMemoryAndFileRanges(t *testing.T) {
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	body := &countedBody{size: 5 + len(data) - 7 + 20<<10, write: func(w *Writer) error {
		_, err := w.Write([]byte("head,"))
		if err == nil {
			err = w.SendFile(f, 7, int64(len(data)-7))
		}
		if err == nil {
			_, err = w.Write(data[:20<<10])
		}
		return err
	}}
	h := start(t, Options{}, func(context.Context, *Conn, *Request) Reply { return RespondBody(body) })
	c := h.dial()
	for range 2 { // the file's position plays no part
		_, err = c.Send(metadata(1))
		require.NoError(t, err)
		_, rest, err := c.RecvRaw()
		require.NoError(t, err)
		want := append(append([]byte("head,"), data[7:]...), data[:20<<10]...)
		require.True(t, string(want) == string(rest))
	}
	eventually(t, "released", func() bool { return body.released.Load() == 2 })
}

func TestABodyThatLiesAboutItsSizeClosesTheConnection(t *testing.T) {
	body := &countedBody{size: 10, write: func(w *Writer) error { _, err := w.Write([]byte("short")); return err }}
	h := start(t, Options{}, func(context.Context, *Conn, *Request) Reply { return RespondBody(body) })
	c := h.dial()
	_, err := c.Send(metadata(1))
	require.NoError(t, err)
	requireClosed(t, c)
	eventually(t, "released", func() bool { return body.released.Load() == 1 })
}

func TestNoReplyLeavesNoGap(t *testing.T) {
	h := start(t, Options{}, func(_ context.Context, _ *Conn, req *Request) Reply {
		if req.Key == 0 {
			return NoReply()
		}
		return Respond(req.Body.ResponseKind())
	})
	c := h.dial()
	_, err := c.Send(produce(0, nil))
	require.NoError(t, err)
	resp, err := c.Do(metadata(1))
	require.NoError(t, err)
	require.EqualValues(t, 3, resp.Key())
}

func TestShutdownAnswersWhatWasBegun(t *testing.T) {
	begun := make(chan struct{})
	h := start(t, Options{}, func(ctx context.Context, _ *Conn, req *Request) Reply {
		p := NewPending()
		context.AfterFunc(ctx, func() { p.Resolve(Respond(req.Body.ResponseKind())) })
		close(begun)
		return Later(p)
	})
	c := h.dial()
	_, err := c.Send(metadata(1))
	require.NoError(t, err)
	<-begun
	h.stop()
	_, err = c.Recv()
	require.NoError(t, err)
	requireClosed(t, c)
}

func TestL3_ShutdownIsBounded(t *testing.T) {
	begun := make(chan struct{}, 8)
	h := start(t, Options{ShutdownTimeout: 50 * time.Millisecond}, func(context.Context, *Conn, *Request) Reply {
		begun <- struct{}{}
		return Later(NewPending()) // nobody resolves it
	})
	for range 4 {
		_, err := h.dial().Send(metadata(1))
		require.NoError(t, err)
		<-begun
	}
	h.dial() // silent
	h.stop()
}

func TestConnectionLimits(t *testing.T) {
	for name, opts := range map[string]Options{"in total": {MaxConnections: 2}, "per address": {MaxConnectionsPerAddress: 2}} {
		t.Run(name, func(t *testing.T) {
			h := start(t, opts, echo)
			a, b := h.dial(), h.dial()
			for _, c := range []*rawclient.Client{a, b} {
				_, err := c.Do(metadata(1))
				require.NoError(t, err)
			}
			requireClosed(t, h.dial())
			require.NoError(t, a.Close())
			eventually(t, "the place is free again", func() bool { return h.open() == 1 })
			_, err := h.dial().Do(metadata(1))
			require.NoError(t, err)
		})
	}
}

func TestReadersThatDoNotRead(t *testing.T) {
	body := func() *countedBody {
		return &countedBody{size: 8 << 20, write: func(w *Writer) error { _, err := w.Write(make([]byte, 8<<20)); return err }}
	}
	h := start(t, Options{WriteTimeout: time.Second}, func(ctx context.Context, c *Conn, req *Request) Reply {
		if req.Key == 1 {
			return RespondBody(body())
		}
		return echo(ctx, c, req)
	})
	slow, other := h.dial(), h.dial()
	for range 8 {
		_, err := slow.Send(kmsg.NewPtrFetchRequest())
		require.NoError(t, err)
	}
	_, err := other.Do(metadata(1))
	require.NoError(t, err)
	eventually(t, "the slow reader is dropped", func() bool { return h.open() == 1 })
}

func TestSilentAndIdlePeers(t *testing.T) {
	// Each peer meets one short limit: whoever speaks has time to, however busy the machine is.
	with := func(t *testing.T, o Options) *harness {
		return start(t, o, func(ctx context.Context, c *Conn, req *Request) Reply {
			if req.Key != 1 {
				return echo(ctx, c, req)
			}
			p := NewPending()
			timer := time.AfterFunc(400*time.Millisecond, func() { p.Resolve(Respond(req.Body.ResponseKind())) })
			context.AfterFunc(ctx, func() { timer.Stop() })
			return Later(p)
		})
	}
	t.Run("never speaks", func(t *testing.T) {
		requireClosed(t, with(t, Options{FirstRequestTimeout: 40 * time.Millisecond}).dial())
	})
	t.Run("stops within a length", func(t *testing.T) {
		c := with(t, Options{FirstRequestTimeout: 40 * time.Millisecond}).dial()
		require.NoError(t, c.SendRaw([]byte{0, 0}))
		requireClosed(t, c)
	})
	t.Run("stops within a body", func(t *testing.T) {
		c := with(t, Options{ReadTimeout: 40 * time.Millisecond}).dial()
		frame := c.Frame(metadata(1))
		require.NoError(t, c.SendRaw(frame[:len(frame)-1]))
		requireClosed(t, c)
	})
	t.Run("spoke once", func(t *testing.T) {
		c := with(t, Options{IdleTimeout: 150 * time.Millisecond}).dial()
		_, err := c.Do(metadata(1))
		require.NoError(t, err)
		requireClosed(t, c)
	})
	t.Run("waits for an answer longer than it may be idle", func(t *testing.T) {
		c := with(t, Options{IdleTimeout: 150 * time.Millisecond}).dial()
		_, err := c.Do(kmsg.NewPtrFetchRequest())
		require.NoError(t, err)
	})
}

func TestAPanicClosesOneConnection(t *testing.T) {
	h := start(t, Options{}, func(ctx context.Context, c *Conn, req *Request) Reply {
		switch req.Key {
		case 1:
			panic("in a handler")
		case 2:
			return RespondBody(&countedBody{write: func(*Writer) error { panic("in a body") }})
		}
		return echo(ctx, c, req)
	})
	good := h.dial()
	for _, r := range []kmsg.Request{kmsg.NewPtrFetchRequest(), kmsg.NewPtrListOffsetsRequest()} {
		c := h.dial()
		_, err := c.Send(r)
		require.NoError(t, err)
		requireClosed(t, c)
	}
	_, err := good.Do(metadata(1))
	require.NoError(t, err)
}

func TestSeveralListenersHaveNames(t *testing.T) {
	h := start(t, Options{Listeners: []ListenerOptions{{Name: "INTERNAL", Address: "127.0.0.1:0"}}}, func(_ context.Context, c *Conn, req *Request) Reply {
		resp := req.Body.ResponseKind().(*kmsg.MetadataResponse)
		resp.Brokers = []kmsg.MetadataResponseBroker{{Host: c.Listener()}}
		return Respond(resp)
	})
	for _, name := range []string{"INTERNAL", "PLAINTEXT"} {
		c, err := rawclient.Dial(t.Context(), h.Addr(name).String())
		require.NoError(t, err)
		resp, err := c.Do(metadata(1))
		require.NoError(t, err)
		require.Equal(t, name, resp.(*kmsg.MetadataResponse).Brokers[0].Host)
		require.NoError(t, c.Close())
	}
	require.Nil(t, h.Addr("NOBODY"))
}

func TestRandomBytesDisturbNobody(t *testing.T) {
	h := start(t, Options{MaxRequestBytes: 1 << 20}, echo)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		c := h.dial()
		junk := make([]byte, rnd.IntN(2000))
		for i := range junk {
			junk[i] = byte(rnd.Uint32())
		}
		if rnd.IntN(2) == 0 && len(junk) > 12 { // a good length and key, then nonsense
			copy(junk, []byte{0, 0, byte(len(junk) >> 8), byte(len(junk)), 0, byte(rnd.IntN(20)), 0, byte(rnd.IntN(12))})
		}
		_ = c.SendRaw(junk)
		_ = c.Conn().(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c.Conn())
		_ = c.Close()
	}
	_, err := h.dial().Do(metadata(1))
	require.NoError(t, err)
}
