package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
	"tidemark/replication"
)

// history builds an epoch history from (epoch, start) pairs.
func history(pairs ...int64) record.EpochHistory {
	var h record.EpochHistory
	for i := 0; i < len(pairs); i += 2 {
		h.Assign(record.Epoch(pairs[i]), record.Offset(pairs[i+1]))
	}
	return h
}

// truncate holds the whole conversation and returns the cut and the number of questions.
func truncate(t require.TestingT, follower record.EpochHistory, end record.Offset, leader record.EpochHistory, leaderEnd record.Offset) (record.Offset, int) {
	tr := replication.NewTruncation(follower, end)
	asked := 0
	for {
		epoch, more := tr.Ask()
		if !more {
			return tr.To(), asked
		}
		asked++
		require.Less(t, asked, 100)
		require.NoError(t, tr.Answer(leader.EndOffset(epoch, leaderEnd)))
	}
}

func TestTruncation(t *testing.T) {
	for name, c := range map[string]struct {
		follower  record.EpochHistory
		end       record.Offset
		leader    record.EpochHistory
		leaderEnd record.Offset
		to        record.Offset
	}{
		"nothing in the log":              {history(), 0, history(3, 0), 50, 0},
		"the same log":                    {history(1, 0), 50, history(1, 0), 50, 50},
		"behind":                          {history(1, 0), 30, history(1, 0, 2, 50), 60, 30},
		"E4: ahead of the leader":         {history(1, 0), 50, history(1, 0, 2, 30), 30, 30},
		"E1: a tail that nobody saw":      {history(0, 0, 1, 10), 11, history(0, 0, 2, 12), 13, 10},
		"E1: the leader kept more":        {history(0, 0, 1, 10), 11, history(0, 0, 2, 12), 12, 10},
		"epochs that the leader lacks":    {history(0, 0, 3, 20, 4, 25), 40, history(0, 0, 1, 10, 5, 18), 50, 10},
		"epochs that the follower lacks":  {history(0, 0), 20, history(0, 0, 1, 15, 2, 18), 30, 15},
		"nothing in common":               {history(4, 60), 90, history(1, 0, 5, 40), 80, 40},
		"the leader's history is younger": {history(1, 0), 50, history(7, 80), 100, 50},
	} {
		to, _ := truncate(t, c.follower, c.end, c.leader, c.leaderEnd)
		require.Equal(t, c.to, to, name)
	}
}

func TestE1_RepeatedFastFailovers(t *testing.T) {
	a := history(0, 0) // 0..11 of epoch 0, 10 and 11 only here
	a.Assign(2, 12)    // leads epoch 2, appends y at 12
	b := history(0, 0, 1, 10)
	to, asked := truncate(t, b, 11, a, 13)
	require.Equal(t, record.Offset(10), to, "x of epoch 1 goes")
	require.Equal(t, 1, asked, "the answer says epoch 0, which both know")
}

func TestTruncationOfALeaderWithoutHistory(t *testing.T) {
	tr := replication.NewTruncation(history(1, 0), 10)
	require.ErrorIs(t, tr.Answer(record.NoEpoch, record.NoOffset), replication.ErrNoHistory)
	require.ErrorIs(t, tr.Answer(4, 10), replication.ErrNoHistory)
}

// TestTruncationIsTheCommonPrefix compares with logs written out epoch by epoch.
func TestTruncationIsTheCommonPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// All logs come from one tree: a leader of an epoch continues some prefix of another's log.
		logs := [][]record.Epoch{{}}
		for e := range rapid.IntRange(1, 6).Draw(t, "epochs") {
			from := rapid.SampledFrom(logs).Draw(t, "log")
			keep := rapid.IntRange(0, len(from)).Draw(t, "keep")
			next := append([]record.Epoch(nil), from[:keep]...)
			for range rapid.IntRange(0, 4).Draw(t, "append") {
				next = append(next, record.Epoch(e))
			}
			logs = append(logs, next)
		}
		f, l := rapid.SampledFrom(logs).Draw(t, "follower"), rapid.SampledFrom(logs).Draw(t, "leader")
		var fh, lh record.EpochHistory
		for o, e := range f {
			fh.Assign(e, record.Offset(o))
		}
		for o, e := range l {
			lh.Assign(e, record.Offset(o))
		}
		lh.Assign(100, record.Offset(len(l))) // its own epoch
		to, _ := truncate(t, fh, record.Offset(len(f)), lh, record.Offset(len(l)))
		want := 0
		for want < len(f) && want < len(l) && f[want] == l[want] {
			want++
		}
		require.Equal(t, record.Offset(want), to, "follower %v, leader %v", f, l)
	})
}
