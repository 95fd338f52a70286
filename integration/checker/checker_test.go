package checker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/broker/admin"
	"tidemark/record"
)

func at(offset int64, value string) *kgo.Record {
	return &kgo.Record{Topic: "t", Offset: offset, Value: []byte(value)}
}

// What was read of a partition in which a, b and c were acknowledged at 0, 1 and 2, and d was sent without an answer.
func TestWhatTheCheckerSees(t *testing.T) {
	rows := []struct {
		story      string
		start, end int64
		read       []*kgo.Record
		fault      string // "" for none
	}{
		{"all is well", 0, 3, []*kgo.Record{at(0, "a"), at(1, "b"), at(2, "c")}, ""},
		{"d came in after all", 0, 4, []*kgo.Record{at(0, "a"), at(1, "b"), at(2, "c"), at(3, "d")}, ""},
		{"start has passed a", 1, 3, []*kgo.Record{at(1, "b"), at(2, "c")}, ""},
		{"b is missing", 0, 3, []*kgo.Record{at(0, "a"), at(2, "c")}, "offset 2 comes where 1 is due"},
		{"c is missing at the end", 0, 3, []*kgo.Record{at(0, "a"), at(1, "b")}, "reading ended at 2"},
		{"the log is too short", 0, 2, []*kgo.Record{at(0, "a"), at(1, "b")}, "offset 2 was acknowledged, the high watermark is 2"},
		{"c stands where b was", 0, 2, []*kgo.Record{at(0, "a"), at(1, "c")}, "another record was acknowledged"},
		{"d is there twice", 0, 5, []*kgo.Record{at(0, "a"), at(1, "b"), at(2, "c"), at(3, "d"), at(4, "d")}, "stands at t/0@3 too"},
		{"nobody sent x", 0, 4, []*kgo.Record{at(0, "a"), at(1, "b"), at(2, "c"), at(3, "x")}, "nobody sent"},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			l := NewLog()
			for i, value := range []string{"a", "b", "c", "d"} {
				l.Sent(at(-1, value))
				if value != "d" {
					l.Acked(at(int64(i), value))
				}
			}
			var f faults
			l.judge(&f, Partition{"t", 0}, row.start, row.end, row.read, map[uint64]string{})
			if row.fault == "" {
				require.NoError(t, f.err())
				return
			}
			require.ErrorContains(t, f.err(), row.fault)
		})
	}
}

func TestOneOffsetForTwoRecords(t *testing.T) {
	l := NewLog()
	l.Acked(at(7, "a"))
	l.Acked(at(7, "b"))
	require.Equal(t, []string{"t/0: offset 7 was given to two records"}, l.twice)
}

func TestRangesOfObjects(t *testing.T) {
	object := func(base, next record.Offset) admin.Segment { return admin.Segment{Base: base, Next: next} }
	rows := []struct {
		story         string
		start, tiered record.Offset
		objects       []admin.Segment
		fault         string
	}{
		{"contiguous", 0, 20, []admin.Segment{object(0, 10), object(10, 20)}, ""},
		{"start inside the first", 5, 20, []admin.Segment{object(0, 10), object(10, 20)}, ""},
		{"nothing yet", 0, 0, nil, ""},
		{"a hole", 0, 20, []admin.Segment{object(0, 10), object(11, 20)}, "begins at 11"},
		{"an overlap", 0, 20, []admin.Segment{object(0, 10), object(9, 20)}, "begins at 9"},
		{"the first is missing", 0, 20, []admin.Segment{object(10, 20)}, "start is 0"},
		{"the last is missing", 0, 20, []admin.Segment{object(0, 10)}, "tiered is 20"},
		{"all are missing", 0, 20, nil, "no objects"},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			var f faults
			contiguous(&f, "t", admin.Partition{Here: true, Start: row.start, Tiered: row.tiered}, row.objects)
			if row.fault == "" {
				require.NoError(t, f.err())
				return
			}
			require.ErrorContains(t, f.err(), row.fault)
		})
	}
}
