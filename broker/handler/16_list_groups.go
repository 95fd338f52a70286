package handler

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/group"
	"tidemark/broker/wire"
)

// ListGroups (key 16), versions 0–5: the groups that this broker coordinates, filtered by state from v4
// on (KIP-518) and by type in v5 (KIP-848). All groups are of the type "classic".
func beginListGroups(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	const classic = "classic"
	r := req.Body.(*kmsg.ListGroupsRequest)
	resp := r.ResponseKind().(*kmsg.ListGroupsResponse)
	all := newGather(1, resp)
	h.Groups.List(func(ls []group.Listing, code group.Code) {
		resp.ErrorCode = int16(code)
		for _, l := range ls {
			if !passes(r.StatesFilter, l.State.String()) || !passes(r.TypesFilter, classic) {
				continue
			}
			e := kmsg.NewListGroupsResponseGroup()
			e.Group, e.ProtocolType, e.GroupState, e.GroupType = l.Group, l.ProtocolType, l.State.String(), classic
			resp.Groups = append(resp.Groups, e)
		}
		all.done()
	})
	return all.reply()
}

// passes reports whether a filter lets a value through; an empty filter lets everything through.
func passes(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
