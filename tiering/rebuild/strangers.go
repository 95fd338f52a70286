package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/catalog"
)

// strangers writes the topics that the checkpoint does not know: all of them if there is none.
func (r *rebuilding) strangers(ctx context.Context) error {
	taken := map[string]bool{}
	known := map[catalog.TopicID]bool{}
	if r.saved != nil {
		for _, t := range r.saved.Topics {
			taken[t.Name], known[t.ID] = true, true
		}
		for _, d := range r.saved.Deleted {
			known[d.Topic] = true
			r.leave(d.Topic)
		}
	}
	var ids []catalog.TopicID
	for id := range r.bucket.newest {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	// Of two topics of one name the one that was written to last is the live one.
	slices.SortFunc(ids, func(a, b catalog.TopicID) int {
		return cmp.Or(-r.bucket.newest[a].Compare(r.bucket.newest[b]), strings.Compare(a.Hex(), b.Hex()))
	})
	for _, id := range ids {
		if r.saved != nil && r.bucket.oldest[id].Before(r.saved.At.Add(-slack)) {
			r.undecided("topic id %s is not in the checkpoint and has objects that are older: taken as deleted", id)
			r.leave(id)
			continue
		}
		if err := r.stranger(ctx, id, taken); err != nil {
			return fmt.Errorf("topic id %s: %w", id, err)
		}
	}
	return nil
}

// leave counts the objects of a topic that is not revived.
func (r *rebuilding) leave(topic catalog.TopicID) {
	for _, id := range r.bucket.partitions(topic) {
		r.report.Left += int64(len(r.bucket.parts[id]))
	}
}

// stranger makes a topic from its objects' footers.
func (r *rebuilding) stranger(ctx context.Context, topic catalog.TopicID, taken map[string]bool) error {
	var plans []plan
	t := catalog.Topic{ID: topic, Configs: map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}}
	for _, id := range r.bucket.partitions(topic) {
		for int(id.Partition) > len(plans) {
			plans = append(plans, plan{id: catalog.PartitionID{Topic: topic, Partition: int32(len(plans))}})
		}
		p, err := r.planFound(ctx, id)
		if err != nil {
			return err
		}
		if p.name != "" {
			t.Name = p.name
		}
		if p.compacted {
			t.Configs["cleanup.policy"] = "compact"
		}
		plans = append(plans, p)
	}
	switch {
	case t.Name == "":
		r.undecided("topic id %s: none of its objects can be read", topic)
		r.leave(topic)
		return nil
	case taken[t.Name]:
		r.undecided("topic id %s is called %q, as another one that is written to later or in the checkpoint: taken as deleted", topic, t.Name)
		r.leave(topic)
		return nil
	}
	taken[t.Name] = true
	parts := make([]catalog.Partition, len(plans))
	for i, p := range plans {
		parts[i] = catalog.Partition{
			ID: p.id, Leader: catalog.NoBroker, LeaderEpoch: p.epoch + epochsAhead, Replicas: []catalog.BrokerID{r.o.Broker},
			ISR: []catalog.Member{{Broker: r.o.Broker, Incarnation: 1}}, Bounds: catalog.Bounds{Start: p.start},
		}
		for _, s := range p.rows {
			r.tally(t.Name, candidate{node: node{base: s.Base, next: s.Next}, row: s})
		}
	}
	r.undecided("topic %q was made from its objects: %d partitions, led by broker %d, retention.ms=-1 until you set what it was; there may have been more partitions, other configs, and a log start above that of the oldest object",
		t.Name, len(plans), r.o.Broker)
	return r.write(ctx, t, parts, plans)
}

// planFound finds the rows of a partition from its objects alone.
func (r *rebuilding) planFound(ctx context.Context, id catalog.PartitionID) (plan, error) {
	out := plan{id: id}
	cs, err := r.footers(ctx, r.bucket.parts[id])
	if err != nil {
		return out, err
	}
	for _, c := range cs {
		out.compacted = out.compacted || c.compacted
	}
	way, cs, err := r.chosen(ctx, cs, routeOfAll)
	if err != nil || len(way) == 0 {
		return out, err
	}
	for _, i := range way {
		out.rows = append(out.rows, cs[i].row)
		out.epoch = max(out.epoch, cs[i].epoch)
		out.name = cs[i].topicName
	}
	out.start = out.rows[0].Base
	return out, nil
}
