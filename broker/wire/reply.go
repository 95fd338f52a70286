package wire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Handler answers requests. One Handler serves all connections of a Server.
type Handler interface {
	// Supports reports whether Handle takes this key and version. It must be
	// cheap and constant.
	Supports(key, version int16) bool
	// AnswerSize is about how many bytes of memory the answer to a request that
	// Supports takes may take at most, its values and its bytes together; 0
	// where that is bounded by others or not worth counting. It is cheap and
	// asked before Handle, of everything but Produce and Fetch.
	AnswerSize(req *Request) int
	// Handle begins one request. It runs on the connection's goroutine, in
	// request order: what the request does (append, commit, group call) is
	// done or queued in order when Handle returns. A request that must wait
	// returns Later and resolves it from anywhere. ctx ends when the peer is
	// gone or the server shuts down; waits end with it. The request's buffer
	// is given back on return (see Request.Retain).
	Handle(ctx context.Context, c *Conn, req *Request) Reply
	// Refuse answers a request that Supports denies, with
	// UNSUPPORTED_VERSION in the place where its client looks for it. Body is
	// nil if kmsg cannot read it. ApiVersions (key 18) of any version is
	// answered with a version 0 response that lists the APIs (KIP-511). When
	// it has no better answer it returns Unsupported.
	Refuse(c *Conn, req *Request) Reply
}

// Body is an answer that writes itself, for Fetch: headers from memory and
// ranges of files by sendfile.
type Body interface {
	// Size is the number of bytes that WriteTo writes, exactly.
	Size() int
	// WriteTo writes the response without length and header.
	WriteTo(w *Writer) error
	// Release is called once, after WriteTo or instead of it.
	Release()
}

type replyKind uint8

const (
	replyNone replyKind = iota
	replyResponse
	replyBody
	replyLater
	replyClose
)

// Reply is what a handler wants sent. Its zero value is NoReply.
type Reply struct {
	kind    replyKind
	resp    kmsg.Response
	body    Body
	pending *Pending
	reason  string
	// err is set when the connection loop itself found the fault.
	err error
}

// Respond sends resp, whose version must be set (ResponseKind does).
func Respond(resp kmsg.Response) Reply { return Reply{kind: replyResponse, resp: resp} }

// RespondBody sends a body that writes itself.
func RespondBody(b Body) Reply { return Reply{kind: replyBody, body: b} }

// Later sends what p is resolved with.
func Later(p *Pending) Reply { return Reply{kind: replyLater, pending: p} }

// NoReply sends nothing: a produce with acks=0.
func NoReply() Reply { return Reply{} }

// CloseConn sends the answers of earlier requests and closes the connection.
// reason goes into the log line.
func CloseConn(reason string) Reply { return Reply{kind: replyClose, reason: reason} }

// Unsupported answers a refused request without knowing it: a response of its
// kind with UNSUPPORTED_VERSION for itself and for whatever the request names, or
// for a key that nobody knows the bare code. A request that cannot be read, or a
// response without any place for a code, costs the connection.
func Unsupported(req *Request) Reply {
	if req.Body == nil {
		if known := kmsg.RequestForKey(req.Key); known != nil {
			return CloseConn("unsupported version")
		}
		return RespondBody(bareCode(codeUnsupportedVersion))
	}
	resp, ok := refused(req.Body, codeUnsupportedVersion)
	if !ok {
		return CloseConn("unsupported version")
	}
	return Respond(resp)
}

// Pending is an answer that is not there yet. It is resolved once; a second
// Resolve releases its body and is otherwise ignored.
type Pending struct {
	ch chan Reply
}

// NewPending returns an unresolved answer.
func NewPending() *Pending { return &Pending{ch: make(chan Reply, 1)} }

// Resolve hands the answer in. It never blocks and may be called from any
// goroutine, also after the connection is gone. r must not be Later.
func (p *Pending) Resolve(r Reply) {
	if r.kind == replyLater {
		panic("wire: a pending answer resolved by another")
	}
	select {
	case p.ch <- r:
	default:
		r.release()
	}
}

// abandon takes the place of the answer, so that one that comes later is
// released at once, and releases one that came before.
func (p *Pending) abandon() {
	for {
		select {
		case p.ch <- Reply{}:
			return
		case r := <-p.ch:
			r.release()
		}
	}
}

func (r Reply) release() {
	switch r.kind {
	case replyBody:
		r.body.Release()
	case replyLater:
		r.pending.abandon()
	}
}
