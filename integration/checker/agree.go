package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/broker/admin"
	"tidemark/tiering/objstore"
)

// Broker is what Agree asks a broker's HTTP API.
type Broker interface {
	// Topics lists the live topics.
	Topics() ([]admin.Topic, error)
	// Tier describes a topic's two tiers.
	Tier(topic string) (admin.TopicTier, error)
	// Segments lists a partition's objects in offset order.
	Segments(topic string, partition int32) ([]admin.Segment, error)
}

// Agree compares the segment objects of a bucket with what the catalog names, for all topics, and checks that ranges
// are contiguous from start to tiered. It says what differs now: wait with it until the grace has passed.
func Agree(ctx context.Context, b Broker, bucket objstore.Store) error {
	var f faults
	named, err := names(b, &f)
	if err != nil {
		return err
	}
	stored, err := Stored(ctx, bucket, "segments/")
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(named)) {
		size, there := stored[key]
		switch {
		case !there:
			f.add("the catalog names %s, the bucket has it not", key)
		case size < named[key]:
			f.add("%s has %d bytes in the bucket, %d in the catalog", key, size, named[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if _, there := named[key]; !there {
			f.add("the bucket has %s, the catalog does not name it", key)
		}
	}
	return f.err()
}

// names lists the keys of all live topics with the bytes that the catalog has for them, and checks their ranges.
func names(b Broker, f *faults) (map[string]int64, error) {
	topics, err := b.Topics()
	if err != nil {
		return nil, err
	}
	named := map[string]int64{}
	for _, t := range topics {
		tier, err := b.Tier(t.Name)
		if err != nil {
			return nil, err
		}
		for _, p := range tier.Partitions {
			segments, err := b.Segments(t.Name, p.Partition)
			if err != nil {
				return nil, err
			}
			contiguous(f, t.Name, p, segments)
			for _, s := range segments {
				named[s.Key] = s.Bytes
			}
		}
	}
	return named, nil
}

func contiguous(f *faults, topic string, p admin.Partition, segments []admin.Segment) {
	if len(segments) == 0 {
		if p.Here && p.Tiered > p.Start {
			f.add("%s/%d: no objects, but tiered %d is above start %d", topic, p.Partition, p.Tiered, p.Start)
		}
		return
	}
	if first := segments[0]; first.Base > p.Start && p.Here {
		f.add("%s/%d: the first object begins at %d, start is %d", topic, p.Partition, first.Base, p.Start)
	}
	for i, s := range segments {
		if s.Base >= s.Next {
			f.add("%s/%d: an object of [%d,%d)", topic, p.Partition, s.Base, s.Next)
		}
		if i > 0 && s.Base != segments[i-1].Next {
			f.add("%s/%d: an object begins at %d, the one before ends at %d", topic, p.Partition, s.Base, segments[i-1].Next)
		}
	}
	if last := segments[len(segments)-1].Next; p.Here && last != p.Tiered {
		f.add("%s/%d: the objects end at %d, tiered is %d", topic, p.Partition, last, p.Tiered)
	}
}

// Stored lists the sizes of all objects below a prefix.
func Stored(ctx context.Context, bucket objstore.Store, prefix string) (map[string]int64, error) {
	out := map[string]int64{}
	for after := ""; ; {
		page, err := bucket.List(ctx, prefix, after, 1000)
		if err != nil {
			return nil, fmt.Errorf("list the bucket: %w", err)
		}
		for _, o := range page {
			out[o.Key] = o.Size
			after = o.Key
		}
		if len(page) < 1000 {
			return out, nil
		}
	}
}
