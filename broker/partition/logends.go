package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

// AnyReplica is the replica id of a ListOffsets that any replica answers, by its own log (Kafka's debugging consumer):
// its latest offset is the log's end, with the epoch that wrote the last record.
const AnyReplica = -2

const (
	// logEndTime bounds what replicas are given to tell how far their logs reach.
	logEndTime = 1500 * time.Millisecond
	// logEndBatch is how many partitions one request asks about.
	logEndBatch = 5000
)

// LogEnd is how far the log on this disk reaches, whoever leads. Errors: hotlog.ErrFailed.
func (p *Partition) LogEnd() (replication.LogEnd, error) {
	if err := p.log.Failed(); err != nil {
		return replication.LogEnd{}, err
	}
	end := p.log.Bounds().End
	return replication.LogEnd{Epoch: p.log.Epochs().EpochAt(end - 1), End: end}, nil
}

// LogEndAsk is a partition and the replicas that are asked about it.
type LogEndAsk struct {
	ID       catalog.PartitionID
	Topic    string
	Replicas []catalog.BrokerID
}

// LogEnds asks replicas how far their logs reach, all at once and within logEndTime. Who does not answer in time, or
// cannot say, is not in the answer.
func (s *Set) LogEnds(ctx context.Context, ask []LogEndAsk) map[catalog.PartitionID]replication.Logs {
	ctx, cancel := context.WithTimeout(ctx, logEndTime)
	defer cancel()
	found := logsFound{by: make(map[catalog.PartitionID]replication.Logs, len(ask))}
	to := map[catalog.BrokerID][]LogEndAsk{}
	for _, a := range ask {
		for _, b := range a.Replicas {
			to[b] = append(to[b], a)
		}
	}
	var g errgroup.Group
	for b, asked := range to {
		if b == s.opts.Broker {
			s.ownEnds(asked, &found)
			continue
		}
		g.Go(func() error {
			if err := s.askEnds(ctx, b, asked, &found); err != nil {
				s.opts.Log.Warn("a replica does not tell how far its logs reach; it comes last in this election", "broker", b, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait() // each is logged by itself
	return found.by
}

// logsFound gathers answers.
type logsFound struct {
	mu sync.Mutex // guards by; a leaf
	by map[catalog.PartitionID]replication.Logs
}

func (f *logsFound) add(id catalog.PartitionID, b catalog.BrokerID, l replication.LogEnd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by[id] == nil {
		f.by[id] = replication.Logs{}
	}
	f.by[id][b] = l
}

func (s *Set) ownEnds(asked []LogEndAsk, found *logsFound) {
	for _, a := range asked {
		if p, err := s.Get(a.ID); err == nil {
			if l, err := p.LogEnd(); err == nil {
				found.add(a.ID, s.opts.Broker, l)
			}
		}
	}
}

func (s *Set) askEnds(ctx context.Context, b catalog.BrokerID, asked []LogEndAsk, found *logsFound) error {
	s.mu.RLock()
	addr := s.peers[b]
	s.mu.RUnlock()
	if addr == "" {
		return errors.New("it advertises no listener for brokers")
	}
	c, err := s.pool.Connect(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for len(asked) > 0 {
		n := min(len(asked), logEndBatch)
		if err := askEndsOnce(ctx, c, b, asked[:n], found); err != nil {
			return err
		}
		asked = asked[n:]
	}
	return nil
}

// logEndConn is a connection to a broker; a fetcher.Conn.
type logEndConn interface {
	// Do sends req and reads its answer into resp, within timeout and until ctx ends.
	Do(ctx context.Context, req kmsg.Request, resp kmsg.Response, timeout time.Duration) error
}

func askEndsOnce(ctx context.Context, c logEndConn, b catalog.BrokerID, asked []LogEndAsk, found *logsFound) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(5)
	req.ReplicaID = AnyReplica
	ids := make(map[nameKey]catalog.PartitionID, len(asked))
	at := map[string]int{}
	for _, a := range asked {
		i, ok := at[a.Topic]
		if !ok {
			i = len(req.Topics)
			at[a.Topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = a.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = a.ID.Partition, -1, -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
		ids[nameKey{a.Topic, a.ID.Partition}] = a.ID
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	if err := c.Do(ctx, req, resp, logEndTime); err != nil {
		return err
	}
	var refused error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			id, ok := ids[nameKey{t.Topic, p.Partition}]
			switch {
			case !ok:
			case p.ErrorCode != 0:
				refused = fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			default:
				found.add(id, b, replication.LogEnd{Epoch: record.Epoch(p.LeaderEpoch), End: record.Offset(p.Offset)})
			}
		}
	}
	return refused
}
