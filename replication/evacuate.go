package replication

import (
	"cmp"
	"fmt"
	"slices"

	"tidemark/catalog"
)

// Held is a partition with the replicas that it has or is moving to, the preferred leader first.
type Held struct {
	Topic     string
	Partition int32
	Replicas  []catalog.BrokerID
}

// NoPlaceError says that a broker cannot leave, because a partition would have fewer replicas without it.
type NoPlaceError struct {
	Broker    catalog.BrokerID
	Topic     string
	Partition int32
	Replicas  int
	Others    int // brokers that are live and stay
}

func (e NoPlaceError) Error() string {
	return fmt.Sprintf("broker %d cannot leave: %s-%d has %d replicas, and only %d other brokers are live and stay; start one more, or give the topic fewer replicas first",
		e.Broker, e.Topic, e.Partition, e.Replicas, e.Others)
}

// Evacuate plans which replicas take the place of those that a broker has: for each of its partitions the replicas that it
// is to have, in the order of held. The newcomer stands where the leaving one stood, is live and does not leave itself, is
// in a rack that the others are not in if there is one, and of those the one with the fewest replicas, counting what is
// planned; NoPlaceError where nobody is left. It is pure and changes nothing of its arguments.
func Evacuate(leaving catalog.BrokerID, brokers []catalog.Broker, held []Held) ([]Held, error) {
	load := map[catalog.BrokerID]int{}
	rack := map[catalog.BrokerID]string{}
	for _, b := range brokers {
		rack[b.ID] = b.Rack
	}
	for _, h := range held {
		for _, r := range h.Replicas {
			load[r]++
		}
	}
	stay := slices.DeleteFunc(slices.Clone(brokers), func(b catalog.Broker) bool { return !b.Live || b.Leaving || b.ID == leaving })
	var moves []Held
	for _, h := range held {
		at := slices.Index(h.Replicas, leaving)
		if at < 0 {
			continue
		}
		others := slices.Delete(slices.Clone(h.Replicas), at, at+1)
		free := slices.DeleteFunc(slices.Clone(stay), func(b catalog.Broker) bool { return slices.Contains(others, b.ID) })
		if len(free) == 0 {
			return nil, NoPlaceError{leaving, h.Topic, h.Partition, len(h.Replicas), len(stay)}
		}
		crowded := func(b catalog.Broker) int { // how many of the others share its rack
			n := 0
			for _, o := range others {
				if b.Rack != "" && rack[o] == b.Rack {
					n++
				}
			}
			return n
		}
		to := slices.MinFunc(free, func(a, b catalog.Broker) int {
			return cmp.Or(cmp.Compare(crowded(a), crowded(b)), cmp.Compare(load[a.ID], load[b.ID]), cmp.Compare(a.ID, b.ID))
		})
		load[to.ID]++
		load[leaving]--
		moves = append(moves, Held{h.Topic, h.Partition, slices.Insert(others, at, to.ID)})
	}
	return moves, nil
}
