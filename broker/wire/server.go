package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connectionIDs numbers the connections of the process.
var connectionIDs atomic.Int64

// Server listens on its addresses and serves their connections.
type Server struct {
	opts      Options
	listeners []*listener

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	perAddr map[netip.Addr]int
}

type listener struct {
	opts           ListenerOptions
	ln             net.Listener
	produce, other *Budget
	answers        answerBudget
	decode         *Budget // for what becomes of a frame's bytes; taken while other's are held, so not the same
}

// Listen binds all listeners of opts. Clients that connect before Run wait in
// the system's accept queue.
func Listen(ctx context.Context, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	s := &Server{opts: opts, conns: map[*Conn]struct{}{}, perAddr: map[netip.Addr]int{}}
	produce, other, decode := NewBudget(opts.ProduceBytes), NewBudget(opts.OtherBytes), NewBudget(opts.OtherBytes)
	answers := newAnswerBudget(opts.AnswerBytes)
	for _, lo := range opts.Listeners {
		l := &listener{opts: lo, produce: produce, other: other, decode: decode, answers: answers}
		if lo.ProduceBudget != nil {
			l.produce = lo.ProduceBudget
		}
		if lo.OtherBudget != nil {
			l.other = lo.OtherBudget
			l.answers = newAnswerBudget(opts.AnswerBytes)
		}
		l.produce.sparing(opts.MaxRequestBytes)
		l.other.sparing(opts.MaxOtherRequestBytes)
		var err error
		if l.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", lo.Address); err != nil {
			return nil, errors.Join(fmt.Errorf("listener %s: %w", lo.Name, err), s.Close())
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Addr is the address that the named listener is bound to, nil if there is
// none of that name.
func (s *Server) Addr(name string) net.Addr {
	for _, l := range s.listeners {
		if l.opts.Name == name {
			return l.ln.Addr()
		}
	}
	return nil
}

// Close stops listening. It is for a Server that is not run, or whose
// connections shall go on; ending Run's context closes everything.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		if err := l.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends. Then it stops accepting and reading, lets the
// requests that were begun be answered for at most ShutdownTimeout (their
// context has ended, so waits fail at once), closes every connection and
// returns nil when the last goroutine is gone. It may be called once.
func (s *Server) Run(ctx context.Context, h Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var accepting, serving sync.WaitGroup
	for _, l := range s.listeners {
		accepting.Go(func() {
			if err := s.accept(ctx, l, h, &serving); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	<-ctx.Done()
	closeErr := s.Close()
	accepting.Wait()
	force := time.AfterFunc(s.opts.ShutdownTimeout, s.killAll)
	serving.Wait()
	force.Stop()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return errors.Join(cause, closeErr)
	}
	return closeErr
}

func (s *Server) killAll() {
	s.mu.Lock()
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.kill()
	}
}

func (s *Server) accept(ctx context.Context, l *listener, h Handler, serving *sync.WaitGroup) error {
	backoff := 5 * time.Millisecond
	for {
		nc, err := l.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Out of descriptors or a peer that hung up early: others must
			// still get in, so this is never fatal.
			s.opts.Log.Warn("accept failed", "listener", l.opts.Name, "err", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, time.Second)
			continue
		}
		backoff = 5 * time.Millisecond
		if tcp, ok := nc.(*net.TCPConn); ok && s.opts.SendBuffer > 0 {
			_ = tcp.SetWriteBuffer(s.opts.SendBuffer) // a peer that has hung up shows at the first read
		}
		c, reason := s.admit(l, nc)
		if c == nil {
			s.opts.Metrics.closed[reason].Inc()
			_ = nc.Close()
			continue
		}
		serving.Go(func() {
			defer s.leave(c)
			c.serve(ctx, h)
		})
	}
}

// admit counts a new connection, or says why it may not stay.
func (s *Server) admit(l *listener, nc net.Conn) (c *Conn, reason string) {
	var remote netip.AddrPort
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		remote = tcp.AddrPort()
		remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.opts.MaxConnections {
		return nil, reasonTooMany
	}
	if s.perAddr[remote.Addr()] >= s.opts.MaxConnectionsPerAddress {
		return nil, reasonPerAddress
	}
	s.perAddr[remote.Addr()]++
	c = &Conn{
		id: connectionIDs.Add(1), listener: l, nc: nc, remote: remote, opts: &s.opts, log: s.opts.Log,
		slots: make(chan slot, s.opts.MaxInFlight), dead: make(chan struct{}), began: time.Now(),
	}
	s.conns[c] = struct{}{}
	s.opts.Metrics.connections.Inc()
	s.opts.Metrics.accepted.Inc()
	return c, ""
}

func (s *Server) leave(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perAddr[c.remote.Addr()]--; s.perAddr[c.remote.Addr()] == 0 {
		delete(s.perAddr, c.remote.Addr())
	}
	s.opts.Metrics.connections.Dec()
}
