package fetcher

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/record"
)

// fetchVersion names topics by id and carries ReplicaState.
const fetchVersion = 17

// session is an incremental fetch session as its client sees it (KIP-227): the leader remembers what it was asked,
// and only changes are sent.
type session struct {
	id    int32
	epoch int32
	sent  map[catalog.PartitionID]asked
}

// asked is what the leader was last told of a partition.
type asked struct {
	offset record.Offset
	epoch  record.Epoch
}

func newSession() session { return session{sent: map[catalog.PartitionID]asked{}} }

// answered takes over what an answer says of the session; 0 means that the leader keeps none.
func (s *session) answered(id int32) {
	if id == 0 {
		*s = newSession()
		return
	}
	s.id = id
	if s.epoch++; s.epoch <= 0 {
		s.epoch = 1
	}
}

// isNew: the leader knows nothing of it yet.
func (s *session) isNew() bool { return s.epoch == 0 }

// holds reports whether the leader was told to fetch the partition.
func (s *session) holds(id catalog.PartitionID) bool {
	_, ok := s.sent[id]
	return ok
}

// request builds a fetch after which the leader's session holds those of changed that are wanted, as they are now, and not
// the others. Each partition comes once; in a new session that are all that are wanted. The local start may have moved
// since: leaders do not go by it, so that alone is not told.
func (s *session) request(o Options, changed iter.Seq[*part]) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(fetchVersion)
	r.ReplicaState.ID, r.ReplicaState.Epoch = int32(o.Self.Broker), int64(o.Self.Incarnation)
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = int32(o.MaxWait.Milliseconds()), 1, int32(o.MaxBytes)
	r.SessionID, r.SessionEpoch = s.id, s.epoch
	named, forgotten := map[catalog.TopicID]int{}, map[catalog.TopicID]int{}
	for p := range changed {
		// An empty log of epoch 0 is asked for as the zero value: that it was told has to be looked up.
		told, ok := s.sent[p.ID]
		if !p.wanted {
			if ok {
				delete(s.sent, p.ID)
				forget(r, forgotten, p.ID)
			}
			continue
		}
		l, _ := p.Replica.Log()
		a := asked{l.End, p.Epoch}
		if ok && told == a {
			continue
		}
		s.sent[p.ID] = a
		i, ok := named[p.ID.Topic]
		if !ok {
			i = len(r.Topics)
			named[p.ID.Topic] = i
			t := kmsg.NewFetchRequestTopic()
			t.TopicID = p.ID.Topic
			r.Topics = append(r.Topics, t)
		}
		q := kmsg.NewFetchRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch = p.ID.Partition, int32(p.Epoch)
		q.FetchOffset, q.LogStartOffset, q.PartitionMaxBytes = int64(l.End), int64(l.Start), int32(o.PartitionBytes)
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, q)
	}
	return r
}

// forget names a partition that is in the session and not wanted any more; at is where topics are in the list.
func forget(r *kmsg.FetchRequest, at map[catalog.TopicID]int, id catalog.PartitionID) {
	i, ok := at[id.Topic]
	if !ok {
		i = len(r.ForgottenTopics)
		at[id.Topic] = i
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID = id.Topic
		r.ForgottenTopics = append(r.ForgottenTopics, t)
	}
	r.ForgottenTopics[i].Partitions = append(r.ForgottenTopics[i].Partitions, id.Partition)
}
