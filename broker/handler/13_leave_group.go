package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// LeaveGroup (key 13), versions 0–5: one member up to v2, whose code is the answer's; from v3 on several,
// static ones by their instance id too, each with a code of its own (KIP-345).
func beginLeaveGroup(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.LeaveGroupRequest)
	resp := r.ResponseKind().(*kmsg.LeaveGroupResponse)
	var who []group.LeaveMember
	if r.Version < 3 {
		who = append(who, group.LeaveMember{MemberID: r.MemberID})
	}
	for _, m := range r.Members {
		who = append(who, group.LeaveMember{MemberID: m.MemberID, InstanceID: orEmpty(m.InstanceID)})
	}
	code, results := h.Groups.Leave(r.Group, who)
	resp.ErrorCode = int16(code)
	if r.Version < 3 {
		if code == group.OK && len(results) == 1 {
			resp.ErrorCode = int16(results[0].Code)
		}
		return wire.Respond(resp)
	}
	for _, res := range results {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = res.MemberID, orNull(res.InstanceID), int16(res.Code)
		resp.Members = append(resp.Members, m)
	}
	return wire.Respond(resp)
}
