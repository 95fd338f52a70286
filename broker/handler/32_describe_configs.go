package handler

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
)

// DescribeConfigs (key 32), versions 1–4: topics, the answering broker (under Kafka's names, U3) and
// groups; another broker's configs are INVALID_REQUEST, as is a kind that has none here. Names that are
// not known are left out. v1+ may ask for synonyms, v3+ for documentation.
func beginDescribeConfigs(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DescribeConfigsRequest)
	resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	for _, res := range once(r.Resources, func(r kmsg.DescribeConfigsRequestResource) resource {
		return resource{r.ResourceType, r.ResourceName}
	}) {
		e := kmsg.NewDescribeConfigsResponseResource()
		e.ResourceType, e.ResourceName = res.ResourceType, res.ResourceName
		entries, err := h.describe(res.ResourceType, res.ResourceName)
		e.ErrorCode, e.ErrorMessage = codeFor(err), messageFor(err)
		for _, d := range entries {
			if res.ConfigNames == nil || slices.Contains(res.ConfigNames, d.Name) {
				e.Configs = append(e.Configs, describedConfig(d, r))
			}
		}
		resp.Resources = append(resp.Resources, e)
	}
	return wire.Respond(resp)
}

func describedConfig(d topicconfig.Entry, r *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly = d.Name, entryValue(d), d.ReadOnly
	c.IsDefault = d.Source == topicconfig.SourceDefault
	c.Source, c.ConfigType = kmsg.ConfigSource(d.Source), kmsg.ConfigType(d.Type)
	if r.IncludeSynonyms {
		for _, s := range d.Synonyms {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			value := s.Value
			syn.Name, syn.Value, syn.Source = s.Name, &value, kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, syn)
		}
	}
	if r.IncludeDocumentation {
		doc := d.Doc
		c.Documentation = &doc
	}
	return c
}
