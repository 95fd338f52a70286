package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
)

// LeavingTag is the tag of a broker in DescribeCluster's answer that is being decommissioned; its value is empty.
const LeavingTag = 1000

// DescribeCluster (key 60), versions 0–2: the brokers by the listener that the request came in by, as
// Metadata, the controller too. v1+ may ask for controllers, of which there are none
// to be reached apart: UNSUPPORTED_ENDPOINT_TYPE (KIP-919). v2 may ask for brokers that are away too
// (KIP-1073), save those that have left for good.
func beginDescribeCluster(h *Handlers, _ context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	const endpointBrokers = 1
	r := req.Body.(*kmsg.DescribeClusterRequest)
	resp := r.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.EndpointType = endpointBrokers
	if r.Version >= 1 && r.EndpointType != endpointBrokers {
		err := refuse(kerr.UnsupportedEndpointType, "Endpoint type %d is not served: ask for brokers (1).", r.EndpointType)
		resp.ErrorCode, resp.ErrorMessage = codeFor(err), messageFor(err)
		return wire.Respond(resp)
	}
	v := h.view(c.Listener())
	resp.ClusterID, resp.ControllerID = h.Cluster.ID.String(), h.controllerID(v)
	resp.ClusterAuthorizedOperations = operations(r.IncludeClusterAuthorizedOperations, clusterOperations)
	show := func(b catalog.Broker) {
		l, ok := v.address(b)
		_, live := v.live[b.ID]
		if !ok || !live && !r.IncludeFencedBrokers {
			return
		}
		e := kmsg.NewDescribeClusterResponseBroker()
		e.NodeID, e.Host, e.Port, e.IsFenced = int32(b.ID), l.Host, l.Port, !live
		if b.Leaving {
			e.UnknownTags.Set(LeavingTag, nil)
		}
		if b.Rack != "" {
			e.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, e)
	}
	brokers := v.im.Brokers()
	if r.IncludeFencedBrokers {
		brokers = v.known()
	}
	for _, b := range brokers {
		show(b)
	}
	return wire.Respond(resp)
}
