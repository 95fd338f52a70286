package handler

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/broker/topicconfig"
	"tidemark/replication"
)

// describe answers all configs of a resource.
func (h *Handlers) describe(kind kmsg.ConfigResourceType, name string) ([]topicconfig.Entry, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := h.namedTopic(name)
		if err != nil {
			return nil, err
		}
		return h.Defaults.Describe(t.Configs, replicasOf(t)), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return nil, nil // the cluster-wide dynamic defaults: there are none
		}
		if err := h.thisBroker(name); err != nil {
			return nil, err
		}
		facts := h.Config.BrokerFacts()
		facts.Dynamic = h.Dynamic.Values()
		if facts.DefaultReplication <= 0 {
			facts.DefaultReplication = replication.DefaultFactor(len(h.Metadata.Image().Brokers()))
		}
		return h.Defaults.DescribeBroker(facts), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, refuse(kerr.InvalidRequest, "Default group resources are not allowed: name a group.")
		}
		return topicconfig.DescribeGroup(nil), nil
	}
	return nil, unknownResource(kind)
}

// replicasOf is the topic's replication factor, on which some defaults depend.
func replicasOf(t *metadata.Topic) int {
	if len(t.Partitions) == 0 {
		return 1
	}
	return len(t.Partitions[0].Replicas)
}

func (h *Handlers) namedTopic(name string) (*metadata.Topic, error) {
	if err := checkTopicName(name); err != nil {
		return nil, err
	}
	t, ok := h.Metadata.Image().Topic(name)
	if !ok {
		return nil, refuse(kerr.UnknownTopicOrPartition, "There is no topic %s.", name)
	}
	return t, nil
}

// thisBroker refuses a broker's configs that are asked of another one: only the broker itself has them.
func (h *Handlers) thisBroker(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != int32(h.Broker) {
		return refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", h.Broker, name)
	}
	return nil
}

func unknownResource(kind kmsg.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "Configs of the resource type %v are not served: ask for topics (2), brokers (4) or groups (32).", kind)
}

// readOnly refuses a change of what is not a topic: a broker's settings are variables of its process,
// and group configs belong to protocols that are not spoken.
func (h *Handlers) readOnly(kind kmsg.ConfigResourceType, name string) error {
	switch kind {
	case kmsg.ConfigResourceTypeBroker:
		if name != "" {
			if err := h.thisBroker(name); err != nil {
				return err
			}
		}
		return refuse(kerr.InvalidRequest, "Broker configs are read-only: set the broker's TIDEMARK_ variable "+
			"(DescribeConfigs names it, `tidemark config` explains it) and restart the broker.")
	case kmsg.ConfigResourceTypeGroupConfig:
		return refuse(kerr.InvalidRequest, "Group configs are read-only: they belong to group protocols that this broker does not speak.")
	}
	return unknownResource(kind)
}
