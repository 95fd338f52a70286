package catalogtest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// together runs n calls at once and waits for them.
func together(n int, call func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			call(i)
		})
	}
	close(gate)
	wg.Wait()
}

var raceStories = []story{
	{"A3 A5 of many publishes of one range one wins", func(w *World) {
		p := w.OnePartition()
		for round := range record.Offset(10) {
			var rows []catalog.Segment
			for i := range record.Offset(6) {
				rows = append(rows, p.Announce(p.Segment(round*10, round*10+5+i)))
			}
			rows[5] = p.Announce(p.Segment(round*10, round*10+10))
			var won atomic.Int32
			together(len(rows), func(i int) {
				switch _, err := w.S.Publish(w.Ctx, p.Guard, rows[i]); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, catalog.ErrNotContiguous):
					w.T.Errorf("publish: %v", err)
				}
			})
			require.EqualValues(w.T, 1, won.Load())
			if tiered := p.Row().Tiered; tiered < round*10+10 {
				p.Upload(tiered, round*10+10)
			}
		}
		require.EqualValues(w.T, 100, p.Row().Tiered)
	}},
	{"H1 publish and give up at once: one of them decides", func(w *World) {
		p := w.OnePartition()
		published := 0
		for range 20 {
			o := p.Row().Tiered
			s := p.Announce(p.Segment(o, o+10))
			var pub, giveUp error
			together(2, func(i int) {
				if i == 0 {
					_, pub = w.S.Publish(w.Ctx, p.Guard, s)
				} else {
					giveUp = w.S.GiveUp(w.Ctx, p.Guard, s.Attempt)
				}
			})
			require.True(w.T, (pub == nil) != (giveUp == nil), "publish: %v, give up: %v", pub, giveUp)
			is, err := w.S.GarbageIs(w.Ctx, s.Key)
			require.NoError(w.T, err)
			require.Equal(w.T, giveUp == nil, is)
			if pub == nil {
				published++
			}
		}
		require.EqualValues(w.T, 10*published, p.Row().Tiered)
	}},
	{"H2 every value of the counter is given once, whoever asks", func(w *World) {
		w.Register(1)
		topics := make([]catalog.Topic, 16)
		together(len(topics), func(i int) {
			id := catalog.NewUUID()
			var err error
			if topics[i], err = w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: id, Name: id.Hex(), Place: On(1, 1)}); err != nil {
				w.T.Errorf("create: %v", err)
			}
		})
		seen := map[catalog.Version]bool{}
		for _, t := range topics {
			require.False(w.T, seen[t.Version])
			seen[t.Version] = true
		}
	}},
	{"of many creations of one name one wins", func(w *World) {
		w.Register(1)
		var won, lost atomic.Int32
		together(8, func(int) {
			switch _, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "same", Place: On(3, 1)}); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, catalog.ErrTopicExists):
				lost.Add(1)
			default:
				w.T.Errorf("create: %v", err)
			}
		})
		require.EqualValues(w.T, 1, won.Load())
		require.EqualValues(w.T, 7, lost.Load())
	}},
	{"H13 elections and publishes do not lock each other out", func(w *World) {
		w.Register(1)
		t := w.Topic(8, 1)
		together(16, func(i int) {
			id := catalog.PartitionID{Topic: t.ID, Partition: int32(i % 8)}
			for range 5 {
				row, err := w.S.Partition(w.Ctx, id)
				if err != nil {
					w.T.Errorf("partition: %v", err)
					return
				}
				if i < 8 {
					_, err = w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: id, Leader: 1, ISR: w.members(1), IfVersion: row.Version}})
				} else {
					g := catalog.Guard{Broker: 1, Incarnation: w.Inc[1], Epoch: row.LeaderEpoch}
					_, _, err = w.S.MoveStart(w.Ctx, id, g, row.Start+1)
				}
				if err != nil && !errors.Is(err, catalog.ErrFenced) {
					w.T.Errorf("%v", err)
				}
			}
		})
	}},
	{"a pull misses nothing while others write (R12)", pullWhileWriting},
}

func pullWhileWriting(w *World) {
	w.Register(1)
	const writers, each = 4, 10
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(writers, func(int) {
			for range each {
				id := catalog.NewUUID()
				if _, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: id, Name: id.Hex(), Place: On(2, 1)}); err != nil {
					w.T.Errorf("create: %v", err)
				}
			}
		})
	}()
	topics, partitions := map[catalog.TopicID]bool{}, map[catalog.PartitionID]bool{}
	var at catalog.Position
	for finished := false; ; {
		ch, err := w.S.Pull(w.Ctx, at)
		require.NoError(w.T, err)
		for _, t := range ch.Topics {
			topics[t.ID] = true
		}
		for _, p := range ch.Partitions {
			partitions[p.ID] = true
			require.True(w.T, topics[p.ID.Topic], "a partition before its topic")
		}
		if finished && at == ch.Position {
			break
		}
		at = ch.Position
		select {
		case <-done:
			finished = true
		default:
		}
	}
	require.Len(w.T, topics, writers*each)
	require.Len(w.T, partitions, 2*writers*each)
}
