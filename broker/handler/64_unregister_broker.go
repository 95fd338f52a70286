package handler

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
)

// StayTag is the tag of an UnregisterBroker request that takes an earlier one back; its value is empty. It is Tidemark's
// own: Kafka's brokers come back by registering again.
const StayTag = 1000

// UnregisterBroker (key 64), version 0: a broker leaves the cluster for good. From now on it gets no new replicas, by
// topics or by moves; it keeps what it has until that has been moved (`tidemark broker decommission` does it), also over
// restarts. Stopped and without replicas it is not named any more. Any broker does it. A broker that was never there is
// BROKER_ID_NOT_REGISTERED.
func beginUnregisterBroker(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.UnregisterBrokerRequest)
	resp := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	leaving := true
	r.UnknownTags.Each(func(tag uint32, _ []byte) { leaving = leaving && tag != StayTag })
	id := catalog.BrokerID(r.BrokerID)
	err := untilKnown(ctx, func() error { return h.Catalog.SetLeaving(ctx, id, leaving) })
	if errors.Is(err, catalog.ErrNotFound) {
		err = refuse(kerr.BrokerIDNotRegistered, "Broker ID %d is not registered.", r.BrokerID)
	}
	if err == nil {
		h.told(conn, req, "decommissioning of a broker", "broker", id, "leaving", leaving)
		err = h.Metadata.Refresh(ctx)
	}
	resp.ErrorCode, resp.ErrorMessage = codeFor(err), messageFor(err)
	return wire.Respond(resp)
}
