package checkpoint

import (
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/object"
)

// headLine is the first line of a head.
type headLine struct {
	Cluster    string            `json:"cluster"`
	Generation int64             `json:"generation"`
	Number     int64             `json:"number"`
	At         int64             `json:"at"`
	Version    int64             `json:"version"`
	Nonce      int64             `json:"nonce"`
	FullNumber int64             `json:"fullNumber"`
	FullAt     int64             `json:"fullAt"`
	FullRows   int64             `json:"fullRows"`
	Watermark  catalog.SegmentID `json:"watermark"`
	OffsetsCut bool              `json:"offsetsCut,omitempty"`
	Content    string            `json:"content"`
	Parts      []Part            `json:"parts"`
}

type brokerLine struct {
	ID          catalog.BrokerID    `json:"id"`
	Incarnation catalog.Incarnation `json:"incarnation"`
	Rack        string              `json:"rack,omitempty"`
}

type topicLine struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Configs map[string]string `json:"configs,omitempty"`
}

// partitionLine follows its topic's line.
type partitionLine struct {
	Partition int32              `json:"partition"`
	Start     record.Offset      `json:"start"`
	Tiered    record.Offset      `json:"tiered"`
	TierBytes int64              `json:"tierBytes"`
	Epoch     record.Epoch       `json:"leaderEpoch"`
	ISR       []memberLine       `json:"isr"`
	Replicas  []catalog.BrokerID `json:"replicas"`
}

type memberLine struct {
	Broker      catalog.BrokerID    `json:"broker"`
	Incarnation catalog.Incarnation `json:"incarnation"`
}

type deletedLine struct {
	Topic string `json:"topic"`
	At    int64  `json:"at"`
}

type offsetLine struct {
	Group     string        `json:"group"`
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    record.Offset `json:"offset"`
	Epoch     record.Epoch  `json:"leaderEpoch"`
	Metadata  string        `json:"metadata,omitempty"`
	At        int64         `json:"at"`
}

// rowLine is a live row. Its key follows from the rest.
type rowLine struct {
	Topic      string        `json:"topic"`
	Partition  int32         `json:"partition"`
	Base       record.Offset `json:"base"`
	Next       record.Offset `json:"next"`
	Bytes      int64         `json:"bytes"`
	Records    int64         `json:"records"`
	MinTime    int64         `json:"minTimestamp"`
	MaxTime    int64         `json:"maxTimestamp"`
	AppendTime int64         `json:"appendTime"`
	Tail       int64         `json:"tailPosition"`
	Data       int64         `json:"dataBytes"`
	SHA256     []byte        `json:"sha256"`
	Epoch      record.Epoch  `json:"leaderEpoch"`
	Generation int32         `json:"generation"`
	CleanSince int64         `json:"cleanSince"`
	Attempt    string        `json:"attempt"`
}

func lineOfTopic(t Topic) topicLine {
	return topicLine{ID: t.ID.Hex(), Name: t.Name, Configs: t.Configs}
}

func lineOfPartition(p catalog.Partition) partitionLine {
	l := partitionLine{Partition: p.ID.Partition, Start: p.Start, Tiered: p.Tiered, TierBytes: p.TierBytes, Epoch: p.LeaderEpoch, Replicas: p.Replicas}
	for _, m := range p.ISR {
		l.ISR = append(l.ISR, memberLine(m))
	}
	return l
}

func (l partitionLine) partition(topic catalog.TopicID) catalog.Partition {
	p := catalog.Partition{
		ID: catalog.PartitionID{Topic: topic, Partition: l.Partition}, Leader: catalog.NoBroker, LeaderEpoch: l.Epoch, Replicas: l.Replicas,
		Bounds: catalog.Bounds{Start: l.Start, Tiered: l.Tiered, TierBytes: l.TierBytes},
	}
	for _, m := range l.ISR {
		p.ISR = append(p.ISR, catalog.Member(m))
	}
	return p
}

func lineOfOffset(o catalog.CommittedOffset) offsetLine {
	return offsetLine{Group: o.Group, Topic: o.Partition.Topic.Hex(), Partition: o.Partition.Partition, Offset: o.Offset,
		Epoch: o.LeaderEpoch, Metadata: o.Metadata, At: o.CommitTime.UnixMilli()}
}

func (l offsetLine) offset() (catalog.CommittedOffset, error) {
	topic, err := catalog.ParseUUID(l.Topic)
	return catalog.CommittedOffset{Group: l.Group, Partition: catalog.PartitionID{Topic: topic, Partition: l.Partition}, Offset: l.Offset,
		LeaderEpoch: l.Epoch, Metadata: l.Metadata, CommitTime: time.UnixMilli(l.At)}, err
}

func lineOfRow(s catalog.Segment) rowLine {
	return rowLine{
		Topic: s.Partition.Topic.Hex(), Partition: s.Partition.Partition, Base: s.Base, Next: s.Next, Bytes: s.Bytes, Records: s.Records,
		MinTime: s.MinTimestamp, MaxTime: s.MaxTimestamp, AppendTime: s.AppendTime, Tail: s.TailPosition, Data: s.DataBytes,
		SHA256: s.SHA256[:], Epoch: s.LeaderEpoch, Generation: s.Generation, CleanSince: s.CleanSince, Attempt: s.Attempt,
	}
}

func (l rowLine) row(cluster catalog.UUID) (catalog.Segment, error) {
	topic, err := catalog.ParseUUID(l.Topic)
	if err != nil || len(l.SHA256) != 32 || l.Base < 0 || l.Next <= l.Base || l.Bytes <= 0 || l.Partition < 0 {
		return catalog.Segment{}, fmt.Errorf("%w: row of %q, partition %d, [%d,%d)", ErrFormat, l.Topic, l.Partition, l.Base, l.Next)
	}
	return catalog.Segment{
		Partition: catalog.PartitionID{Topic: topic, Partition: l.Partition}, Base: l.Base, Next: l.Next, Bytes: l.Bytes, Records: l.Records,
		MinTimestamp: l.MinTime, MaxTimestamp: l.MaxTime, AppendTime: l.AppendTime, TailPosition: l.Tail, DataBytes: l.Data,
		Key:    object.Key(object.ID(cluster), object.ID(topic), l.Partition, l.Base, l.Attempt),
		SHA256: [32]byte(l.SHA256), LeaderEpoch: l.Epoch, Generation: l.Generation, CleanSince: l.CleanSince, Attempt: l.Attempt,
	}, nil
}
