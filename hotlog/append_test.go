package hotlog

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

func TestAppendGivesOffsetsAndEpochs(t *testing.T) {
	l := open(t, testOptions(t))
	require.Equal(t, Appended{Base: 0, Last: 2, Next: 3, AppendTime: -1}, add(t, l, plain(3, 0)))
	require.Equal(t, Appended{Base: 3, Last: 5, Next: 6, AppendTime: -1}, add(t, l, plain(1, 5), plain(2, 9)))
	got := read(t, l, 0, 6)
	require.Equal(t, "0-2 3-3 4-5", spans(got))
	require.Equal(t, record.Epoch(1), got[2].LeaderEpoch)
	require.Equal(t, []record.EpochStart{{Epoch: 1, Start: 0}}, l.Epochs().Entries())
	require.Equal(t, Bounds{LocalStart: 0, End: 6, Flushed: 0, Acked: 6}, l.Bounds())
}

// TestH12_AppendsOfManyConnectionsLeaveNoHole: offsets are given under one lock.
func TestH12_AppendsOfManyConnectionsLeaveNoHole(t *testing.T) {
	l := open(t, small(testOptions(t)))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				add(t, l, plain(2, 0))
			}
		})
	}
	wg.Wait()
	got := read(t, l, 0, l.Bounds().End)
	require.Len(t, got, 200)
	for i, h := range got {
		require.Equal(t, record.Offset(2*i), h.BaseOffset)
	}
}

func TestLogAppendTimeIsStampedAndAnswered(t *testing.T) {
	l := open(t, testOptions(t))
	req := request(t, plain(2, 0))
	req.LogAppendTime, req.AppendTime = true, day+77
	out, err := l.Append(req)
	require.NoError(t, err)
	require.Equal(t, day+77, out.AppendTime)
	h := read(t, l, 0, 2)[0]
	require.True(t, h.LogAppendTime())
	require.Equal(t, day+77, h.MaxTimestamp)
}

func TestALyingMaxTimestampIsCorrected(t *testing.T) {
	l := open(t, testOptions(t))
	b := plain(2, 0)
	record.StampMaxTimestamp(b, day+999_999)
	add(t, l, b)
	require.Equal(t, day+1, read(t, l, 0, 2)[0].MaxTimestamp)
}

// TestF4_TheLastFiveBatchesAreRemembered: a retry gets its original offset, an
// older one an error, and none a second copy. The same after a restart and after a
// start from the tier's state.
func TestF4_TheLastFiveBatchesAreRemembered(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	for seq := range int32(6) {
		add(t, l, from(7, 0, seq, 1))
	}
	retries := func(t *testing.T, l *Log) {
		end := l.Bounds().End
		for _, seq := range []int32{1, 5} {
			out := add(t, l, from(7, 0, seq, 1))
			require.Equal(t, Appended{Base: record.Offset(seq), Last: record.Offset(seq), Next: end, Duplicate: true, AppendTime: -1}, out)
		}
		_, err := l.Append(request(t, from(7, 0, 0, 1)))
		require.ErrorIs(t, err, producer.ErrDuplicateOlder)
		_, err = l.Append(request(t, from(7, 0, 8, 1)))
		require.ErrorIs(t, err, producer.ErrOutOfOrderSequence)
		require.Equal(t, end, l.Bounds().End)
	}
	retries(t, l)
	kill(l)
	l = open(t, o)
	retries(t, l)
	require.NoError(t, l.Close())
	l = open(t, o)
	require.Zero(t, l.Recovered().Scanned)
	retries(t, l)
	state := l.Producers()
	fresh := open(t, testOptions(t))
	require.NoError(t, fresh.Reset(6, l.Epochs(), state))
	retries(t, fresh)
}

func TestF5_AFirstSequenceInAnEmptyLogIsZero(t *testing.T) {
	l := open(t, testOptions(t))
	_, err := l.Append(request(t, from(7, 0, 17, 1)))
	require.ErrorIs(t, err, producer.ErrOutOfOrderSequence)
	require.Zero(t, l.Bounds().End)
}

// TestF6_ProducersExpireByTimeOnly: not with their records.
func TestF6_ProducersExpireByTimeOnly(t *testing.T) {
	o := testOptions(t)
	wall := &clockAt{time.UnixMilli(day)}
	o.Clock = wall.clock()
	o.Config.ProducerExpiry = time.Second
	l := open(t, o)
	add(t, l, from(7, 0, 0, 5))
	require.NoError(t, l.Roll(RollTime))
	_, err := l.Free(5)
	require.NoError(t, err)
	require.Equal(t, record.Offset(5), l.Bounds().LocalStart)
	add(t, l, from(7, 0, 5, 1))
	wall.wall = wall.wall.Add(2 * time.Second)
	require.Equal(t, 1, l.ExpireProducers())
	add(t, l, from(7, 0, 60, 1))
}

// TestH11_TruncationTakesProducersBack: what was cut is no duplicate any more.
func TestH11_TruncationTakesProducersBack(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	for seq := range int32(30) {
		add(t, l, from(7, 0, seq, 1))
	}
	require.NoError(t, l.AssignEpoch(4))
	add(t, l, from(8, 0, 0, 1))
	require.NoError(t, l.TruncateTo(12))
	require.Equal(t, record.Offset(12), l.Bounds().End)
	require.Equal(t, []record.EpochStart{{Epoch: 1, Start: 0}}, l.Epochs().Entries())
	_, err := l.Append(request(t, from(7, 0, 13, 1)))
	require.ErrorIs(t, err, producer.ErrOutOfOrderSequence)
	out := add(t, l, from(7, 0, 12, 1))
	require.Equal(t, record.Offset(12), out.Base)
	require.False(t, out.Duplicate)
	require.True(t, add(t, l, from(7, 0, 9, 1)).Duplicate)
	require.Equal(t, 1, l.Producers().Len())
	kill(l)
	l = open(t, o)
	require.Equal(t, record.Offset(13), l.Bounds().End)
	require.True(t, add(t, l, from(7, 0, 12, 1)).Duplicate)
}

func TestH11_TruncationInsideABatchTakesTheWholeBatch(t *testing.T) {
	l := open(t, testOptions(t))
	add(t, l, plain(5, 0))
	add(t, l, plain(5, 0))
	require.NoError(t, l.TruncateTo(7))
	require.Equal(t, record.Offset(5), l.Bounds().End)
	require.NoError(t, l.TruncateTo(0))
	require.Equal(t, Bounds{}, l.Bounds())
	add(t, l, plain(1, 0))
	require.Equal(t, "0-0", spans(read(t, l, 0, 1)))
}

func TestTransactionsHoldTheStableOffset(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	_, held := l.FirstUndecided(0)
	require.False(t, held)
	add(t, l, plain(5, 0))       // 0-4
	add(t, l, inTxn(7, 0, 0, 2)) // 5-6
	add(t, l, inTxn(8, 0, 0, 2)) // 7-8
	add(t, l, marker(7, 0, 0))   // 9: 7 aborts
	first, held := l.FirstUndecided(9)
	require.True(t, held)
	require.Equal(t, record.Offset(5), first, "the marker at 9 is not below the high watermark")
	first, _ = l.FirstUndecided(10)
	require.Equal(t, record.Offset(7), first)
	add(t, l, marker(8, 0, 1)) // 10: 8 commits
	_, held = l.FirstUndecided(11)
	require.False(t, held)
	want := []producer.Aborted{{ProducerID: 7, First: 5, Last: 9, LastStable: 7}}
	require.Equal(t, want, l.Aborted(0, 11))
	require.Empty(t, l.Aborted(10, 11))
	for _, stop := range []func(*Log){kill, func(l *Log) { require.NoError(t, l.Close()) }} {
		stop(l)
		l = open(t, o)
		require.Equal(t, want, l.Aborted(0, 11))
		_, held = l.FirstUndecided(11)
		require.False(t, held)
	}
	require.NoError(t, l.TruncateTo(9))
	require.Empty(t, l.Aborted(0, 9))
	first, _ = l.FirstUndecided(9)
	require.Equal(t, record.Offset(5), first)
}

func TestAMarkerOfAnOldCoordinatorIsRefused(t *testing.T) {
	l := open(t, testOptions(t))
	add(t, l, inTxn(7, 3, 0, 1))
	_, err := l.Append(request(t, marker(7, 2, 1)))
	require.ErrorIs(t, err, producer.ErrInvalidProducerEpoch)
	require.Equal(t, record.Offset(1), l.Bounds().End)
}

// TestC7_ASegmentSpansNoMoreThanAnInt32: index entries are relative and 32 bits.
func TestC7_ASegmentSpansNoMoreThanAnInt32(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	gap := func(base record.Offset, delta int32) AppendRequest {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: base, LastOffsetDelta: delta})
		b.Add(day, nil, []byte("v"))
		req := request(t, b.Build())
		req.Follower = true
		return req
	}
	_, err := l.Append(gap(0, math.MaxInt32))
	require.NoError(t, err)
	_, err = l.Append(gap(1<<31, 8))
	require.NoError(t, err)
	require.Len(t, l.Segments(), 2)
	require.Equal(t, "0-2147483647 2147483648-2147483656", spans(read(t, l, 0, 1<<40)))
	require.Equal(t, "2147483648-2147483656", spans(read(t, l, 1<<31+2, 1<<40)))
	kill(l)
	require.Equal(t, record.Offset(1<<31+9), open(t, o).Bounds().End)
}

func TestAFollowerContinuesItsLogOrIsRefused(t *testing.T) {
	leader, follower := open(t, small(testOptions(t))), open(t, testOptions(t))
	fill(t, leader, 25)
	follow := func(from record.Offset) error {
		s, err := leader.Read(from, 25, 1<<20, true)
		require.NoError(t, err)
		defer s.Release()
		req := AppendRequest{Follower: true, AppendTime: day}
		for rest := bytesOf(t, s); len(rest) > 0; {
			batch, after, err := record.Split(rest)
			require.NoError(t, err)
			req.Batches = append(req.Batches, batch...)
			one, err := record.Judge(batch, record.Rules{AllowEmpty: true})
			require.NoError(t, err)
			req.Summaries = append(req.Summaries, one)
			rest = after
		}
		_, err = follower.Append(req)
		return err
	}
	require.ErrorIs(t, follow(10), ErrNotNext)
	for follower.Bounds().End < 25 {
		require.NoError(t, follow(follower.Bounds().End))
	}
	require.ErrorIs(t, follow(3), ErrNotNext)
	require.Equal(t, leader.Epochs(), follower.Epochs())
	require.Equal(t, read(t, leader, 0, 25), read(t, follower, 0, 25))
}

// TestH15_ALogThatBeginsInsideABatchTakesTheWholeBatch: start 15 lies in 12-17.
func TestH15_ALogThatBeginsInsideABatchTakesTheWholeBatch(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	state := producer.New(15, 10)
	require.NoError(t, l.Reset(15, record.EpochHistory{}, state))
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 12})
	for range 6 {
		b.Add(day, nil, []byte("v"))
	}
	req := request(t, b.Build())
	req.Follower = true
	_, err := l.Append(req)
	require.NoError(t, err)
	require.Equal(t, "12-17", spans(read(t, l, 15, 18)))
	require.Equal(t, record.Offset(12), l.Bounds().LocalStart)
	kill(l)
	l = open(t, o)
	require.Equal(t, "12-17", spans(read(t, l, 15, 18)))
	require.Equal(t, record.Offset(18), l.Producers().End())
}

func TestAMalformedRequestTouchesNothing(t *testing.T) {
	l := open(t, testOptions(t))
	for name, req := range map[string]AppendRequest{
		"empty":            {},
		"bytes too many":   {Batches: append(plain(1, 0), 0), Summaries: request(t, plain(1, 0)).Summaries},
		"two idempotent":   request(t, from(7, 0, 0, 1), from(7, 0, 1, 1)),
		"summary too many": {Batches: plain(1, 0), Summaries: request(t, plain(1, 0), plain(1, 0)).Summaries},
	} {
		_, err := l.Append(req)
		require.ErrorIs(t, err, ErrBadAppend, name)
	}
	require.Zero(t, l.Bounds().End)
}

func TestAClosedLogSaysSo(t *testing.T) {
	l := open(t, testOptions(t))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, l.Roll(RollTime), ErrClosed)
	require.ErrorIs(t, l.TruncateTo(0), ErrClosed)
	_, err = l.Free(1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = l.Flush()
	require.ErrorIs(t, err, ErrClosed)
}
