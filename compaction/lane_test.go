package compaction

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

// A partition that only deletes is looked at rarely; when its topic is to be compacted it is looked at now, whether
// the change meets it in the queue or in a worker's hands. A publish alone does not hasten it.
func TestAChangeOfPolicyDoesNotWaitForThePauseOfTheOneBefore(t *testing.T) {
	const pause = 5 * time.Minute
	compact := Policy{Compact: true}
	for _, row := range []struct {
		name         string
		held, queued func(q *queue, p catalog.PartitionID)
		after        time.Duration
		policy       Policy
	}{
		{name: "nothing", after: pause},
		{name: "a publish", queued: func(q *queue, p catalog.PartitionID) { q.wake(p) }, after: pause},
		{name: "a publish while a worker has it", held: func(q *queue, p catalog.PartitionID) { q.wake(p) }, after: pause},
		{name: "a policy", queued: func(q *queue, p catalog.PartitionID) { q.set(p, compact) }, policy: compact},
		{name: "a policy while a worker has it", held: func(q *queue, p catalog.PartitionID) { q.set(p, compact) }, policy: compact},
		{name: "the same policy", queued: func(q *queue, p catalog.PartitionID) { q.set(p, Policy{}) }, after: pause},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, p := newQueue(), catalog.PartitionID{Partition: 3}
				q.set(p, Policy{})
				l, _ := q.take(t.Context())
				require.NotNil(t, l)
				if row.held != nil {
					row.held(q, p)
				}
				begin := time.Now()
				q.give(l, begin.Add(pause), begin.Add(pause))
				if row.queued != nil {
					row.queued(q, p)
				}
				_, policy := q.take(t.Context())
				require.Equal(t, row.after, time.Since(begin))
				require.Equal(t, row.policy, policy)
			})
		})
	}
}
