package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
)

// IncrementalAlterConfigs (key 44), versions 0–1 (KIP-339): SET, DELETE, APPEND and SUBTRACT on the
// overrides of topics; all changes of one topic or none. Of the answering broker the rates of throttled replication can be
// SET and DELETEd: they are in force, and kept, when it answers. Otherwise as AlterConfigs.
func beginIncrementalAlterConfigs(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	names := make([]resourceName, 0, len(r.Resources))
	for _, res := range r.Resources {
		names = append(names, resourceName{res.ResourceType, res.ResourceName})
	}
	errs := h.alter(ctx, h.tellConfigs(conn, req), names, r.ValidateOnly, func(i int, t *metadata.Topic) (map[string]string, error) {
		changes, err := changesOf(r.Resources[i].Configs)
		if err != nil {
			return nil, err
		}
		return h.Defaults.Apply(t.Configs, changes, replicasOf(t))
	}, func(i int) error {
		if err := h.thisBroker(names[i].name); err != nil {
			return err
		}
		changes, err := changesOf(r.Resources[i].Configs)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if !topicconfig.IsDynamic(c.Name) {
				return h.readOnly(names[i].kind, names[i].name)
			}
		}
		return h.Dynamic.Alter(ctx, changes, r.ValidateOnly)
	})
	for i, n := range names {
		e := kmsg.NewIncrementalAlterConfigsResponseResource()
		e.ResourceType, e.ResourceName = n.kind, n.name
		e.ErrorCode, e.ErrorMessage = codeFor(errs[i]), messageFor(errs[i])
		resp.Resources = append(resp.Resources, e)
	}
	return wire.Respond(resp)
}

func changesOf(configs []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]topicconfig.Change, error) {
	var changes []topicconfig.Change
	for _, c := range configs {
		ch := topicconfig.Change{Name: c.Name, Op: topicconfig.Op(c.Op)}
		switch {
		case c.Value != nil:
			ch.Value = *c.Value
		case ch.Op != topicconfig.Delete:
			return nil, refuse(kerr.InvalidConfig, "Null value not supported for configs: %s.", c.Name)
		}
		changes = append(changes, ch)
	}
	return changes, nil
}
