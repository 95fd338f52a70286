package relational

import (
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
)

const segmentColumns = `id, topic::text, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key,
	tail_position, data_bytes, sha256, leader_epoch, generation, clean_since, attempt`

func scanSegment(r Row, s *catalog.Segment) error {
	var topic string
	var sum []byte
	err := r.Scan((*int64)(&s.ID), &topic, &s.Partition.Partition, (*int64)(&s.Base), (*int64)(&s.Next), &s.Bytes, &s.Records,
		&s.MinTimestamp, &s.MaxTimestamp, &s.MaxTimestampUpto, &s.AppendTime, &s.Key, &s.TailPosition, &s.DataBytes, &sum,
		(*int32)(&s.LeaderEpoch), &s.Generation, &s.CleanSince, &s.Attempt)
	if err != nil {
		return err
	}
	if len(sum) != len(s.SHA256) {
		return fmt.Errorf("segment %d has a SHA-256 of %d bytes", s.ID, len(sum))
	}
	copy(s.SHA256[:], sum)
	s.Partition.Topic, err = topicID(topic)
	return err
}

func appendSegments(into *[]catalog.Segment) func(Row) error {
	*into = nil
	return func(r Row) error {
		var s catalog.Segment
		err := scanSegment(r, &s)
		*into = append(*into, s)
		return err
	}
}

// probe reads at most one row.
func (s *Store) probe(ctx context.Context, st Stmt) (seg catalog.Segment, found bool, err error) {
	st.Row = func(r Row) error {
		found = true
		return scanSegment(r, &seg)
	}
	err = s.db.Read(ctx, st)
	return seg, found, err
}

const ofPartition = ` FROM segments WHERE topic = $1::uuid AND partition = $2`

// The statements of the lookups; tests look at how the databases carry them out.
const (
	// SegmentAtSQL is one probe of the index by base.
	SegmentAtSQL = `SELECT ` + segmentColumns + ofPartition + ` AND base <= $3 ORDER BY base DESC LIMIT 1`
	// SegmentAtTimeSQL is one probe of the index by max_ts_upto.
	SegmentAtTimeSQL = `SELECT ` + segmentColumns + ofPartition + ` AND max_ts_upto >= $3 ORDER BY max_ts_upto, base LIMIT 1`
	// NextAtTimeSQL reads at most $5 rows in the order of base.
	NextAtTimeSQL = `SELECT ` + segmentColumns + ` FROM (SELECT *` + ofPartition + ` AND base >= $3 ORDER BY base LIMIT $5) AS s
		WHERE max_ts >= $4 ORDER BY base LIMIT 1`
	// LatestInTimeSQL is one probe of the index by max_ts.
	LatestInTimeSQL = `SELECT ` + segmentColumns + ofPartition + ` ORDER BY max_ts DESC, base LIMIT 1`
)

func missing(found bool, err error, format string, args ...any) error {
	if err != nil || found {
		return err
	}
	return fmt.Errorf("%w: "+format, append([]any{catalog.ErrNotFound}, args...)...)
}

// SegmentAt finds the row that covers an offset.
func (s *Store) SegmentAt(ctx context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error) {
	seg, found, err := s.probe(ctx, Stmt{SQL: SegmentAtSQL, Args: []any{p.Topic.Hex(), p.Partition, int64(o)}})
	if found && seg.Next <= o {
		seg, found = catalog.Segment{}, false
	}
	return seg, missing(found, err, "no segment of %s covers offset %d", p, o)
}

// SegmentAtTime finds the first row up to which a timestamp is reached.
func (s *Store) SegmentAtTime(ctx context.Context, p catalog.PartitionID, ts int64) (catalog.Segment, error) {
	seg, found, err := s.probe(ctx, Stmt{SQL: SegmentAtTimeSQL, Args: []any{p.Topic.Hex(), p.Partition, ts}})
	return seg, missing(found, err, "no segment of %s reaches timestamp %d", p, ts)
}

const (
	firstWindow = 256
	maxWindow   = 16384
)

// NextAtTime walks from a base in windows: usually the first rows have a timestamp that is late
// enough, and no statement reads more than its window. Before it walks far, one probe tells whether any
// row is late enough.
func (s *Store) NextAtTime(ctx context.Context, p catalog.PartitionID, from record.Offset, ts int64) (catalog.Segment, error) {
	for window := firstWindow; ; window = min(4*window, maxWindow) {
		where := []any{p.Topic.Hex(), p.Partition, int64(from)}
		seg, found, err := s.probe(ctx, Stmt{SQL: NextAtTimeSQL, Args: append(where, ts, window)})
		if err != nil || found {
			return seg, err
		}
		if window == firstWindow {
			latest, err := s.LatestInTime(ctx, p)
			if err != nil || latest.MaxTimestamp < ts {
				return seg, missing(false, err, "no segment of %s reaches timestamp %d", p, ts)
			}
		}
		more := false
		err = s.db.Read(ctx, Stmt{
			SQL:  `SELECT base` + ofPartition + ` AND base >= $3 ORDER BY base LIMIT 1 OFFSET $4`,
			Args: append(where, window),
			Row: func(r Row) error {
				more = true
				return r.Scan((*int64)(&from))
			},
		})
		if err != nil || !more {
			return seg, missing(false, err, "no segment of %s from %d on reaches timestamp %d", p, from, ts)
		}
	}
}

// LatestInTime finds the row with the largest timestamp.
func (s *Store) LatestInTime(ctx context.Context, p catalog.PartitionID) (catalog.Segment, error) {
	seg, found, err := s.probe(ctx, Stmt{SQL: LatestInTimeSQL, Args: []any{p.Topic.Hex(), p.Partition}})
	return seg, missing(found, err, "%s has no segments", p)
}

// ListSegments lists rows in offset order.
func (s *Store) ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error) {
	var out []catalog.Segment
	err := s.db.Read(ctx, Stmt{
		SQL: `SELECT ` + segmentColumns + ofPartition + ` AND next > $3
			AND base >= coalesce((SELECT base` + ofPartition + ` AND base <= $3 ORDER BY base DESC LIMIT 1), $3)
			ORDER BY base LIMIT $4`,
		Args: []any{p.Topic.Hex(), p.Partition, int64(from), limit},
		Row:  appendSegments(&out),
	})
	return out, err
}

// lastUpto reads max_ts_upto of the last row below a base, record.NoTimestamp if there is none.
func lastUpto(p catalog.PartitionID, below record.Offset, into *int64) Stmt {
	*into = record.NoTimestamp
	return Stmt{
		SQL:  `SELECT max_ts_upto` + ofPartition + ` AND base < $3 ORDER BY base DESC LIMIT 1`,
		Args: []any{p.Topic.Hex(), p.Partition, int64(below)},
		Row:  func(r Row) error { return r.Scan(into) },
	}
}

func insertSegment(s catalog.Segment) Stmt {
	return Stmt{
		SQL: `INSERT INTO segments (topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key,
				tail_position, data_bytes, sha256, leader_epoch, generation, clean_since, attempt)
			VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		Args: []any{s.Partition.Topic.Hex(), s.Partition.Partition, int64(s.Base), int64(s.Next), s.Bytes, s.Records,
			s.MinTimestamp, s.MaxTimestamp, s.MaxTimestampUpto, s.AppendTime, s.Key, s.TailPosition, s.DataBytes, s.SHA256[:],
			int32(s.LeaderEpoch), s.Generation, s.CleanSince, s.Attempt},
	}
}
