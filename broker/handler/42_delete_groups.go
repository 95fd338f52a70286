package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// DeleteGroups (key 42), versions 0–3: groups without members, with all their offsets. One with members
// is NON_EMPTY_GROUP, one that nobody knows GROUP_ID_NOT_FOUND.
func beginDeleteGroups(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DeleteGroupsRequest)
	resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(r.Groups))
	all := newGather(len(r.Groups), resp)
	for i, name := range r.Groups {
		h.Groups.DeleteGroup(name, func(code group.Code) {
			e := kmsg.NewDeleteGroupsResponseGroup()
			e.Group, e.ErrorCode = name, int16(code)
			if code != group.OK {
				text := "Group " + name + ": " + code.String() + "."
				e.ErrorMessage = &text
			}
			resp.Groups[i] = e
			all.done()
		})
	}
	return all.reply()
}
