package rebuild

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
)

// found is an object as a listing shows it.
type found struct {
	key      string
	size     int64
	base     record.Offset
	modified time.Time
}

// inventory is the cluster's objects by partition, each in the order of their keys: by base.
type inventory struct {
	parts  map[catalog.PartitionID][]found
	newest map[catalog.TopicID]time.Time
	oldest map[catalog.TopicID]time.Time
	count  int64
}

// list lists the cluster's objects.
func (r *rebuilding) list(ctx context.Context) error {
	r.bucket = inventory{parts: map[catalog.PartitionID][]found{}, newest: map[catalog.TopicID]time.Time{}, oldest: map[catalog.TopicID]time.Time{}}
	prefix := "segments/" + r.report.Cluster.Hex() + "/"
	for after := ""; ; {
		const page = 1000
		call, cancel := r.call(ctx)
		infos, err := r.o.Store.List(call, prefix, after, page)
		cancel()
		if err != nil {
			return fmt.Errorf("list the bucket: %w", err)
		}
		for _, i := range infos {
			after = i.Key
			id, base, ok := parseKey(strings.TrimPrefix(i.Key, prefix))
			if !ok {
				r.undecided("%s is not named as an object of a partition", i.Key)
				continue
			}
			r.bucket.add(id, found{i.Key, i.Size, base, i.Modified})
		}
		if len(infos) < page {
			break
		}
	}
	r.say("The bucket holds %d objects of %d partitions.", r.bucket.count, len(r.bucket.parts))
	if r.bucket.count == 0 && r.saved == nil {
		return ErrNothing
	}
	return nil
}

func (v *inventory) add(id catalog.PartitionID, f found) {
	v.count++
	v.parts[id] = append(v.parts[id], f)
	if old, ok := v.oldest[id.Topic]; !ok || f.modified.Before(old) {
		v.oldest[id.Topic] = f.modified
	}
	if f.modified.After(v.newest[id.Topic]) {
		v.newest[id.Topic] = f.modified
	}
}

// partitions lists the partitions of a topic that have objects, by number.
func (v *inventory) partitions(topic catalog.TopicID) []catalog.PartitionID {
	var out []catalog.PartitionID
	for id := range v.parts {
		if id.Topic == topic {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b catalog.PartitionID) int { return int(a.Partition - b.Partition) })
	return out
}

// parseKey reads topic / partition / base / attempt.
func parseKey(rest string) (id catalog.PartitionID, base record.Offset, ok bool) {
	parts := strings.Split(rest, "/")
	if len(parts) != 4 {
		return id, 0, false
	}
	topic, err1 := catalog.ParseUUID(parts[0])
	number, err2 := strconv.ParseInt(parts[1], 10, 32)
	offset, err3 := strconv.ParseInt(parts[2], 10, 64)
	ok = err1 == nil && err2 == nil && err3 == nil && number >= 0 && offset >= 0
	return catalog.PartitionID{Topic: topic, Partition: int32(number)}, record.Offset(offset), ok
}

// candidate is an object that may become a row.
type candidate struct {
	node
	// row is whole for what the checkpoint lists; for others it lacks the SHA-256 until they are read.
	row       catalog.Segment
	modified  time.Time // of one that was found
	topicName string
	compacted bool
}

// footers reads the footers of objects; what is damaged is said and left out.
func (r *rebuilding) footers(ctx context.Context, objects []found) ([]candidate, error) {
	out := make([]candidate, len(objects))
	var mu sync.Mutex // guards the report
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.o.Workers)
	for i, o := range objects {
		g.Go(func() error {
			call, cancel := r.call(ctx)
			defer cancel()
			f, err := inspect.Footer(call, r.o.Store, o.key, o.size)
			if err != nil && !inspect.Damaged(err) {
				return fmt.Errorf("read %s: %w", o.key, err)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.undecided("an object is damaged and was left out: %v", err)
				return nil
			}
			_, digests := f.Block(object.BlockDigests)
			out[i] = candidate{
				node: node{base: f.Base, next: f.Next, epoch: f.LeaderEpoch, generation: f.Generation, attempt: f.Attempt},
				row:  inspect.Row(f, [32]byte{}), modified: o.modified, topicName: f.TopicName, compacted: digests,
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(c candidate) bool { return c.attempt == "" }), nil
}

// readWhole completes the rows of candidates that the checkpoint does not list. bad are those that turned
// out to be damaged.
func (r *rebuilding) readWhole(ctx context.Context, cs []candidate, way []int) (bad map[string]error, err error) {
	bad = map[string]error{}
	var mu sync.Mutex // guards bad
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.o.Workers)
	for _, i := range way {
		c := &cs[i]
		if c.listed || c.row.SHA256 != [32]byte{} {
			continue
		}
		g.Go(func() error {
			call, cancel := context.WithTimeout(ctx, r.o.ReadTimeout)
			defer cancel()
			row, _, err := inspect.Object(call, r.o.Store, c.row.Key)
			switch {
			case err == nil:
				c.row = row
			case inspect.Damaged(err):
				mu.Lock()
				defer mu.Unlock()
				bad[c.attempt] = err
			default:
				return fmt.Errorf("read %s: %w", c.row.Key, err)
			}
			return nil
		})
	}
	return bad, g.Wait()
}
