package pgproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// link is one client's connection and its way to the server.
type link struct {
	p              *Proxy
	client, server net.Conn
	texts          map[string]string // prepared statements by name; the client's pump only
	readOnly       bool              // the open transaction; the client's pump only
	lose           atomic.Bool       // nothing more goes to the client; the link ends with the next 'Z'
	stranded       chan struct{}     // closed: no more bytes pass
	strandOnce     sync.Once
	ended          chan struct{} // closed by cut
	endOnce        sync.Once
}

func (l *link) strand() { l.strandOnce.Do(func() { close(l.stranded) }) }

// pass waits while no bytes may pass; false if none ever will.
func (l *link) pass() bool {
	l.p.pass()
	select {
	case <-l.stranded:
		<-l.ended
		return false
	default:
		return true
	}
}

func (l *link) losing() bool { return l.lose.Load() }

// cut closes both sides, towards the client with a reset.
func (l *link) cut() {
	if tcp, ok := l.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = l.client.Close()
	_ = l.server.Close()
	l.endOnce.Do(func() { close(l.ended) })
}

// Codes of the requests that come instead of a protocol version:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const (
	sslRequest = 80877103
	gssRequest = 80877104
	maxMessage = 1 << 30
)

var errMessage = errors.New("not a message of the Postgres protocol")

// greet passes the client's first packet on; encryption is declined.
func (l *link) greet() error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(l.client, head[:]); err != nil {
			return err
		}
		size, code := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > 1<<16 {
			return errMessage
		}
		if code == sslRequest || code == gssRequest {
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		packet := append(head[:], make([]byte, size-8)...)
		if _, err := io.ReadFull(l.client, packet[8:]); err != nil {
			return err
		}
		if !l.pass() {
			return net.ErrClosed
		}
		_, err := l.server.Write(packet)
		return err
	}
}

// read reads one message whole: type, length, body.
func read(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > maxMessage {
		return nil, errMessage
	}
	m := append(head[:], make([]byte, size-4)...)
	_, err := io.ReadFull(r, m[5:])
	return m, err
}

func (l *link) clientToServer() {
	for {
		m, err := read(l.client)
		if err != nil {
			return
		}
		if !l.pass() {
			return
		}
		if l.isCommit(m) {
			switch l.p.commit() {
			case losesRequest:
				return
			case losesReply:
				l.lose.Store(true)
			}
		}
		if _, err := l.server.Write(m); err != nil {
			return
		}
	}
}

func (l *link) serverToClient() {
	defer l.cut()
	for {
		m, err := read(l.server)
		if err != nil {
			return
		}
		if !l.pass() {
			return
		}
		if l.losing() {
			if m[0] == 'Z' {
				return
			}
			continue
		}
		if _, err := l.client.Write(m); err != nil {
			return
		}
	}
}

// isCommit follows what the client prepares and runs, and says whether the message runs a COMMIT of a
// transaction that may have written.
func (l *link) isCommit(m []byte) bool {
	var text string
	switch body := m[5:]; m[0] {
	case 'P':
		name, rest := cstring(body)
		l.texts[name], _ = cstring(rest)
		return false
	case 'B':
		_, rest := cstring(body)
		name, _ := cstring(rest)
		text = l.texts[name]
	case 'Q':
		text, _ = cstring(body)
	default:
		return false
	}
	text = strings.ToUpper(strings.TrimSpace(text))
	if strings.HasPrefix(text, "BEGIN") {
		l.readOnly = strings.Contains(text, "READ ONLY")
	}
	return strings.HasPrefix(text, "COMMIT") && !l.readOnly
}

func cstring(b []byte) (text string, rest []byte) {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i]), b[i+1:]
	}
	return string(b), nil
}
