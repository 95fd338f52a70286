package relational

import (
	"context"
	"fmt"
	"time"

	"tidemark/catalog"
)

const slotColumns = `SELECT slot, broker, incarnation, epoch FROM slots`

func appendSlot(into *[]catalog.SlotGuard) func(Row) error {
	*into = nil
	return func(r Row) error {
		var g catalog.SlotGuard
		err := r.Scan(&g.Slot, (*int32)(&g.Broker), (*int64)(&g.Incarnation), &g.Epoch)
		*into = append(*into, g)
		return err
	}
}

// slotRows are slots by number, under their locks.
type slotRows map[int32]catalog.SlotGuard

func (s slotRows) holds(g catalog.SlotGuard) error {
	if have, ok := s[g.Slot]; !ok || have != g || g.Broker == catalog.NoBroker {
		return fmt.Errorf("%w: slot %d is broker %d's at epoch %d, not broker %d's at %d", catalog.ErrFenced, g.Slot, have.Broker, have.Epoch, g.Broker, g.Epoch)
	}
	return nil
}

func (s *Store) lockSlots(slots []int32, lock string, into *[]catalog.SlotGuard) Stmt {
	return Stmt{SQL: s.sql.slotsHeld, Args: []any{encode(slots)}, Lock: lock, Row: appendSlot(into)}
}

func bySlot(gs []catalog.SlotGuard) slotRows {
	out := make(slotRows, len(gs))
	for _, g := range gs {
		out[g.Slot] = g
	}
	return out
}

// offsetKey names one row of group_offsets.
type offsetKey struct {
	group     string
	partition catalog.PartitionID
}

type storedOffset struct {
	Group     string `json:"group_id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Epoch     int32  `json:"leader_epoch"`
	Metadata  string `json:"metadata"`
	At        int64  `json:"at"`
}

// CommitOffsets writes the last value per key of those entries that stand.
func (s *Store) CommitOffsets(ctx context.Context, ws []catalog.OffsetWrite) ([]error, error) {
	errs := make([]error, len(ws))
	if len(ws) == 0 {
		return errs, nil
	}
	slots, topics := map[int32]bool{}, map[string]bool{}
	var slotList []int32
	var topicList []string
	for _, w := range ws {
		if !slots[w.Guard.Slot] {
			slots[w.Guard.Slot] = true
			slotList = append(slotList, w.Guard.Slot)
		}
		if hex := w.Partition.Topic.Hex(); !topics[hex] {
			topics[hex] = true
			topicList = append(topicList, hex)
		}
	}
	err := s.write(ctx, func(tx Tx) error {
		var held []catalog.SlotGuard
		counts := map[catalog.TopicID]int32{}
		err := tx.Read(s.lockSlots(slotList, "FOR SHARE", &held),
			Stmt{SQL: s.sql.topicsHeld, Args: []any{encode(topicList)}, Lock: "FOR KEY SHARE", Row: func(r Row) error {
				var hex string
				var n int32
				if err := r.Scan(&hex, &n); err != nil {
					return err
				}
				id, err := topicID(hex)
				counts[id] = n
				return err
			}})
		if err != nil {
			return err
		}
		rows := judgeCommits(ws, bySlot(held), counts, errs)
		if len(rows) == 0 {
			return ErrDone
		}
		tx.Queue(Stmt{SQL: s.sql.commit, Args: []any{encode(rows)}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// judgeCommits fills errs and returns the last standing value per key.
func judgeCommits(ws []catalog.OffsetWrite, held slotRows, counts map[catalog.TopicID]int32, errs []error) []storedOffset {
	at := map[offsetKey]int{}
	var rows []storedOffset
	for i, w := range ws {
		errs[i] = held.holds(w.Guard)
		if n := counts[w.Partition.Topic]; errs[i] == nil && (w.Partition.Partition < 0 || w.Partition.Partition >= n) {
			errs[i] = fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, w.Partition)
		}
		if errs[i] != nil {
			continue
		}
		row := storedOffset{w.Group, w.Partition.Topic.Hex(), w.Partition.Partition, int64(w.Offset), int32(w.LeaderEpoch), w.Metadata, w.CommitTime.UnixMilli()}
		key := offsetKey{w.Group, w.Partition}
		if j, ok := at[key]; ok {
			rows[j] = row
			continue
		}
		at[key] = len(rows)
		rows = append(rows, row)
	}
	return rows
}

// GroupOffsets reads all rows of a group.
func (s *Store) GroupOffsets(ctx context.Context, group string) ([]catalog.CommittedOffset, error) {
	var out []catalog.CommittedOffset
	err := s.db.Read(ctx, Stmt{SQL: s.sql.offsets, Args: []any{group}, Row: func(r Row) error {
		c := catalog.CommittedOffset{Group: group}
		var hex string
		var at int64
		err := r.Scan(&hex, &c.Partition.Partition, (*int64)(&c.Offset), (*int32)(&c.LeaderEpoch), &c.Metadata, &at)
		if err != nil {
			return err
		}
		c.CommitTime = time.UnixMilli(at)
		c.Partition.Topic, err = topicID(hex)
		out = append(out, c)
		return err
	}})
	return out, err
}

// DeleteOffsets removes rows of a group.
func (s *Store) DeleteOffsets(ctx context.Context, g catalog.SlotGuard, group string, ps []catalog.PartitionID) error {
	return s.write(ctx, func(tx Tx) error {
		var held []catalog.SlotGuard
		if err := tx.Read(s.lockSlots([]int32{g.Slot}, "FOR SHARE", &held)); err != nil {
			return err
		}
		if err := bySlot(held).holds(g); err != nil {
			return err
		}
		if len(ps) == 0 {
			tx.Queue(Stmt{SQL: `DELETE FROM group_offsets WHERE group_id = $1`, Args: []any{group}})
		} else {
			tx.Queue(Stmt{SQL: s.sql.dropOffsets, Args: []any{namePartitions(ps), group}})
		}
		return nil
	})
}

// OffsetGroups lists the groups that have rows.
func (s *Store) OffsetGroups(ctx context.Context) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := s.db.Read(ctx, Stmt{SQL: s.sql.groups, Row: func(r Row) error {
		var group string
		var at int64
		err := r.Scan(&group, &at)
		out[group] = time.UnixMilli(at)
		return err
	}})
	return out, err
}

// SlotHolders lists the slots that have a holder.
func (s *Store) SlotHolders(ctx context.Context) ([]catalog.SlotGuard, error) {
	var out []catalog.SlotGuard
	err := s.db.Read(ctx, Stmt{SQL: slotColumns + ` WHERE broker >= 0 ORDER BY slot`, Row: appendSlot(&out)})
	return out, err
}
