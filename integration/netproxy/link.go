package netproxy

import (
	"net"
	"time"
)

const piece = 32 << 10

// name is whose the link is, once its first bytes have come.
func (l *link) name() (who string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who, l.server != nil
}

// refuse ends the link as a closed port or a firewall that rejects would: with a reset. Clients take an orderly end before
// the first answer for a server that speaks another protocol.
func (l *link) refuse() {
	if c, ok := l.client.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	l.end()
}

// end closes both halves.
func (l *link) end() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}

func (l *link) serve() {
	defer func() {
		l.end()
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		delete(l.p.links, l)
	}()
	first := make([]byte, piece)
	n, err := l.client.Read(first)
	if err != nil {
		return
	}
	who := ""
	if l.p.o.Name != nil {
		who = l.p.o.Name(first[:n])
	}
	if !l.passes(who) {
		return
	}
	server, err := net.DialTimeout("tcp", l.p.o.Upstream, 5*time.Second)
	if err != nil {
		l.refuse()
		return
	}
	l.mu.Lock()
	l.who, l.server = who, server
	l.mu.Unlock()
	select {
	case <-l.ended: // closed before it had a server
		_ = server.Close()
		return
	default:
	}
	if !l.passes(who) { // a rule that came meanwhile did not see the link
		return
	}
	if _, err := server.Write(first[:n]); err != nil {
		return
	}
	l.p.done.Go(func() {
		defer l.end()
		if l.pump(l.client, server, who) == 0 { // killed with the first request in its hands
			l.refuse()
		}
	})
	l.pump(server, l.client, who)
}

// pump copies until a side ends, and tells the other side when the way is free. It returns how much it has copied.
func (l *link) pump(dst, src net.Conn, who string) (copied int64) {
	buf := make([]byte, piece)
	for {
		n, err := src.Read(buf)
		if !l.passes(who) {
			return copied
		}
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return copied
			}
			copied += int64(n)
		}
		if err != nil {
			return copied
		}
	}
}

// passes waits while the rule holds bytes, and for its delay; false if the link is to end.
func (l *link) passes(who string) bool {
	for {
		r, changed := l.p.rule(who)
		switch {
		case r.Cut:
			l.refuse()
			return false
		case !r.Hold && r.Delay == 0:
			return true
		case !r.Hold:
			select {
			case <-l.ended:
				return false
			case <-time.After(r.Delay):
				return true
			}
		}
		select {
		case <-l.ended:
			return false
		case <-changed:
		}
	}
}
