// Package dynamic is the settings of one broker that tools change while it runs: the rates of throttled replication, which
// kafka-reassign-partitions sets before a move and takes away after it. Everything else is a variable of the process.
//
// Place in the house: a room of broker, which gives it the data directory; the admin handlers change and show it, the
// fetchers and the fetch handler obey its throttles. What may be set is topicconfig's table.
//
// Invariant: what Alter has acknowledged is in the data directory, and in force again after a restart.
package dynamic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"tidemark/broker/topicconfig"
	"tidemark/replication"
)

// Store keeps the settings; hotlog.DataDir does. StoreDynamicConfig is durable when it returns nil; DynamicConfig is nil
// if nothing is stored.
type Store interface {
	StoreDynamicConfig(b []byte) error
	DynamicConfig() []byte
}

// Settings are in force from Open on. Safe for concurrent use.
type Settings struct {
	// Leader bounds what this broker sends to throttled replicas that are not in sync, Follower what it copies for them.
	Leader, Follower replication.Throttle

	store  Store
	turn   chan struct{} // holds one: whoever changes something
	values atomic.Pointer[map[string]string]
}

// Open puts what is stored in force.
func Open(store Store) (*Settings, error) {
	s := &Settings{store: store, turn: make(chan struct{}, 1)}
	values := map[string]string{}
	if raw := store.DynamicConfig(); raw != nil {
		if err := json.Unmarshal(raw, &values); err != nil {
			return nil, fmt.Errorf("stored dynamic settings: %w", err)
		}
	}
	s.enforce(values)
	return s, nil
}

// Values is what is set, by name. The caller must not change it.
func (s *Settings) Values() map[string]string { return *s.values.Load() }

// Alter changes settings, all or none, and only checks if validateOnly. Errors: topicconfig.ErrInvalid, of the disk, or of ctx.
func (s *Settings) Alter(ctx context.Context, changes []topicconfig.Change, validateOnly bool) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	next, err := topicconfig.ApplyDynamic(s.Values(), changes)
	if err != nil || validateOnly || maps.Equal(next, s.Values()) {
		return err
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := s.store.StoreDynamicConfig(raw); err != nil {
		return err
	}
	s.enforce(next)
	return nil
}

func (s *Settings) enforce(values map[string]string) {
	now := time.Now()
	s.Leader.SetRate(rate(values, topicconfig.LeaderThrottledRate), now)
	s.Follower.SetRate(rate(values, topicconfig.FollowerThrottledRate), now)
	s.values.Store(&values)
}

// rate is a setting in bytes a second; 0: none is set. A set rate of 0 is as slow as can be.
func rate(values map[string]string, name string) int64 {
	n, err := strconv.ParseInt(values[name], 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 1)
}
