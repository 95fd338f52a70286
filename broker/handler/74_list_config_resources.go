package handler

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
)

// ListConfigResources (key 74), versions 0–1 (KIP-1142): v0 lists client-metrics subscriptions, of which
// there are none; v1 lists topics and brokers too, or those of the asked types. Groups have no configs of
// their own here. A type that Kafka does not know either is UNSUPPORTED_VERSION.
func beginListConfigResources(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.ListConfigResourcesRequest)
	resp := r.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if r.Version == 0 {
		return wire.Respond(resp)
	}
	types := r.ResourceTypes
	if len(types) == 0 {
		types = []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker)}
	}
	im := h.Metadata.Image()
	add := func(kind kmsg.ConfigResourceType, name string) {
		e := kmsg.NewListConfigResourcesResponseConfigResource()
		e.Type, e.Name = int8(kind), name
		resp.ConfigResources = append(resp.ConfigResources, e)
	}
	for _, t := range once(types, func(t int8) int8 { return t }) {
		switch kind := kmsg.ConfigResourceType(t); kind {
		case kmsg.ConfigResourceTypeTopic:
			for _, t := range im.Topics() {
				add(kind, t.Name)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			for _, b := range im.Brokers() {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			resp.ConfigResources = nil
			return wire.Respond(resp)
		}
	}
	return wire.Respond(resp)
}
