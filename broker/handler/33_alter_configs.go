package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// AlterConfigs (key 33), versions 0–2: replaces all overrides of a topic by those of the request. Broker
// and group configs are read-only: INVALID_REQUEST with the remedy. Values are checked as at
// CreateTopics: INVALID_CONFIG. It answers when this broker's own state shows the change.
func beginAlterConfigs(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.AlterConfigsRequest)
	resp := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	names := make([]resourceName, 0, len(r.Resources))
	for _, res := range r.Resources {
		names = append(names, resourceName{res.ResourceType, res.ResourceName})
	}
	errs := h.alter(ctx, h.tellConfigs(conn, req), names, r.ValidateOnly, func(i int, _ *metadata.Topic) (map[string]string, error) {
		next := map[string]string{}
		for _, c := range r.Resources[i].Configs {
			if c.Value == nil {
				return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s.", c.Name)
			}
			next[c.Name] = *c.Value
		}
		return next, nil
	}, nil)
	for i, n := range names {
		e := kmsg.NewAlterConfigsResponseResource()
		e.ResourceType, e.ResourceName = n.kind, n.name
		e.ErrorCode, e.ErrorMessage = codeFor(errs[i]), messageFor(errs[i])
		resp.Resources = append(resp.Resources, e)
	}
	return wire.Respond(resp)
}

type resourceName struct {
	kind kmsg.ConfigResourceType
	name string
}

// alter changes the overrides of each named topic to what next gives for it, calls broker for what names a broker, tells what has changed, and says
// of each resource why that could not be. Without broker no broker is changed.
func (h *Handlers) alter(ctx context.Context, tell func(topic string, changes []catalog.ConfigChange), rs []resourceName, validateOnly bool,
	next func(i int, t *metadata.Topic) (map[string]string, error), broker func(i int) error) []error {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	errs := make([]error, len(rs))
	seen := map[resourceName]bool{}
	changed := false
	// A change of a list is made from the list as it is now.
	staleErr := h.Metadata.Refresh(ctx)
	for i, r := range rs {
		switch {
		case seen[r]:
			errs[i] = refuse(kerr.InvalidRequest, "The resource %s is named twice.", r.name)
		case r.kind == kmsg.ConfigResourceTypeBroker && r.name != "" && broker != nil:
			errs[i] = broker(i)
		case r.kind != kmsg.ConfigResourceTypeTopic:
			errs[i] = h.readOnly(r.kind, r.name)
		case staleErr != nil:
			errs[i] = staleErr
		default:
			var changes []catalog.ConfigChange
			changes, errs[i] = h.alterTopic(ctx, r.name, validateOnly, func(t *metadata.Topic) (map[string]string, error) { return next(i, t) })
			changed = changed || errs[i] == nil
			if len(changes) > 0 {
				tell(r.name, changes)
			}
		}
		seen[r] = true
	}
	if changed && !validateOnly {
		if err := h.Metadata.Refresh(ctx); err != nil {
			for i, r := range rs {
				if errs[i] == nil && r.kind == kmsg.ConfigResourceTypeTopic {
					errs[i] = err
				}
			}
		}
	}
	return errs
}

// alterTopic returns what it has changed; nothing with validateOnly.
func (h *Handlers) alterTopic(ctx context.Context, name string, validateOnly bool, next func(*metadata.Topic) (map[string]string, error)) ([]catalog.ConfigChange, error) {
	t, err := h.namedTopic(name)
	if err != nil {
		return nil, err
	}
	overrides, err := next(t)
	if err != nil {
		return nil, err
	}
	replicas := replicasOf(t)
	if err := h.Defaults.Check(overrides, replicas); err != nil {
		return nil, err
	}
	before, err := h.Defaults.Resolve(t.Configs, replicas)
	if err != nil {
		return nil, err
	}
	after, err := h.Defaults.Resolve(overrides, replicas)
	if err != nil {
		return nil, err
	}
	if err := topicconfig.CheckChange(before, after); err != nil || validateOnly {
		return nil, err
	}
	changes := configChanges(t.Configs, overrides)
	if err := untilKnown(ctx, func() error { return h.Catalog.AlterConfigs(ctx, t.ID, changes, false) }); err != nil {
		return nil, err
	}
	return changes, nil
}

// configChanges names what turns one set of overrides into another, so that a change by somebody else to
// another config in the meantime is kept.
func configChanges(from, to map[string]string) []catalog.ConfigChange {
	var out []catalog.ConfigChange
	for name, value := range to {
		if old, ok := from[name]; !ok || old != value {
			out = append(out, catalog.ConfigChange{Name: name, Value: &value})
		}
	}
	for name := range from {
		if _, ok := to[name]; !ok {
			out = append(out, catalog.ConfigChange{Name: name})
		}
	}
	return out
}
