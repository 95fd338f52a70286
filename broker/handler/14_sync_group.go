package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// SyncGroup (key 14), versions 0–5: the leader hands in the assignments, everybody waits for its own.
// From v5 on the protocol is compared with the group's (KIP-559).
func beginSyncGroup(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.SyncGroupRequest)
	sync := group.SyncRequest{
		Group: r.Group, MemberID: r.MemberID, InstanceID: orEmpty(r.InstanceID), Generation: r.Generation,
		ProtocolType: orEmpty(r.ProtocolType), Protocol: orEmpty(r.Protocol),
	}
	for _, a := range r.GroupAssignment {
		sync.Assignments = append(sync.Assignments, group.Assignment{MemberID: a.MemberID, Bytes: a.MemberAssignment})
	}
	answer := wire.NewPending()
	h.Groups.Sync(sync, func(s group.SyncResponse) {
		resp := r.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode = int16(s.Code)
		resp.ProtocolType, resp.Protocol = orNull(s.ProtocolType), orNull(s.Protocol)
		resp.MemberAssignment = s.Assignment
		answer.Resolve(wire.Respond(resp))
	})
	return wire.Later(answer)
}
