package fetcher

import (
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
	offset, start record.Offset
	epoch         record.Epoch
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

// request builds a fetch of exactly want: everything in a new session, else what changed.
func (s *session) request(o Options, want []*part) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(fetchVersion)
	r.ReplicaState.ID, r.ReplicaState.Epoch = int32(o.Self.Broker), int64(o.Self.Incarnation)
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = int32(o.MaxWait.Milliseconds()), 1, int32(o.MaxBytes)
	r.SessionID, r.SessionEpoch = s.id, s.epoch
	now := make(map[catalog.PartitionID]bool, len(want))
	at := map[catalog.TopicID]int{}
	for _, p := range want {
		now[p.ID] = true
		l, _ := p.Replica.Log()
		a := asked{l.End, l.Start, p.Epoch}
		// An empty log of epoch 0 is asked for as the zero value: that it was told has to be looked up.
		if told, ok := s.sent[p.ID]; ok && told == a && s.epoch != 0 {
			continue
		}
		s.sent[p.ID] = a
		i, ok := at[p.ID.Topic]
		if !ok {
			i = len(r.Topics)
			at[p.ID.Topic] = i
			t := kmsg.NewFetchRequestTopic()
			t.TopicID = p.ID.Topic
			r.Topics = append(r.Topics, t)
		}
		q := kmsg.NewFetchRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch = p.ID.Partition, int32(p.Epoch)
		q.FetchOffset, q.LogStartOffset, q.PartitionMaxBytes = int64(l.End), int64(l.Start), int32(o.PartitionBytes)
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, q)
	}
	s.forget(r, now)
	return r
}

// forget names what is in the session and not wanted any more.
func (s *session) forget(r *kmsg.FetchRequest, now map[catalog.PartitionID]bool) {
	at := map[catalog.TopicID]int{}
	for id := range s.sent {
		if now[id] {
			continue
		}
		delete(s.sent, id)
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
}
