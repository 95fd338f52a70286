package partition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// A4, D1: an object that ends inside a local segment, as replicas roll at different places, counts once with it. What is
// within retention.bytes stays.
func TestD1_ASegmentOfWhichTheTierHasAPartCountsOnce(t *testing.T) {
	value := strings.Repeat("x", 10_000)
	size := len(batch(value))
	w := newWorld(t, 2)
	w.create(map[string]string{"retention.bytes": fmt.Sprint(4 * size)})
	one, two := w.nodes[1], w.nodes[2]
	one.write(value)
	one.part().Roll()
	w.tiered(1)
	one.write(value, value, value)
	w.settled()
	w.elect(2, 1, 2) // its one segment is [0, 4), the object [0, 1)
	require.NoError(t, two.part().Expire(t.Context()))
	require.Zero(t, w.row().Start, "an object and three batches are less than four batches without the object")
	require.Equal(t, fmt.Sprintf("[0, 1) goes next; by retention.bytes=%d when %d more bytes are in the partition", 4*size, size),
		two.part().Describe().Retention)
}

// What `tier status` says of retention follows the start, whoever moved it.
func TestTheOutlookFollowsTheStart(t *testing.T) {
	value := strings.Repeat("x", 10_000)
	limit := int64(2 * len(batch(value)))
	w := newWorld(t, 2)
	w.create(map[string]string{"retention.bytes": fmt.Sprint(limit)})
	one := w.nodes[1]
	for i := range 3 {
		one.write(value)
		one.part().Roll()
		w.tiered(record.Offset(i + 1))
	}
	w.until(func() bool { return w.row().Start == 1 }, "the oldest of three objects goes")
	object := w.row().TierBytes / 2
	says := func(want string, more int64) {
		t.Helper()
		want = fmt.Sprintf("%s goes next; by retention.bytes=%d when %d more bytes are in the partition", want, limit, more)
		w.until(func() bool { return one.part().Describe().Retention == want }, "%s", want)
	}
	says("[1, 2)", limit-object)
	one.write("y")
	says("[1, 2)", limit-object-int64(len(batch("y"))))
	_, err := one.part().DeleteRecords(t.Context(), 2)
	require.NoError(t, err)
	says("[2, 3)", limit-int64(len(batch("y"))))
	require.Empty(t, w.nodes[2].part().Describe().Retention, "who does not lead does not know")
}
