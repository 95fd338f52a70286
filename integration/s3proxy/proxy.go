package s3proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Seen is a request that came by.
type Seen struct {
	Verb, Path, Query string
	Header            http.Header
	Length            int64
	Acted             bool // a rule did something to it
}

// Proxy forwards to one server. Safe for concurrent use.
type Proxy struct {
	upstream  string
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	ctx       context.Context // ends with Close; hanging requests wait for it
	cancel    context.CancelFunc
	served    chan struct{}

	mu    sync.Mutex
	rules []*armed
	seen  []Seen
	conns int
}

// Start runs a proxy to the server at upstream (host:port) until the test ends.
func Start(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := New(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// New runs a proxy on a free port of 127.0.0.1 until Close.
func New(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{upstream: upstream, listener: l, served: make(chan struct{}),
		transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = &http.Server{
		Handler:  http.HandlerFunc(p.serve),
		ErrorLog: log.New(io.Discard, "", 0), // broken connections are what it is for
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				p.mu.Lock()
				p.conns++
				p.mu.Unlock()
			}
		},
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l)
	}()
	return p, nil
}

// Close ends all connections and waits for the listener's end.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.server.Close()
	<-p.served
	p.transport.CloseIdleConnections()
}

// Addr is host:port; URL is the same as an endpoint.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is the endpoint for clients.
func (p *Proxy) URL() string { return "http://" + p.Addr() }

// Add puts a rule behind the others.
func (p *Proxy) Add(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &armed{Rule: r, filled: time.Now(), tokens: r.Rate})
}

// Clear removes all rules; requests that hang or wait go on doing so.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Requests gives those that came by and match, oldest first.
func (p *Proxy) Requests(m Match) []Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Seen
	for _, s := range p.seen {
		r, err := http.NewRequest(s.Verb, "http://x/", nil)
		if err != nil {
			continue
		}
		r.URL.Path, r.URL.RawQuery = s.Path, s.Query
		if m.fits(r) {
			out = append(out, s)
		}
	}
	return out
}

// Count is how many requests that match came by.
func (p *Proxy) Count(m Match) int { return len(p.Requests(m)) }

// Conns is how many connections clients opened.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// Forget empties the list of requests that came by.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.conns = nil, 0
}

// rule picks the rule that acts on r, or nil.
func (p *Proxy) rule(r *http.Request) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.rules, func(a *armed) bool { return a.takes(r, time.Now()) })
	p.seen = append(p.seen, Seen{Verb: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(),
		Length: r.ContentLength, Acted: i >= 0})
	if i < 0 {
		return nil
	}
	return &p.rules[i].Rule
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	rule := p.rule(r)
	if rule == nil {
		rule = &Rule{}
	}
	if rule.Delay > 0 && !p.sleep(r, rule.Delay) {
		return
	}
	if p.answered(w, r, rule) {
		return
	}
	if rule.Before != nil {
		rule.Before()
	}
	resp, err := p.forward(r)
	if err != nil {
		reset(w)
		return
	}
	defer resp.Body.Close()
	if rule.LoseReply {
		_, _ = io.Copy(io.Discard, resp.Body)
		reset(w)
		return
	}
	if rule.Edit != nil {
		rule.Edit(resp)
	}
	reply(w, resp, rule)
}

// answered does what needs no store; false if the request is to be forwarded.
func (p *Proxy) answered(w http.ResponseWriter, r *http.Request, rule *Rule) bool {
	status, code := rule.Status, rule.Code
	if rule.Rate > 0 {
		status, code = http.StatusServiceUnavailable, "SlowDown"
	}
	if rule.Refuse != nil {
		status, code = rule.Refuse(r)
	}
	if status == 0 && !rule.Drop && !rule.Hang {
		return false
	}
	if rule.ReadBody < 0 {
		_, _ = io.Copy(io.Discard, r.Body)
	} else {
		_, _ = io.CopyN(io.Discard, r.Body, rule.ReadBody)
	}
	switch {
	case status > 0:
		for name, values := range rule.Header {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>by s3proxy</Message></Error>`, code)
		}
	case rule.Drop:
		reset(w)
	case rule.Hang:
		p.sleep(r, time.Hour)
		reset(w)
	}
	return true
}

func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = "http", p.upstream
	out.Host = r.Host // it is signed
	out.RequestURI = ""
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	return p.transport.RoundTrip(out)
}

func reply(w http.ResponseWriter, resp *http.Response, rule *Rule) {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	for name, values := range rule.Header {
		w.Header()[name] = values
	}
	if rule.CutChunked > 0 {
		w.Header().Del("Content-Length")
	} else if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	switch {
	case rule.CutBody > 0:
		_, _ = io.CopyN(w, resp.Body, rule.CutBody)
		_ = http.NewResponseController(w).Flush()
		reset(w)
	case rule.CutChunked > 0:
		_, _ = io.CopyN(w, resp.Body, rule.CutChunked)
		_ = http.NewResponseController(w).Flush() // a flushed answer without a length is chunked
	default:
		if _, err := io.Copy(w, resp.Body); err != nil {
			reset(w)
		}
	}
}

// reset ends the client's connection with an RST, or with a plain end where the answer has begun: what was sent must
// arrive.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server ends the connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok && w.Header().Get("Content-Length") == "" {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// sleep waits for d; false if the client or the proxy went away before.
func (p *Proxy) sleep(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-p.ctx.Done():
	}
	return false
}
