package rebuild

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/checkpoint"
)

// epochsAhead is added to the highest leader epoch that is known: brokers may have led with some that
// nothing in the bucket shows, and an epoch is given once (H2).
const epochsAhead = 100

// rowsPerCall bounds the rows of one transaction.
const rowsPerCall = 500

// plan is what a partition will be.
type plan struct {
	id    catalog.PartitionID
	start record.Offset
	epoch record.Epoch
	rows  []catalog.Segment
	name  string // of the topic, as an object tells it
	// compacted: an object has key digests.
	compacted bool
}

// topics writes the topics of the checkpoint.
func (r *rebuilding) topics(ctx context.Context) error {
	if r.saved == nil {
		return nil
	}
	for _, t := range r.saved.Topics {
		if err := r.topic(ctx, t); err != nil {
			return fmt.Errorf("topic %q: %w", t.Name, err)
		}
	}
	return nil
}

func (r *rebuilding) topic(ctx context.Context, t checkpoint.Topic) error {
	parts := t.Partitions
	for _, id := range r.bucket.partitions(t.ID) {
		for int(id.Partition) >= len(parts) && len(parts) > 0 { // made after the checkpoint
			p := parts[0]
			p.ID.Partition, p.LeaderEpoch, p.Bounds = int32(len(parts)), 0, catalog.Bounds{}
			parts = append(slices.Clone(parts), p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	plans := make([]plan, len(parts))
	for i, p := range parts {
		var err error
		if plans[i], err = r.planSaved(ctx, t, p); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		parts = slices.Clone(parts)
		parts[i].LeaderEpoch, parts[i].Start = plans[i].epoch+epochsAhead, plans[i].start
	}
	return r.write(ctx, t.Topic, parts, plans)
}

// planSaved finds the rows of a partition that the checkpoint has.
func (r *rebuilding) planSaved(ctx context.Context, t checkpoint.Topic, p catalog.Partition) (plan, error) {
	out := plan{id: p.ID, start: p.Start, epoch: p.LeaderEpoch}
	l := r.listed(p)
	cs, err := r.footers(ctx, r.unlisted(p.ID, l))
	if err != nil {
		return out, err
	}
	cs = r.beside(t.Name, p, l, cs)
	way, cs, err := r.chosen(ctx, cs, func(ns []node) []int { return routeFrom(ns, p.Start, l.age) })
	if err != nil {
		return out, err
	}
	way = r.withoutRemoved(t, p, cs, way, &out)
	for _, i := range way {
		out.rows = append(out.rows, cs[i].row)
		out.epoch = max(out.epoch, cs[i].epoch)
		r.tally(t.Name, cs[i])
	}
	if len(out.rows) == 0 {
		out.start = max(out.start, p.Tiered) // the tier is empty; its end does not fall
	} else if end := out.rows[len(out.rows)-1].Next; end < p.Tiered {
		r.undecided("%s-%d: the tier reached to %d, what is in the bucket continues to %d only", t.Name, p.ID.Partition, p.Tiered, end)
	}
	return out, nil
}

// unlisted are the objects that may have got a row since the checkpoint.
func (r *rebuilding) unlisted(id catalog.PartitionID, l listing) []found {
	known := map[string]bool{}
	for _, c := range l.rows {
		known[c.row.Key] = true
	}
	return slices.DeleteFunc(slices.Clone(r.bucket.parts[id]), func(o found) bool { return known[o.key] || o.base < l.from })
}

// beside puts objects beside the checkpoint's rows: all but those of an earlier leader than the checkpoint knows. In doubt
// is what was there when the checkpoint was written and was not live: it had been replaced, or never published.
func (r *rebuilding) beside(topic string, p catalog.Partition, l listing, cs []candidate) []candidate {
	out := slices.Clone(l.rows)
	for _, c := range cs {
		if c.next > p.Tiered && c.epoch < p.LeaderEpoch {
			if c.base == p.Tiered {
				r.undecided("%s-%d: an object of [%d, %d) continues the tier, but it is of leader epoch %d and the checkpoint knows %d: left out: %s",
					topic, p.ID.Partition, c.base, c.next, c.epoch, p.LeaderEpoch, c.row.Key)
			}
			continue
		}
		c.doubt = c.next <= p.Tiered && c.modified.Before(r.saved.At.Add(-slack))
		out = append(out, c)
	}
	return out
}

// listing is what the checkpoint says of a partition's rows.
type listing struct {
	rows []candidate
	// from is where the objects begin that have to be looked at beside them: a swap since the checkpoint may have begun
	// at any row.
	from record.Offset
	// age is oldest if the rows are all that there were.
	age age
}

// listed reads the checkpoint's rows of a partition and holds them against the bucket.
func (r *rebuilding) listed(p catalog.Partition) listing {
	there := map[string]int64{}
	for _, o := range r.bucket.parts[p.ID] {
		there[o.key] = o.size
	}
	l := listing{age: oldest}
	at := p.Start
	for i, row := range r.rows[p.ID] {
		size, ok := there[row.Key]
		c := candidate{
			node: node{base: row.Base, next: row.Next, epoch: row.LeaderEpoch, generation: row.Generation, attempt: row.Attempt, listed: true, lost: !ok || size != row.Bytes},
			row:  row,
		}
		if row.Base > at {
			l.age = newest
		}
		if i == 0 && row.Base <= at && !c.lost {
			l.from = row.Base // else what covers start may begin below it
		}
		at = row.Next
		l.rows = append(l.rows, c)
	}
	if at < p.Tiered {
		l.age = newest
	}
	return l
}

// chosen picks the way and reads what the checkpoint does not list of it; a damaged object is left out and
// the way picked again.
func (r *rebuilding) chosen(ctx context.Context, cs []candidate, pick func([]node) []int) ([]int, []candidate, error) {
	for {
		nodes := make([]node, len(cs))
		for i := range cs {
			nodes[i] = cs[i].node
		}
		way := pick(nodes)
		bad, err := r.readWhole(ctx, cs, way)
		if err != nil {
			return nil, nil, err
		}
		if len(bad) == 0 {
			return way, cs, nil
		}
		for _, attempt := range slices.Sorted(maps.Keys(bad)) {
			r.undecided("an object is damaged and was left out: %v", bad[attempt])
		}
		cs = slices.DeleteFunc(cs, func(c candidate) bool { return bad[c.attempt] != nil })
	}
}

// withoutRemoved takes the first objects that are gone for removed by retention or DeleteRecords after
// the checkpoint, where the topic removes anything: start rises past them.
func (r *rebuilding) withoutRemoved(t checkpoint.Topic, p catalog.Partition, cs []candidate, way []int, out *plan) []int {
	gone := 0
	for gone < len(way) && cs[way[gone]].lost {
		gone++
	}
	if gone == 0 || keepsAll(t.Configs) {
		return way
	}
	out.start = max(out.start, cs[way[gone-1]].next)
	r.undecided("%s-%d: the objects of [%d, %d) are gone; taken as removed by retention after the checkpoint, so the log starts at %d",
		t.Name, p.ID.Partition, cs[way[0]].base, out.start, out.start)
	return way[gone:]
}

// keepsAll says whether a topic's own configs keep its records for ever.
func keepsAll(configs map[string]string) bool {
	return configs["cleanup.policy"] == "compact" || configs["retention.ms"] == "-1" && (configs["retention.bytes"] == "-1" || configs["retention.bytes"] == "")
}

func (r *rebuilding) tally(topic string, c candidate) {
	r.report.Segments++
	r.report.Bytes += c.row.Bytes
	if c.listed {
		r.report.FromCheckpoint++
	} else {
		r.report.FromObjects++
	}
	if c.lost {
		r.report.Lost++
		r.undecided("%s-%d: the object of [%d, %d) is lost: %s; reads of that range will fail", topic, c.row.Partition.Partition, c.base, c.next, c.row.Key)
	}
}

// write writes a topic and its rows.
func (r *rebuilding) write(ctx context.Context, t catalog.Topic, parts []catalog.Partition, plans []plan) error {
	call, cancel := r.call(ctx)
	err := r.o.Catalog.RestoreTopic(call, t, parts)
	cancel()
	if err != nil {
		return err
	}
	r.report.Topics++
	for _, p := range plans {
		r.report.Partitions++
		r.report.Left += int64(len(r.bucket.parts[p.id])) - present(p.rows, r.bucket.parts[p.id])
		for rows := range slices.Chunk(p.rows, rowsPerCall) {
			call, cancel := r.call(ctx)
			_, err := r.o.Catalog.RestoreSegments(call, p.id, rows)
			cancel()
			if err != nil {
				return err
			}
		}
	}
	r.say("%s: %d partitions.", t.Name, len(parts))
	return nil
}

// present counts the rows whose object is in the bucket.
func present(rows []catalog.Segment, objects []found) (n int64) {
	keys := make(map[string]bool, len(rows))
	for _, s := range rows {
		keys[s.Key] = true
	}
	for _, o := range objects {
		if keys[o.key] {
			n++
		}
	}
	return n
}

// slack is how far the clocks of bucket and database may differ.
const slack = time.Minute
