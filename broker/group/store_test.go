package group

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"tidemark/catalog"
)

// memory is the fake of Offsets: rows in a map, with a database that can be
// frozen, be away, or lose its answers.
type memory struct {
	mu      sync.Mutex
	rows    map[commitKey]catalog.CommittedOffset
	topics  map[catalog.TopicID]bool
	batches [][]catalog.OffsetWrite
	// away fails every call; unclear writes and then fails.
	away, unclear, fenced bool
	// frozen holds every call until it is closed, or until its context ends.
	frozen chan struct{}
	loads  int
}

var errAway = errors.New("the database is away")

func newMemory(topics ...catalog.TopicID) *memory {
	m := &memory{rows: map[commitKey]catalog.CommittedOffset{}, topics: map[catalog.TopicID]bool{}}
	for _, t := range topics {
		m.topics[t] = true
	}
	return m
}

func (m *memory) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// enter waits out a freeze and returns locked.
func (m *memory) enter(ctx context.Context) error {
	m.mu.Lock()
	for m.frozen != nil {
		frozen := m.frozen
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			m.mu.Lock()
			return ctx.Err()
		case <-frozen:
		}
		m.mu.Lock()
	}
	if m.away {
		return errAway
	}
	return nil
}

func (m *memory) CommitOffsets(ctx context.Context, ws []catalog.OffsetWrite) ([]error, error) {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m.batches = append(m.batches, ws)
	errs := make([]error, len(ws))
	for i, w := range ws {
		switch {
		case m.fenced:
			errs[i] = catalog.ErrFenced
		case !m.topics[w.Partition.Topic]:
			errs[i] = catalog.ErrUnknownTopic
		default:
			m.rows[commitKey{w.Group, w.Partition}] = w.CommittedOffset
		}
	}
	if m.unclear {
		return nil, errAway
	}
	return errs, nil
}

func (m *memory) GroupOffsets(ctx context.Context, group string) (rows []catalog.CommittedOffset, err error) {
	err = m.enter(ctx)
	defer m.mu.Unlock()
	m.loads++
	for k, r := range m.rows {
		if k.group == group {
			rows = append(rows, r)
		}
	}
	return rows, err
}

func (m *memory) DeleteOffsets(ctx context.Context, _ catalog.SlotGuard, group string, ps []catalog.PartitionID) error {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	named := map[catalog.PartitionID]bool{}
	for _, p := range ps {
		named[p] = true
	}
	maps.DeleteFunc(m.rows, func(k commitKey, _ catalog.CommittedOffset) bool {
		return k.group == group && (len(ps) == 0 || named[k.id])
	})
	return nil
}

func (m *memory) OffsetGroups(ctx context.Context) (map[string]time.Time, error) {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	out := map[string]time.Time{}
	for k, r := range m.rows {
		if r.CommitTime.After(out[k.group]) {
			out[k.group] = r.CommitTime
		}
	}
	return out, err
}

// names is the fake of Topics.
type names struct {
	mu  sync.Mutex
	ids map[string]catalog.TopicID
}

func (n *names) set(name string, id catalog.TopicID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids[name] = id
}

func (n *names) TopicID(name string) (catalog.TopicID, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.ids[name]
	return id, ok
}

func (n *names) TopicName(id catalog.TopicID) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, i := range n.ids {
		if i == id {
			return name, true
		}
	}
	return "", false
}
