package postgres

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/record"
)

// transaction is one kind of write: what prepares it, the write, and what it leaves behind.
type transaction struct {
	name string
	make func(b *behind) (write func(s catalog.Store) error, state func() string)
}

var value = "1"

func transactions() []transaction {
	return append(topicTransactions(), segmentTransactions()...)
}

func topicTransactions() []transaction {
	return []transaction{
		{"register", func(b *behind) (func(catalog.Store) error, func() string) {
			r := catalog.Registration{ID: 5, Attempt: "a5"}
			return func(s catalog.Store) error { _, err := s.Register(b.Ctx, r); return err }, func() string {
				list, err := b.S.Brokers(b.Ctx)
				require.NoError(b.T, err)
				return fmt.Sprint(len(list))
			}
		}},
		{"create topic", func(b *behind) (func(catalog.Store) error, func() string) {
			b.Register(1)
			n := catalog.NewTopic{ID: catalog.NewUUID(), Name: "t", Place: catalogtest.On(3, 1)}
			return func(s catalog.Store) error { _, err := s.CreateTopic(b.Ctx, n); return err }, b.everything
		}},
		{"delete topic", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			return func(s catalog.Store) error { return s.DeleteTopic(b.Ctx, p.ID.Topic) }, b.everything
		}},
		{"alter configs", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			return func(s catalog.Store) error {
				return s.AlterConfigs(b.Ctx, p.ID.Topic, []catalog.ConfigChange{{Name: "x", Value: &value}}, false)
			}, b.everything
		}},
		{"elect", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			row, controller := p.Row(), b.Controller()
			return func(s catalog.Store) error {
				_, err := s.Elect(b.Ctx, controller, []catalog.Election{{ID: p.ID, Leader: 1, ISR: row.ISR, IfVersion: row.Version}})
				return err
			}, func() string { return fmt.Sprint(p.Row().LeaderEpoch) }
		}},
		{"ISR change", func(b *behind) (func(catalog.Store) error, func() string) {
			b.Register(1, 2)
			p := b.Led(b.Topic(1, 1, 2), 0)
			row := p.Row()
			return func(s catalog.Store) error {
				_, err := s.AlterISR(b.Ctx, 1, b.Inc[1], []record.Epoch{row.LeaderEpoch},
					[]catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: row.ISR[:1], MinISR: 2}})
				return err
			}, func() string { return fmt.Sprint(p.Row().ISR, p.Row().ELR) }
		}},
		{"take out", func(b *behind) (func(catalog.Store) error, func() string) {
			b.Register(1, 2)
			b.Led(b.Topic(1, 2, 1), 0)
			controller := b.Controller()
			ls, err := b.S.Leases(b.Ctx)
			require.NoError(b.T, err)
			return func(s catalog.Store) error {
				_, err := s.TakeOut(b.Ctx, controller, ls.Brokers[1:], nil)
				return err
			}, b.everything
		}},
		{"assign slots", func(b *behind) (func(catalog.Store) error, func() string) {
			b.Register(1)
			controller := b.Controller()
			return func(s catalog.Store) error {
				_, err := s.AssignSlots(b.Ctx, controller, []catalog.SlotMove{{Slot: 3, To: 1}})
				return err
			}, b.everything
		}},
		{"release", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			return func(s catalog.Store) error { return s.Release(b.Ctx, 1, p.Guard.Incarnation, nil) }, b.everything
		}},
		{"commit offsets", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			gs := b.GiveSlots(1, 3)
			w := catalog.OffsetWrite{Guard: gs[0], CommittedOffset: catalog.CommittedOffset{Group: "g", Partition: p.ID, Offset: 7, CommitTime: time.Now()}}
			return func(s catalog.Store) error {
					_, err := s.CommitOffsets(b.Ctx, []catalog.OffsetWrite{w})
					return err
				}, func() string {
					rows, err := b.S.GroupOffsets(b.Ctx, "g")
					require.NoError(b.T, err)
					return fmt.Sprint(len(rows))
				}
		}},
	}
}

func segmentTransactions() []transaction {
	return []transaction{
		{"put intent", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			in := p.Intent(p.Segment(0, 10))
			return func(s catalog.Store) error { return s.PutIntent(b.Ctx, in) }, func() string { return fmt.Sprint(p.Attempts()) }
		}},
		{"publish", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			seg := p.Announce(p.Segment(0, 10))
			return func(s catalog.Store) error { _, err := s.Publish(b.Ctx, p.Guard, seg); return err }, tier(p)
		}},
		{"give up", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			seg := p.Announce(p.Segment(0, 10))
			return func(s catalog.Store) error { return s.GiveUp(b.Ctx, p.Guard, seg.Attempt) }, func() string { return fmt.Sprint(p.Attempts(), b.Garbage()) }
		}},
		{"move start", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			p.Upload(0, 10)
			p.Upload(10, 20)
			return func(s catalog.Store) error { _, _, err := s.MoveStart(b.Ctx, p.ID, p.Guard, 12); return err }, tier(p)
		}},
		{"swap", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			old := []catalog.SegmentID{p.Upload(0, 10).ID, p.Upload(10, 20).ID}
			j := p.Merge(1, 0)
			seg := p.AnnounceFor(j, p.Segment(0, 20))
			return func(s catalog.Store) error { return s.Swap(b.Ctx, j, old, []catalog.Segment{seg}) }, tier(p)
		}},
		{"end job", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			j := p.Merge(1, 0)
			p.AnnounceFor(j, p.Segment(0, 20))
			return func(s catalog.Store) error { return s.EndJob(b.Ctx, j) }, func() string { return fmt.Sprint(p.Attempts(), b.Garbage()) }
		}},
		{"deleted", func(b *behind) (func(catalog.Store) error, func() string) {
			p := b.OnePartition()
			seg := p.Announce(p.Segment(0, 10))
			require.NoError(b.T, b.S.GiveUp(b.Ctx, p.Guard, seg.Attempt))
			b.Garbage()
			return func(s catalog.Store) error { return s.Deleted(b.Ctx, seg.Key) }, func() string { return b.text(`SELECT deletes::text FROM garbage`) }
		}},
	}
}
