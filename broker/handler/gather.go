package handler

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
)

// gather answers one request when all the calls that it was split into have been answered; each of them
// fills its own part of the response first.
type gather struct {
	left   atomic.Int64
	answer *wire.Pending
	resp   kmsg.Response
}

// newGather waits for n calls, which may be answered from any goroutine, also before reply is called.
func newGather(n int, resp kmsg.Response) *gather {
	g := &gather{answer: wire.NewPending(), resp: resp}
	// One more than the calls, so that it cannot be answered before all of them have begun.
	g.left.Store(int64(n) + 1)
	return g
}

// done counts one answered call.
func (g *gather) done() {
	if g.left.Add(-1) == 0 {
		g.answer.Resolve(wire.Respond(g.resp))
	}
}

// reply is called once, when all calls have begun.
func (g *gather) reply() wire.Reply {
	g.done()
	return wire.Later(g.answer)
}
