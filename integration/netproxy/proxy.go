package netproxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Rule is what happens to the bytes between one client and the server, in both directions. The zero rule lets them pass.
type Rule struct {
	// Hold keeps everything, new connections too, until the rule changes; nobody is told, as if packets were dropped.
	Hold bool
	// Cut resets connections, old and new.
	Cut bool
	// Delay is added to each piece of at most 32 KiB: a slow link, of 32 KiB a delay at most.
	Delay time.Duration
}

// Everyone stands for all clients without a rule of their own.
const Everyone = ""

// Options of a proxy.
type Options struct {
	// Upstream is the server's host:port.
	Upstream string
	// Name says from the first bytes of a connection whose it is; "" if they do not tell. Nil: nobody has a name. Clients
	// must speak first.
	Name func(first []byte) string
}

// Proxy listens on a port of 127.0.0.1 of its own.
type Proxy struct {
	o        Options
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	rules   map[string]Rule
	changed chan struct{} // closed by the next change of rules
	links   map[*link]bool
	closed  bool
}

// link is one connection of a client and the server's half of it.
type link struct {
	p      *Proxy
	client net.Conn
	ended  chan struct{}
	once   sync.Once

	mu     sync.Mutex
	who    string
	server net.Conn
}

// Start makes a proxy; it ends with the test.
func Start(t testing.TB, o Options) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{o: o, listener: l, rules: map[string]Rule{}, changed: make(chan struct{}), links: map[*link]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the rule of one client, or of Everyone.
func (p *Proxy) Set(who string, r Rule) {
	p.mu.Lock()
	p.rules[who] = r
	p.wakeLocked()
	var cut []*link
	for l := range p.links {
		if name, known := l.name(); known && p.ruleLocked(name).Cut {
			cut = append(cut, l)
		}
	}
	p.mu.Unlock()
	for _, l := range cut {
		l.refuse()
	}
}

// Heal forgets all rules.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rules)
	p.wakeLocked()
}

// Close ends everything; a second time it does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.wakeLocked()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	for _, l := range links {
		l.end()
	}
	p.done.Wait()
}

func (p *Proxy) wakeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) ruleLocked(who string) Rule {
	if r, own := p.rules[who]; own {
		return r
	}
	return p.rules[Everyone]
}

func (p *Proxy) rule(who string) (Rule, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ruleLocked(who), p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &link{p: p, client: client, ended: make(chan struct{})}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = client.Close()
			return
		}
		p.links[l] = true
		p.mu.Unlock()
		p.done.Go(l.serve)
	}
}
