package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// DescribeGroups (key 15), versions 0–6. A group that nobody knows is "Dead" without an error up to v5
// and GROUP_ID_NOT_FOUND in v6 (KIP-1043).
func beginDescribeGroups(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DescribeGroupsRequest)
	resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
	groups := once(r.Groups, func(g string) string { return g })
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(groups))
	all := newGather(len(groups), resp)
	for i, name := range groups {
		h.Groups.Describe(name, func(d group.Description) {
			resp.Groups[i] = describedGroup(r, d)
			all.done()
		})
	}
	return all.reply()
}

func describedGroup(r *kmsg.DescribeGroupsRequest, d group.Description) kmsg.DescribeGroupsResponseGroup {
	e := kmsg.NewDescribeGroupsResponseGroup()
	e.Group, e.State, e.ProtocolType, e.Protocol = d.Group, d.State.String(), d.ProtocolType, d.Protocol
	e.AuthorizedOperations = operations(r.IncludeAuthorizedOperations, groupOperations)
	if d.Code != group.OK && (r.Version >= 6 || d.Code != group.GroupIDNotFound) {
		text := "Group " + d.Group + ": " + d.Code.String() + "."
		e.ErrorCode, e.ErrorMessage = int16(d.Code), &text
	}
	for _, m := range d.Members {
		em := kmsg.NewDescribeGroupsResponseGroupMember()
		em.MemberID, em.InstanceID, em.ClientID, em.ClientHost = m.MemberID, orNull(m.InstanceID), m.ClientID, m.ClientHost
		em.ProtocolMetadata, em.MemberAssignment = m.Metadata, m.Assignment
		e.Members = append(e.Members, em)
	}
	return e
}
