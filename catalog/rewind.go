package catalog

import (
	"cmp"
	"context"
	"slices"

	"tidemark/record"
)

// Copy is the cluster as a broker knew it at a position that the catalog does not hold (H2).
type Copy struct {
	Position   Position
	Topics     []Topic
	Partitions []Partition
	Slots      []SlotGuard
}

// Rewound is where the repair of a catalog that went back in time stands.
type Rewound int

const (
	// Fits: the catalog holds the position; go on from it.
	Fits Rewound = iota
	// Waits: the mark is set and the copy is kept; ask again.
	Waits
	// Repaired: the copies have been taken in since the position; read everything.
	Repaired
)

// Rewinds repairs a catalog that has lost commits. While it is marked, elections, changes of in-sync
// sets, moves, slots, topics and start are refused with ErrRewound; leaders go on with what they had.
type Rewinds interface {
	// ReportRewound presents a copy whose position Pull has found missing: the mark is set, the copy kept.
	ReportRewound(ctx context.Context, b BrokerID, c Copy) (Rewound, error)
	// Repair takes the copies in, raises every leader epoch and the counter above all that was seen, leaves
	// every partition without leader and every slot without holder, and clears the mark, all in one
	// transaction. It returns the topics that are there again because their deletion was lost, or that
	// were made since: what the catalog shows is never deleted by inference. ErrFenced; nothing is done
	// if there is no mark.
	Repair(ctx context.Context, c Controller) (unknown []Topic, err error)
}

// Repairs is what a repair writes.
type Repairs struct {
	// Partitions are all rows, without leader, at the highest epoch that was seen.
	Partitions []Partition
	// Topics are those that the catalog lacks.
	Topics []Topic
	// Unknown are topics that the newest copy does not have.
	Unknown []Topic
	Slots   []SlotGuard // without holder, at the highest epoch that was seen
	Above   Version     // the highest version that was seen
}

// Repair decides what copies tell about a catalog that shows have: per partition the row with the
// highest (epoch, version) stands (H2).
func Repair(have Copy, copies []Copy) Repairs {
	all := append(slices.Clone(copies), have)
	newest := slices.MaxFunc(all, func(a, b Copy) int { return cmp.Compare(a.Position.Version, b.Position.Version) })
	r := Repairs{Above: newest.Position.Version}
	r.Topics, r.Unknown = repairTopics(have, newest)

	known := map[TopicID]bool{}
	for _, t := range slices.Concat(have.Topics, r.Topics) {
		known[t.ID] = true
	}
	best := map[PartitionID]Partition{}
	highest := map[PartitionID]record.Epoch{}
	for _, c := range all {
		for _, p := range c.Partitions {
			if !known[p.ID.Topic] {
				continue
			}
			if old, ok := best[p.ID]; !ok || cmp.Or(cmp.Compare(p.LeaderEpoch, old.LeaderEpoch), cmp.Compare(p.Version, old.Version)) > 0 {
				best[p.ID] = p
			}
			highest[p.ID] = max(highest[p.ID], p.LeaderEpoch)
		}
	}
	for id, p := range best {
		p.Leader, p.LeaderEpoch = NoBroker, highest[id]
		r.Partitions = append(r.Partitions, p)
	}
	slices.SortFunc(r.Partitions, func(a, b Partition) int {
		return cmp.Or(slices.Compare(a.ID.Topic[:], b.ID.Topic[:]), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	r.Slots = repairSlots(all)
	return r
}

// repairTopics compares topics with the newest copy's: what only that has was made in the time that is
// lost, what it lacks was deleted then, or made since.
func repairTopics(have, newest Copy) (missing, unknown []Topic) {
	in := func(ts []Topic, id TopicID) bool {
		return slices.ContainsFunc(ts, func(t Topic) bool { return t.ID == id })
	}
	for _, t := range newest.Topics {
		named := slices.ContainsFunc(have.Topics, func(h Topic) bool { return h.Name == t.Name })
		if !in(have.Topics, t.ID) && !named {
			missing = append(missing, t)
		}
	}
	for _, t := range have.Topics {
		if !in(newest.Topics, t.ID) {
			unknown = append(unknown, t)
		}
	}
	return missing, unknown
}

func repairSlots(all []Copy) []SlotGuard {
	highest := map[int32]int64{}
	for _, c := range all {
		for _, g := range c.Slots {
			highest[g.Slot] = max(highest[g.Slot], g.Epoch)
		}
	}
	var out []SlotGuard
	for slot, epoch := range highest {
		out = append(out, SlotGuard{Slot: slot, Broker: NoBroker, Epoch: epoch + 1})
	}
	slices.SortFunc(out, func(a, b SlotGuard) int { return cmp.Compare(a.Slot, b.Slot) })
	return out
}
