package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
)

const (
	// patience is how long a request is sent again while brokers cannot serve it.
	patience = 2 * time.Minute
	// requestLimit bounds one request.
	requestLimit = 40 * time.Second
)

// Cluster asks the leaders of partitions, and asks again elsewhere when leadership moves. Safe for concurrent use.
type Cluster struct {
	client *kgo.Client
	admin  *kadm.Client

	mu     sync.Mutex // guards topics
	topics map[string]kadm.TopicDetail
}

// NewCluster uses client, which stays the caller's.
func NewCluster(client *kgo.Client) *Cluster {
	return &Cluster{client: client, admin: kadm.NewClient(client), topics: map[string]kadm.TopicDetail{}}
}

// detail is what is known of a topic. ErrNoTopic.
func (c *Cluster) detail(ctx context.Context, topic string) (kadm.TopicDetail, error) {
	c.mu.Lock()
	d, ok := c.topics[topic]
	c.mu.Unlock()
	if ok {
		return d, nil
	}
	all, err := c.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return d, err
	}
	d = all[topic]
	if errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
		return d, fmt.Errorf("%w: %s", ErrNoTopic, topic)
	}
	if d.Err != nil {
		return d, d.Err
	}
	c.mu.Lock()
	c.topics[topic] = d
	c.mu.Unlock()
	return d, nil
}

func (c *Cluster) forget(topic string) {
	c.mu.Lock()
	delete(c.topics, topic)
	c.mu.Unlock()
}

// describe looks a topic up.
func (c *Cluster) describe(ctx context.Context, topic string) (Topic, error) {
	d, err := c.detail(ctx, topic)
	if err != nil {
		return Topic{}, err
	}
	return Topic{Name: topic, ID: catalog.UUID(d.ID).String(), Partitions: int32(len(d.Partitions))}, nil
}

// question is a request to a partition's leader. An error of judge that says "again" is asked again.
type question struct {
	topic     string
	partition int32
	make      func(id [16]byte) kmsg.Request
	// judge reads the answer; its error is final unless kerr calls it retriable or it is errAgain.
	judge func(kmsg.Response) error
}

var errAgain = errors.New("the broker has no answer yet")

// ask sends a question until it is answered, is refused for good, or patience ends.
func (c *Cluster) ask(ctx context.Context, q question) error {
	limit := time.Now().Add(patience)
	for n := 0; ; n++ {
		err := c.once(ctx, q)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !again(err):
			return err
		case time.Now().After(limit):
			return fmt.Errorf("no broker serves partition %d of %s: %w", q.partition, q.topic, err)
		}
		c.forget(q.topic)
		if err := pause(ctx, min(time.Duration(n+1)*50*time.Millisecond, time.Second)); err != nil {
			return err
		}
	}
}

// again reports whether an error may pass by itself: that of a connection, or a retriable one of a broker.
func again(err error) bool {
	var code *kerr.Error
	switch {
	case errors.Is(err, errAgain):
		return true
	case errors.Is(err, ErrNoTopic), errors.Is(err, errRewind), errors.Is(err, ErrGone), errors.Is(err, kgo.ErrClientClosed):
		return false
	case errors.As(err, &code):
		return code.Retriable
	}
	return true
}

func (c *Cluster) once(ctx context.Context, q question) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	d, err := c.detail(ctx, q.topic)
	if err != nil {
		return err
	}
	p, ok := d.Partitions[q.partition]
	if !ok || p.Leader < 0 {
		return kerr.LeaderNotAvailable
	}
	resp, err := c.client.Broker(int(p.Leader)).Request(ctx, q.make(d.ID))
	if err != nil {
		return err
	}
	return q.judge(resp)
}

// offset asks for one offset by time or by one of ListOffsets' special times; false if there is none.
func (c *Cluster) offset(ctx context.Context, topic string, partition int32, at int64, committed bool) (o int64, ok bool, err error) {
	err = c.ask(ctx, question{topic: topic, partition: partition, make: func([16]byte) kmsg.Request {
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID = -1
		if committed {
			r.IsolationLevel = 1
		}
		t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, at, -1
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}, judge: func(resp kmsg.Response) error {
		r := resp.(*kmsg.ListOffsetsResponse)
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return errAgain
		}
		p := r.Topics[0].Partitions[0]
		o, ok = p.Offset, p.Offset >= 0
		return kerr.ErrorForCode(p.ErrorCode)
	}})
	return o, ok, err
}
