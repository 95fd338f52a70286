package handler

import (
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/catalog"
	"tidemark/replication"
)

// maxPartitions bounds what one request may add to one topic: more is a slip of the hand (Kafka's
// controller draws the same line).
const maxPartitions = 10_000

// place says where the replicas of new partitions go, given the brokers that may get some.
type place = func(brokers []catalog.Broker) ([][]catalog.BrokerID, error)

// spread places n partitions by itself, rf 0 meaning the default; the first leader is drawn, so that
// one-partition topics do not all begin on the same broker.
func spread(n, rf int) place {
	first := rand.IntN(1 << 16)
	return func(brokers []catalog.Broker) ([][]catalog.BrokerID, error) {
		return replication.Place(brokers, n, rf, first)
	}
}

// assigned places replicas as the request names them: all of the same number, all registered here in
// the transaction's eyes, one of each partition live, none twice in a partition.
func assigned(lists [][]int32) (place, error) {
	out := make([][]catalog.BrokerID, len(lists))
	for i, list := range lists {
		if len(list) == 0 {
			return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list for partition %d.", i)
		}
		if len(list) != len(lists[0]) {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
				len(list), len(lists[0]))
		}
		for _, id := range list {
			if slices.Contains(out[i], catalog.BrokerID(id)) {
				return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
			}
			out[i] = append(out[i], catalog.BrokerID(id))
		}
	}
	return func(brokers []catalog.Broker) ([][]catalog.BrokerID, error) {
		for n, list := range out {
			live := false
			for _, id := range list {
				i := slices.IndexFunc(brokers, func(b catalog.Broker) bool { return b.ID == id })
				if i < 0 {
					return nil, refuse(kerr.InvalidReplicaAssignment,
						"The manual partition assignment includes broker %d, but no such broker is registered, or it leaves the cluster.", id)
				}
				live = live || brokers[i].Live
			}
			if !live {
				return nil, refuse(kerr.InvalidReplicaAssignment,
					"All brokers specified in the manual partition assignment for partition %d are fenced.", n)
			}
		}
		return out, nil
	}, nil
}
