package pgproxy

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy listens on a port of 127.0.0.1 of its own.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	upstream string
	links    map[*link]bool
	frozen   chan struct{} // closed when bytes may pass; nil if they do
	before   int           // COMMITs to lose before they reach the server
	after    int           // COMMITs whose reply is to be lost
	commits  int
	closed   bool
}

// Start makes a proxy to a server's host:port; it ends with the test.
func Start(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, upstream: upstream, links: map[*link]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Through is a postgres:// URL with the proxy in the place of its host.
func (p *Proxy) Through(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Addr()
	q := u.Query()
	q.Del("host")
	q.Del("port")
	u.RawQuery = q.Encode()
	return u.String()
}

// LoseRequests cuts the connections of the next n COMMITs before the server has them.
func (p *Proxy) LoseRequests(n int) { p.set(func() { p.before = n }) }

// LoseReplies cuts the connections of the next n COMMITs after the server has carried them out.
func (p *Proxy) LoseReplies(n int) { p.set(func() { p.after = n }) }

// Retarget leads new connections to another server.
func (p *Proxy) Retarget(upstream string) { p.set(func() { p.upstream = upstream }) }

// Commits is how many COMMITs of writing transactions were seen.
func (p *Proxy) Commits() (n int) {
	p.set(func() { n = p.commits })
	return n
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Freeze stops passing bytes, in both directions and for new connections too, without closing anything.
func (p *Proxy) Freeze() {
	p.set(func() {
		if p.frozen == nil {
			p.frozen = make(chan struct{})
		}
	})
}

// Thaw passes on what Freeze has held.
func (p *Proxy) Thaw() {
	p.set(func() {
		if p.frozen != nil {
			close(p.frozen)
			p.frozen = nil
		}
	})
}

// Strand stops passing bytes on the present connections for good, without closing them; new ones
// pass. So does an address whose server is another machine from one moment to the next.
func (p *Proxy) Strand() {
	p.set(func() {
		for l := range p.links {
			l.strand()
		}
	})
}

// Reset cuts all connections with a TCP reset.
func (p *Proxy) Reset() {
	var links []*link
	p.set(func() {
		for l := range p.links {
			links = append(links, l)
		}
	})
	for _, l := range links {
		l.cut()
	}
}

// Close ends everything; a second time it does nothing.
func (p *Proxy) Close() {
	p.set(func() { p.closed = true })
	_ = p.listener.Close()
	p.Reset()
	p.Thaw()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.pass()
	var upstream string
	p.set(func() { upstream = p.upstream })
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	l := &link{p: p, client: client, server: server, texts: map[string]string{}, stranded: make(chan struct{}), ended: make(chan struct{})}
	closed := false
	p.set(func() {
		p.links[l] = true
		closed = p.closed
	})
	defer p.set(func() { delete(p.links, l) })
	if closed {
		return
	}
	var back sync.WaitGroup
	if l.greet() == nil {
		back.Go(l.serverToClient)
		l.clientToServer()
	}
	if !l.losing() {
		l.cut()
	}
	back.Wait()
}

// pass waits while the proxy is frozen.
func (p *Proxy) pass() {
	p.mu.Lock()
	gate := p.frozen
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// fate is what becomes of a COMMIT.
type fate int

const (
	passes fate = iota
	losesRequest
	losesReply
)

func (p *Proxy) commit() (f fate) {
	p.set(func() {
		p.commits++
		switch {
		case p.before > 0:
			p.before--
			f = losesRequest
		case p.after > 0:
			p.after--
			f = losesReply
		}
	})
	return f
}
