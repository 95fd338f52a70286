package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/catalog"
	"tidemark/record"
)

// LogEnd is how far a replica's log reaches: the leader epoch that wrote its last record, and its end.
type LogEnd struct {
	Epoch record.Epoch
	End   record.Offset
}

// Compare orders log ends as an election that accepts loss does: by epoch, then by offset (DESIGN §6, KIP-966). The
// history that began last wins over the longer one: what an older one has beyond it was given up by an election.
func (l LogEnd) Compare(o LogEnd) int {
	return cmp.Or(cmp.Compare(l.Epoch, o.Epoch), cmp.Compare(l.End, o.End))
}

// Logs are the ends of one partition's logs, as far as replicas have told theirs.
type Logs map[catalog.BrokerID]LogEnd

// LogsDecide lists the replicas whose logs decide who leads p, because nobody of its in-sync and its eligible set is live
// and loss is accepted: two or more live ones. None where the logs decide nothing.
func LogsDecide(p catalog.Partition, bs Brokers, set Settings) []catalog.BrokerID {
	if _, loss, ok := Elect(p, bs, set, nil); !ok || loss == NoLoss {
		return nil
	}
	live := liveReplicas(p, bs)
	if len(live) < 2 {
		return nil
	}
	return live
}

func liveReplicas(p catalog.Partition, bs Brokers) []catalog.BrokerID {
	return slices.DeleteFunc(slices.Clone(p.Replicas), func(b catalog.BrokerID) bool { return !bs[b].Live })
}

// String is the logs by replica, for people.
func (ls Logs) String() string {
	var words []string
	for _, b := range slices.Sorted(maps.Keys(ls)) {
		words = append(words, fmt.Sprintf("%d: %d in epoch %d", b, ls[b].End, ls[b].Epoch))
	}
	return strings.Join(words, ", ")
}

// longest is the first of the replicas, in their order, whose log no other one's is beyond; who has told nothing comes
// last.
func (ls Logs) longest(replicas []catalog.BrokerID) catalog.BrokerID {
	best := replicas[0]
	for _, b := range replicas[1:] {
		l, told := ls[b]
		if have, ok := ls[best]; told && (!ok || l.Compare(have) > 0) {
			best = b
		}
	}
	return best
}
