package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// Heartbeat (key 12), versions 0–4. It is answered from memory, so members stay while the catalog is
// away.
func beginHeartbeat(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.HeartbeatRequest)
	resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = int16(h.Groups.Heartbeat(group.Identity{
		Group: r.Group, MemberID: r.MemberID, InstanceID: orEmpty(r.InstanceID), Generation: r.Generation,
	}))
	return wire.Respond(resp)
}
