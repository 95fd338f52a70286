package handler

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// JoinGroup (key 11), versions 0–9: static members from v5 (KIP-345), member ids first from v4 (KIP-394),
// protocol type in the answer from v7 (KIP-559), skipped assignment in v9 (KIP-814). The group takes the
// member when the request comes; the answer comes when the rebalance ends.
func beginJoinGroup(h *Handlers, _ context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.JoinGroupRequest)
	join := group.JoinRequest{
		Group: r.Group, MemberID: r.MemberID, InstanceID: orEmpty(r.InstanceID),
		ClientID: req.ClientID, ClientHost: "/" + c.RemoteAddr().Addr().String(),
		SessionTimeout:    time.Duration(r.SessionTimeoutMillis) * time.Millisecond,
		ProtocolType:      r.ProtocolType,
		RequireMemberID:   r.Version >= 4,
		CanSkipAssignment: r.Version >= 9,
	}
	if r.Version >= 1 {
		join.RebalanceTimeout = time.Duration(r.RebalanceTimeoutMillis) * time.Millisecond
	}
	for _, p := range r.Protocols {
		join.Protocols = append(join.Protocols, group.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	answer := wire.NewPending()
	h.Groups.Join(join, func(j group.JoinResponse) { answer.Resolve(wire.Respond(joinResponse(r, j))) })
	return wire.Later(answer)
}

func joinResponse(r *kmsg.JoinGroupRequest, j group.JoinResponse) *kmsg.JoinGroupResponse {
	resp := r.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation = int16(j.Code), j.Generation
	resp.LeaderID, resp.MemberID, resp.SkipAssignment = j.LeaderID, j.MemberID, j.SkipAssignment
	resp.ProtocolType, resp.Protocol = orNull(j.ProtocolType), orNull(j.Protocol)
	if r.Version < 7 {
		resp.Protocol = &j.Protocol // not nullable yet
	}
	for _, m := range j.Members {
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.InstanceID, jm.ProtocolMetadata = m.MemberID, orNull(m.InstanceID), m.Metadata
		resp.Members = append(resp.Members, jm)
	}
	return resp
}

// orEmpty and orNull translate the protocol's null strings to and from ours, where "" is none.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
