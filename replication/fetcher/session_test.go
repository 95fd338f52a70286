package fetcher

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/record"
)

// An empty log of epoch 0 asks for offset 0 of a log that begins at 0: all of it is zero, and still has to be said
// to a leader that was not told, or the replica waits for ever for records that nobody sends it.
func TestAnEmptyLogOfTheFirstEpochIsNamedInASessionThatRuns(t *testing.T) {
	first, second := emptyPart(catalog.NewUUID(), 0), emptyPart(catalog.NewUUID(), 0)
	s := newSession()
	ask := func(changed ...*part) string {
		r := s.request(Options{}, slices.Values(changed))
		s.answered(77)
		return describe(r)
	}
	require.Equal(t, "s0/0 0@0(e0)", ask(first))
	require.Equal(t, "s77/1", ask(first), "nothing has changed")
	require.Equal(t, "s77/2 0@0(e0)", ask(second), "a topic is created while the session runs")
	second.wanted = false
	require.Equal(t, "s77/3 -[0]", ask(second), "the second is put off")
	second.wanted = true
	require.Equal(t, "s77/4 0@0(e0)", ask(first, second), "and is due again")
}

// A leader that does not know a new topic yet refuses its partitions, and their pauses do not end at the same moment:
// each is asked for again all the same.
func TestPartitionsOfANewTopicThatAreRefusedAreAskedForAgainOneByOne(t *testing.T) {
	topic := catalog.NewUUID()
	a, b := emptyPart(topic, 0), emptyPart(topic, 3)
	s, leader := newSession(), map[int32]bool{}
	for i, due := range [][]*part{{a, b}, {a}, {b}, {a}, {a, b}} {
		a.wanted, b.wanted = slices.Contains(due, a), slices.Contains(due, b)
		takeOver(leader, s.request(Options{}, slices.Values([]*part{a, b})))
		s.answered(77)
		want := map[int32]bool{}
		for _, p := range due {
			want[p.ID.Partition] = true
		}
		require.Equal(t, want, leader, "what the leader's session holds after fetch %d", i)
	}
}

func emptyPart(topic catalog.TopicID, partition int32) *part {
	return &part{
		Assignment: Assignment{ID: catalog.PartitionID{Topic: topic, Partition: partition}, Epoch: record.Epoch(0), Replica: &fakeLog{}},
		phase:      fetching, wanted: true,
	}
}

// takeOver does with a leader's session what a request says.
func takeOver(session map[int32]bool, r *kmsg.FetchRequest) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			session[p.Partition] = true
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, p := range t.Partitions {
			delete(session, p)
		}
	}
}
