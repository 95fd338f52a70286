package relational

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/catalog"
)

// partitionRow is a partition with what the public row leaves out.
type partitionRow struct {
	catalog.Partition
	incarnation catalog.Incarnation // of the leader
}

// storedMember is how a member of an ISR or ELR looks in its column.
type storedMember struct {
	Broker      int32 `json:"broker"`
	Incarnation int64 `json:"incarnation"`
}

func storeMembers(ms []catalog.Member) []storedMember {
	out := make([]storedMember, len(ms))
	for i, m := range ms {
		out[i] = storedMember{int32(m.Broker), int64(m.Incarnation)}
	}
	return out
}

// scanMembers reads a set of members; an empty one is nil.
func scanMembers(text string, into *[]catalog.Member) error {
	*into = nil
	if text == "[]" {
		return nil
	}
	var stored []storedMember
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return fmt.Errorf("a set of members reads %q: %w", text, err)
	}
	for _, m := range stored {
		*into = append(*into, catalog.Member{Broker: catalog.BrokerID(m.Broker), Incarnation: catalog.Incarnation(m.Incarnation)})
	}
	return nil
}

// storeBrokers is a list that is never null.
func storeBrokers(ids []catalog.BrokerID) []catalog.BrokerID {
	if ids == nil {
		return []catalog.BrokerID{}
	}
	return ids
}

// scanBrokers reads a list of brokers; an empty one is nil.
func scanBrokers(text string, into *[]catalog.BrokerID) error {
	*into = nil
	if text == "[]" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("a list of brokers reads %q: %w", text, err)
	}
	return nil
}

// scanPartition reads partitionColumns and what follows them.
func scanPartition(r Row, p *catalog.Partition, more ...any) error {
	var topic, isr, elr, replicas, adding, removing string
	dest := append([]any{&topic, &p.ID.Partition, (*int32)(&p.Leader), (*int32)(&p.LeaderEpoch), &isr, &elr, &replicas,
		&adding, &removing, (*int64)(&p.Version), (*int64)(&p.Start), (*int64)(&p.Tiered), &p.TierBytes}, more...)
	if err := r.Scan(dest...); err != nil {
		return err
	}
	var err error
	if p.ID.Topic, err = topicID(topic); err != nil {
		return err
	}
	if err := scanMembers(isr, &p.ISR); err != nil {
		return err
	}
	if err := scanMembers(elr, &p.ELR); err != nil {
		return err
	}
	return errors.Join(scanBrokers(replicas, &p.Replicas), scanBrokers(adding, &p.Adding), scanBrokers(removing, &p.Removing))
}

func appendPartition(into *[]partitionRow) func(Row) error {
	*into = nil
	return func(r Row) error {
		var p partitionRow
		if err := scanPartition(r, &p.Partition, (*int64)(&p.incarnation)); err != nil {
			return err
		}
		*into = append(*into, p)
		return nil
	}
}

// storedPartition is a partition as an element of a table parameter.
type storedPartition struct {
	Topic       string             `json:"topic"`
	Partition   int32              `json:"partition"`
	Leader      int32              `json:"leader"`
	Incarnation int64              `json:"incarnation"`
	Epoch       int32              `json:"epoch"`
	ISR         []storedMember     `json:"isr"`
	ELR         []storedMember     `json:"elr"`
	Replicas    []catalog.BrokerID `json:"replicas"`
	Adding      []catalog.BrokerID `json:"adding"`
	Removing    []catalog.BrokerID `json:"removing"`
}

func storePartitions(ps []partitionRow) string {
	out := make([]storedPartition, len(ps))
	for i, p := range ps {
		out[i] = storedPartition{p.ID.Topic.Hex(), p.ID.Partition, int32(p.Leader), int64(p.incarnation), int32(p.LeaderEpoch),
			storeMembers(p.ISR), storeMembers(p.ELR), p.Replicas, storeBrokers(p.Adding), storeBrokers(p.Removing)}
	}
	return encode(out)
}

// queuePartitions writes leader, epoch, ISR and ELR of the rows, in one statement.
func (s *Store) queuePartitions(tx Tx, ps []partitionRow) {
	if len(ps) > 0 {
		tx.Queue(Stmt{SQL: s.sql.setPartitions, Args: []any{storePartitions(ps)}})
	}
}

type namedPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func namePartitions(ps []catalog.PartitionID) string {
	out := make([]namedPartition, len(ps))
	for i, p := range ps {
		out[i] = namedPartition{p.Topic.Hex(), p.Partition}
	}
	return encode(out)
}

// Partition reads one row as it is now.
func (s *Store) Partition(ctx context.Context, id catalog.PartitionID) (catalog.Partition, error) {
	var p catalog.Partition
	found := false
	err := s.db.Read(ctx, Stmt{
		SQL:  `SELECT ` + partitionColumns + ` FROM partitions p JOIN topics t ON t.id = p.topic AND NOT t.deleted WHERE p.topic = $1::uuid AND p.partition = $2`,
		Args: []any{id.Topic.Hex(), id.Partition},
		Row: func(r Row) error {
			found = true
			return scanPartition(r, &p)
		},
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: partition %s", catalog.ErrNotFound, id)
	}
	return p, err
}

// Standings reads many rows as they are now.
func (s *Store) Standings(ctx context.Context, ps []catalog.PartitionID) (map[catalog.PartitionID]catalog.Standing, error) {
	out := make(map[catalog.PartitionID]catalog.Standing, len(ps))
	if len(ps) == 0 {
		return out, nil
	}
	err := s.db.Read(ctx, Stmt{SQL: s.sql.standings, Args: []any{namePartitions(ps)}, Row: func(r Row) error {
		var st catalog.Standing
		err := scanPartition(r, &st.Partition, &st.Left)
		out[st.ID] = st
		return err
	}})
	return out, err
}

// PartitionBounds reads the bounds of many rows.
func (s *Store) PartitionBounds(ctx context.Context, ps []catalog.PartitionID) (map[catalog.PartitionID]catalog.Bounds, error) {
	out := make(map[catalog.PartitionID]catalog.Bounds, len(ps))
	if len(ps) == 0 {
		return out, nil
	}
	err := s.db.Read(ctx, Stmt{SQL: s.sql.bounds, Args: []any{namePartitions(ps)}, Row: func(r Row) error {
		var topic string
		var id catalog.PartitionID
		var b catalog.Bounds
		err := r.Scan(&topic, &id.Partition, (*int64)(&b.Start), (*int64)(&b.Tiered), &b.TierBytes)
		if err != nil {
			return err
		}
		if id.Topic, err = topicID(topic); err != nil {
			return err
		}
		out[id] = b
		return nil
	}})
	return out, err
}
