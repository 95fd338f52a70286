package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"tidemark/catalog"
)

// Encode writes a head as it lies in the bucket.
func (c *Checkpoint) Encode() []byte {
	e := newEncoder()
	e.add(line{Head: &headLine{
		Cluster: c.Cluster.Hex(), Generation: c.Generation, Number: c.Number, At: c.At.UnixMilli(),
		Version: int64(c.Position.Version), Nonce: c.Position.Nonce, FullNumber: c.FullNumber, FullAt: c.FullAt.UnixMilli(),
		FullRows: c.FullRows, Watermark: c.Watermark, OffsetsCut: c.OffsetsCut, Content: c.Content, Parts: c.Parts,
	}})
	c.lines(e.add)
	return e.finish()
}

// lines gives all lines of a head but the first, in a fixed order.
func (c *Checkpoint) lines(add func(line)) {
	for _, b := range c.Brokers {
		add(line{Broker: &brokerLine{b.ID, b.Incarnation, b.Rack}})
	}
	for _, t := range c.Topics {
		tl := lineOfTopic(t)
		add(line{Topic: &tl})
		for _, p := range t.Partitions {
			pl := lineOfPartition(p)
			add(line{Partition: &pl})
		}
	}
	for _, d := range c.Deleted {
		add(line{Deleted: &deletedLine{d.Topic.Hex(), d.At.UnixMilli()}})
	}
	for _, o := range c.Offsets {
		ol := lineOfOffset(o)
		add(line{Offset: &ol})
	}
}

// digest is Content: of the lines, and of the rows that are newer than the full checkpoint.
func (c *Checkpoint) digest(rows []catalog.Segment) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	add := func(l line) { _ = enc.Encode(l) } // a hash takes everything
	c.lines(add)
	for _, r := range rows {
		rl := lineOfRow(r)
		add(line{Row: &rl})
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Decode reads a head. Errors: ErrFormat, ErrVersion.
func Decode(raw []byte) (*Checkpoint, error) {
	c := &Checkpoint{}
	begun := false
	err := decode(raw, func(l line) error {
		if (l.Head == nil) == !begun {
			return fmt.Errorf("%w: its first line, and no other, says which checkpoint it is", ErrFormat)
		}
		begun = true
		return c.take(l)
	})
	if err == nil && !begun {
		err = fmt.Errorf("%w: empty", ErrFormat)
	}
	return c, err
}

func (c *Checkpoint) take(l line) error {
	var err error
	switch {
	case l.Head != nil:
		h := l.Head
		c.Cluster, err = catalog.ParseUUID(h.Cluster)
		c.Generation, c.Number, c.At = h.Generation, h.Number, time.UnixMilli(h.At)
		c.Position = catalog.Position{Version: catalog.Version(h.Version), Nonce: h.Nonce}
		c.FullNumber, c.FullAt, c.FullRows, c.Watermark = h.FullNumber, time.UnixMilli(h.FullAt), h.FullRows, h.Watermark
		c.OffsetsCut, c.Content, c.Parts = h.OffsetsCut, h.Content, h.Parts
	case l.Broker != nil:
		c.Brokers = append(c.Brokers, catalog.Broker{ID: l.Broker.ID, Incarnation: l.Broker.Incarnation, Rack: l.Broker.Rack})
	case l.Topic != nil:
		t := Topic{Topic: catalog.Topic{Name: l.Topic.Name, Configs: l.Topic.Configs}}
		t.ID, err = catalog.ParseUUID(l.Topic.ID)
		c.Topics = append(c.Topics, t)
	case l.Partition != nil:
		if len(c.Topics) == 0 || int(l.Partition.Partition) != len(c.Topics[len(c.Topics)-1].Partitions) {
			return fmt.Errorf("%w: partition %d is out of order", ErrFormat, l.Partition.Partition)
		}
		t := &c.Topics[len(c.Topics)-1]
		t.Partitions = append(t.Partitions, l.Partition.partition(t.ID))
	case l.Deleted != nil:
		d := Deleted{At: time.UnixMilli(l.Deleted.At)}
		d.Topic, err = catalog.ParseUUID(l.Deleted.Topic)
		c.Deleted = append(c.Deleted, d)
	case l.Offset != nil:
		var o catalog.CommittedOffset
		o, err = l.Offset.offset()
		c.Offsets = append(c.Offsets, o)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

// encodeRows writes a part.
func encodeRows(rows []catalog.Segment) []byte {
	e := newEncoder()
	for _, r := range rows {
		rl := lineOfRow(r)
		e.add(line{Row: &rl})
	}
	return e.finish()
}

// decodeRows reads a part.
func decodeRows(raw []byte, cluster catalog.UUID, each func(catalog.Segment)) error {
	return decode(raw, func(l line) error {
		if l.Row == nil {
			return fmt.Errorf("%w: a line of a part is no row", ErrFormat)
		}
		r, err := l.Row.row(cluster)
		if err != nil {
			return err
		}
		each(r)
		return nil
	})
}
