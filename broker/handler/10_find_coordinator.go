package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
)

// FindCoordinator (key 10), versions 0–6, several keys from v4 on (KIP-699). The coordinator of a group
// is the broker that holds its slot. A coordinator of transactions (type 1) or share groups (type 2) is
// INVALID_REQUEST, which clients take as final: there are none yet, and waiting would not help.
func beginFindCoordinator(h *Handlers, _ context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.FindCoordinatorRequest)
	resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if r.Version < 4 {
		e := h.coordinator(c.Listener(), r.CoordinatorType, r.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = e.ErrorCode, e.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = e.NodeID, e.Host, e.Port
		return wire.Respond(resp)
	}
	for _, key := range r.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, h.coordinator(c.Listener(), r.CoordinatorType, key))
	}
	return wire.Respond(resp)
}

func (h *Handlers) coordinator(listener string, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	const groups = 0
	e := kmsg.NewFindCoordinatorResponseCoordinator()
	e.Key, e.NodeID, e.Port = key, -1, -1
	fail := func(err error) kmsg.FindCoordinatorResponseCoordinator {
		e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
		return e
	}
	if kind != groups {
		return fail(refuse(kerr.InvalidRequest, "There is no coordinator of type %d here: only consumer groups (0) have one.", kind))
	}
	v := h.view(listener)
	holder, ok := v.coordinator(key)
	if !ok {
		return fail(refuse(kerr.CoordinatorNotAvailable, "Nobody coordinates the group at present; it is being given to another broker."))
	}
	l, ok := v.address(holder)
	if !ok {
		return fail(refuse(kerr.CoordinatorNotAvailable, "The coordinator, broker %d, advertises no listener %s.", holder.ID, listener))
	}
	e.NodeID, e.Host, e.Port = int32(holder.ID), l.Host, l.Port
	return e
}
