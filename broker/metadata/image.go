package metadata

import (
	"maps"
	"slices"
	"strings"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
)

// Topic is a live topic with the settings in force and its partitions, by number.
type Topic struct {
	catalog.Topic
	// Effective is the broker's defaults under the topic's overrides.
	Effective topicconfig.Topic
	// Partitions holds each partition at its number. Their Bounds are those of the pull and grow old:
	// ask the partition itself.
	Partitions []catalog.Partition
}

// Image is the cluster at one position of the counter. It is immutable.
type Image struct {
	Position catalog.Position
	brokers  map[catalog.BrokerID]catalog.Broker
	byID     map[catalog.TopicID]*Topic
	byName   map[string]*Topic
	slots    [catalog.Slots]catalog.SlotGuard
	deleted  []catalog.TopicID // by the change that led here
}

// Deleted reports whether the change that led to this image names the topic as deleted. A topic that is merely not there
// any more may be one that the catalog has lost (H2).
func (im *Image) Deleted(id catalog.TopicID) bool { return slices.Contains(im.deleted, id) }

// Topic finds a live topic by name.
func (im *Image) Topic(name string) (*Topic, bool) {
	t, ok := im.byName[name]
	return t, ok
}

// TopicByID finds a live topic by id.
func (im *Image) TopicByID(id catalog.TopicID) (*Topic, bool) {
	t, ok := im.byID[id]
	return t, ok
}

// Partition finds a partition's row as it was pulled.
func (im *Image) Partition(id catalog.PartitionID) (catalog.Partition, bool) {
	t, ok := im.byID[id.Topic]
	if !ok || id.Partition < 0 || int(id.Partition) >= len(t.Partitions) {
		return catalog.Partition{}, false
	}
	return t.Partitions[id.Partition], true
}

// Topics lists the live topics by name.
func (im *Image) Topics() []*Topic {
	ts := slices.Collect(maps.Values(im.byName))
	slices.SortFunc(ts, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return ts
}

// TopicCount is the number of live topics.
func (im *Image) TopicCount() int { return len(im.byName) }

// PartitionCount is the number of their partitions.
func (im *Image) PartitionCount() (n int) {
	for _, t := range im.byName {
		n += len(t.Partitions)
	}
	return n
}

// Brokers lists the live brokers by id.
func (im *Image) Brokers() []catalog.Broker {
	var bs []catalog.Broker
	for _, b := range im.brokers {
		if b.Live {
			bs = append(bs, b)
		}
	}
	slices.SortFunc(bs, func(a, b catalog.Broker) int { return int(a.ID - b.ID) })
	return bs
}

// Broker finds a registered broker, live or not.
func (im *Image) Broker(id catalog.BrokerID) (catalog.Broker, bool) {
	b, ok := im.brokers[id]
	return b, ok
}

// apply returns the image after ch. defaults are the broker's settings under every topic.
func (im *Image) apply(ch catalog.Changes, defaults *topicconfig.Defaults) *Image {
	next := &Image{
		Position: ch.Position,
		brokers:  map[catalog.BrokerID]catalog.Broker{},
		byID:     map[catalog.TopicID]*Topic{},
		byName:   map[string]*Topic{},
		deleted:  ch.Deleted,
	}
	next.slots = im.nextSlots(ch)
	if !ch.Full {
		maps.Copy(next.brokers, im.brokers)
		maps.Copy(next.byID, im.byID)
	}
	for _, b := range ch.Brokers {
		next.brokers[b.ID] = b
	}
	for _, t := range ch.Topics {
		nt := &Topic{Topic: t}
		if old, ok := next.byID[t.ID]; ok {
			nt.Partitions = old.Partitions
		}
		next.byID[t.ID] = nt
	}
	next.setPartitions(ch.Partitions)
	for _, id := range ch.Deleted {
		delete(next.byID, id)
	}
	for _, t := range ch.Topics {
		if nt, ok := next.byID[t.ID]; ok {
			nt.Effective = effective(nt, defaults)
		}
	}
	for _, t := range next.byID {
		next.byName[t.Name] = t
	}
	return next
}

// effective resolves a topic's settings. Overrides that this release cannot read (a newer one wrote
// them) are left out one by one rather than making the topic unusable.
func effective(t *Topic, defaults *topicconfig.Defaults) topicconfig.Topic {
	replicas := 1
	if len(t.Partitions) > 0 {
		replicas = len(t.Partitions[0].Replicas)
	}
	if cfg, err := defaults.Resolve(t.Configs, replicas); err == nil {
		return cfg
	}
	known := map[string]string{}
	for name, value := range t.Configs {
		known[name] = value
		if _, err := defaults.Resolve(known, replicas); err != nil {
			delete(known, name)
		}
	}
	cfg, _ := defaults.Resolve(known, replicas)
	return cfg
}

// setPartitions puts the rows into copies of their topics, so that older images stay as they are.
func (im *Image) setPartitions(rows []catalog.Partition) {
	copied := map[catalog.TopicID]bool{}
	for _, p := range rows {
		t, ok := im.byID[p.ID.Topic]
		if !ok {
			continue
		}
		if !copied[p.ID.Topic] {
			c := *t
			c.Partitions = slices.Clone(t.Partitions)
			t, copied[p.ID.Topic] = &c, true
			im.byID[p.ID.Topic] = t
		}
		for int(p.ID.Partition) >= len(t.Partitions) {
			t.Partitions = append(t.Partitions, catalog.Partition{
				ID:     catalog.PartitionID{Topic: p.ID.Topic, Partition: int32(len(t.Partitions))},
				Leader: catalog.NoBroker,
			})
		}
		t.Partitions[p.ID.Partition] = p
	}
}
