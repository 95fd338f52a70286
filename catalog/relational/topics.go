package relational

import (
	"context"
	"fmt"
	"slices"

	"tidemark/catalog"
)

type placement = func(brokers []catalog.Broker) ([][]catalog.BrokerID, error)

// topicRow is a topic's row under its lock.
type topicRow struct {
	found, deleted bool
	topic          catalog.Topic
	partitions     int
}

func readTopic(where string, arg any, lock string, into *topicRow) Stmt {
	*into = topicRow{}
	return Stmt{
		SQL:  `SELECT id::text, name, deleted, partitions, version FROM topics WHERE ` + where,
		Args: []any{arg},
		Lock: lock,
		Row: func(r Row) error {
			into.found = true
			var id string
			err := r.Scan(&id, &into.topic.Name, &into.deleted, &into.partitions, (*int64)(&into.topic.Version))
			if err != nil {
				return err
			}
			into.topic.ID, err = topicID(id)
			return err
		},
	}
}

func readConfigs(id catalog.TopicID, into map[string]string) Stmt {
	return Stmt{SQL: `SELECT name, value FROM topic_configs WHERE topic = $1::uuid`, Args: []any{id.Hex()}, Row: func(r Row) error {
		var name, value string
		err := r.Scan(&name, &value)
		into[name] = value
		return err
	}}
}

// CreateTopic makes the topic with partitions on the brokers that are registered in this transaction.
func (s *Store) CreateTopic(ctx context.Context, t catalog.NewTopic) (catalog.Topic, error) {
	if t.ID == (catalog.TopicID{}) || t.Name == "" || t.Place == nil {
		return catalog.Topic{}, fmt.Errorf("%w: a topic needs an id, a name and a placement", catalog.ErrInvalid)
	}
	var out catalog.Topic
	err := s.write(ctx, func(tx Tx) error {
		var brokers []catalog.Broker
		var same, other topicRow
		configs := map[string]string{}
		var rewound bool
		err := tx.Read(unlessRewound(&rewound), lockPlaceable(&brokers), readTopic(`id = $1::uuid`, t.ID.Hex(), "FOR KEY SHARE", &same),
			readTopic(`name = $1 AND NOT deleted`, t.Name, "", &other), readConfigs(t.ID, configs))
		switch {
		case err != nil:
			return err
		case rewound:
			return refuseRewound(rewound)
		case same.found && (same.deleted || same.topic.Name != t.Name):
			return fmt.Errorf("%w: topic id %s was given to %q", catalog.ErrInvalid, t.ID, same.topic.Name)
		case same.found:
			out = same.topic
			out.Configs = configs
			return ErrDone
		case other.found:
			return fmt.Errorf("%w: %q has id %s", catalog.ErrTopicExists, t.Name, other.topic.ID)
		}
		replicas, err := t.Place(brokers)
		if err != nil {
			return err
		}
		rows, err := placed(t.ID, 0, replicas, brokers)
		if err != nil {
			return err
		}
		out = catalog.Topic{ID: t.ID, Name: t.Name, Configs: cloneConfigs(t.Configs)}
		s.bump(tx)
		tx.Queue(Stmt{
			SQL:  `INSERT INTO topics (id, name, deleted, partitions, version) VALUES ($1::uuid, $2, FALSE, $3, ` + currentVersion + `)`,
			Args: []any{t.ID.Hex(), t.Name, len(rows)},
		})
		s.queueConfigs(tx, t.ID, t.Configs)
		tx.Queue(Stmt{SQL: s.sql.addPartitions, Args: []any{storePartitions(rows)}}, versionInto(&out.Version))
		return nil
	})
	if err != nil {
		return catalog.Topic{}, err
	}
	return out, nil
}

func cloneConfigs(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// placed makes the rows of new partitions: the first live replica leads, the live ones are the ISR.
func placed(topic catalog.TopicID, first int, replicas [][]catalog.BrokerID, brokers []catalog.Broker) ([]partitionRow, error) {
	if len(replicas) == 0 {
		return nil, fmt.Errorf("%w: no partitions", catalog.ErrInvalid)
	}
	alive := make(map[catalog.BrokerID]catalog.Incarnation, len(brokers))
	for _, b := range brokers {
		if b.Live {
			alive[b.ID] = b.Incarnation
		}
	}
	rows := make([]partitionRow, len(replicas))
	for i, rs := range replicas {
		p := &rows[i]
		p.ID = catalog.PartitionID{Topic: topic, Partition: int32(first + i)}
		p.Leader, p.Replicas = catalog.NoBroker, slices.Clone(rs)
		for _, b := range rs {
			inc, ok := alive[b]
			if !ok {
				continue
			}
			if p.Leader == catalog.NoBroker {
				p.Leader, p.incarnation = b, inc
			}
			p.ISR = append(p.ISR, catalog.Member{Broker: b, Incarnation: inc})
		}
		if p.Leader == catalog.NoBroker {
			return nil, fmt.Errorf("%w: none of the replicas %v of partition %d is live", catalog.ErrInvalid, rs, p.ID.Partition)
		}
	}
	return rows, nil
}

func (s *Store) queueConfigs(tx Tx, id catalog.TopicID, set map[string]string) {
	type config struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	var rows []config
	for name, value := range set {
		rows = append(rows, config{name, value})
	}
	if len(rows) > 0 {
		tx.Queue(Stmt{SQL: s.sql.setConfigs, Args: []any{id.Hex(), encode(rows)}})
	}
}

// DeleteTopic frees the name and removes the committed offsets; what is big goes by PurgeStep.
func (s *Store) DeleteTopic(ctx context.Context, id catalog.TopicID) error {
	return s.write(ctx, func(tx Tx) error {
		var row topicRow
		var buried, rewound bool
		err := tx.Read(unlessRewound(&rewound), readTopic(`id = $1::uuid`, id.Hex(), "FOR UPDATE", &row),
			Stmt{SQL: `SELECT version FROM tombstones WHERE topic = $1::uuid`, Args: []any{id.Hex()}, Row: one(&buried)})
		switch {
		case err != nil:
			return err
		case rewound:
			return refuseRewound(rewound)
		case row.deleted || buried:
			return ErrDone
		case !row.found:
			return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, id)
		}
		hex := []any{id.Hex()}
		s.bump(tx)
		tx.Queue(
			Stmt{SQL: `UPDATE topics SET deleted = TRUE, version = ` + currentVersion + ` WHERE id = $1::uuid`, Args: hex},
			Stmt{SQL: `DELETE FROM topic_configs WHERE topic = $1::uuid`, Args: hex},
			Stmt{SQL: `DELETE FROM group_offsets WHERE topic = $1::uuid`, Args: hex},
			Stmt{SQL: `INSERT INTO tombstones (topic, version, at) SELECT $1::uuid, version, ` + s.sql.d.Now + ` FROM counter`, Args: hex},
		)
		return nil
	})
}

// AddPartitions raises the partition count.
func (s *Store) AddPartitions(ctx context.Context, id catalog.TopicID, total int, place placement) error {
	return s.write(ctx, func(tx Tx) error {
		var brokers []catalog.Broker
		var row topicRow
		var rewound bool
		err := tx.Read(unlessRewound(&rewound), lockPlaceable(&brokers), readTopic(`id = $1::uuid`, id.Hex(), "FOR UPDATE", &row))
		switch {
		case err != nil:
			return err
		case rewound:
			return refuseRewound(rewound)
		case !row.found || row.deleted:
			return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, id)
		case total <= row.partitions:
			return fmt.Errorf("%w: %q has %d partitions, %d are not more", catalog.ErrInvalid, row.topic.Name, row.partitions, total)
		}
		replicas, err := place(brokers)
		if err != nil {
			return err
		}
		if len(replicas) != total-row.partitions {
			return fmt.Errorf("%w: %d new partitions were placed, not %d", catalog.ErrInvalid, len(replicas), total-row.partitions)
		}
		rows, err := placed(id, row.partitions, replicas, brokers)
		if err != nil {
			return err
		}
		s.bump(tx)
		tx.Queue(
			Stmt{SQL: `UPDATE topics SET partitions = $2, version = ` + currentVersion + ` WHERE id = $1::uuid`, Args: []any{id.Hex(), total}},
			Stmt{SQL: s.sql.addPartitions, Args: []any{storePartitions(rows)}})
		return nil
	})
}

// AlterConfigs changes the overrides; changes that change nothing do not move the counter.
func (s *Store) AlterConfigs(ctx context.Context, id catalog.TopicID, changes []catalog.ConfigChange, replace bool) error {
	return s.write(ctx, func(tx Tx) error {
		var row topicRow
		have := map[string]string{}
		if err := tx.Read(readTopic(`id = $1::uuid`, id.Hex(), "FOR UPDATE", &row), readConfigs(id, have)); err != nil {
			return err
		}
		if !row.found || row.deleted {
			return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, id)
		}
		set, drop := configDiff(have, changes, replace)
		if len(set)+len(drop) == 0 {
			return ErrDone
		}
		var eligible []partitionRow
		if touches(minISR, set, drop) {
			var all []partitionRow
			if err := tx.Read(lockPartitions(id, &all)); err != nil {
				return err
			}
			eligible = withoutELR(all)
		}
		s.bump(tx)
		s.queuePartitions(tx, eligible)
		for _, name := range drop {
			tx.Queue(Stmt{SQL: `DELETE FROM topic_configs WHERE topic = $1::uuid AND name = $2`, Args: []any{id.Hex(), name}})
		}
		s.queueConfigs(tx, id, set)
		tx.Queue(Stmt{SQL: `UPDATE topics SET version = ` + currentVersion + ` WHERE id = $1::uuid`, Args: []any{id.Hex()}})
		return nil
	})
}

// minISR is the setting that eligible sets hang on.
const minISR = "min.insync.replicas"

func touches(name string, set map[string]string, drop []string) bool {
	_, ok := set[name]
	return ok || slices.Contains(drop, name)
}

// lockPartitions reads the partitions of a topic. All of them are locked, so that nobody puts a member into an
// eligible set meanwhile by the min.insync.replicas that was (H6).
func lockPartitions(id catalog.TopicID, into *[]partitionRow) Stmt {
	return Stmt{
		SQL:  `SELECT ` + partitionColumns + `, p.leader_incarnation FROM partitions p WHERE p.topic = $1::uuid ORDER BY p.partition`,
		Args: []any{id.Hex()}, Lock: "FOR UPDATE OF p", Row: appendPartition(into),
	}
}

// withoutELR is those rows that have an eligible set, without it: HW may move by fewer members under another
// min.insync.replicas, so who left before holds it no more (KIP-966).
func withoutELR(rows []partitionRow) []partitionRow {
	var changed []partitionRow
	for _, p := range rows {
		if len(p.ELR) > 0 {
			p.ELR = nil
			changed = append(changed, p)
		}
	}
	return changed
}

func configDiff(have map[string]string, changes []catalog.ConfigChange, replace bool) (set map[string]string, drop []string) {
	want := cloneConfigs(have)
	if replace {
		clear(want)
	}
	for _, c := range changes {
		if c.Value == nil {
			delete(want, c.Name)
		} else {
			want[c.Name] = *c.Value
		}
	}
	set = map[string]string{}
	for name, value := range want {
		if old, ok := have[name]; !ok || old != value {
			set[name] = value
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			drop = append(drop, name)
		}
	}
	slices.Sort(drop)
	return set, drop
}
