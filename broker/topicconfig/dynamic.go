package topicconfig

import (
	"errors"
	"maps"
	"strings"
)

// Names of the settings of a broker that tools change while it runs.
const (
	LeaderThrottledRate   = "leader.replication.throttled.rate"
	FollowerThrottledRate = "follower.replication.throttled.rate"
)

// dynamicTable is all of them; kafka-reassign-partitions takes the three away together.
var dynamicTable = map[string]*Definition{
	LeaderThrottledRate:   {Name: LeaderThrottledRate, Type: Long, valid: atLeast(0)},
	FollowerThrottledRate: {Name: FollowerThrottledRate, Type: Long, valid: atLeast(0)},
	// A broker has one data directory: nothing is moved between two.
	"replica.alter.log.dirs.io.max.bytes.per.second": {
		Name: "replica.alter.log.dirs.io.max.bytes.per.second", Type: Long, valid: atLeast(0),
	},
}

// IsDynamic reports whether tools can change a setting of a running broker; all others are variables of the process.
func IsDynamic(name string) bool { return dynamicTable[name] != nil }

// ApplyDynamic makes new values of a broker's dynamic settings from the present ones and a request's changes. It reports
// every fault, each an ErrInvalid. Deleting what is not set is no fault.
func ApplyDynamic(values map[string]string, changes []Change) (map[string]string, error) {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]string{}
	}
	var faults []error
	for _, c := range changes {
		faults = append(faults, applyDynamic(out, c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return out, nil
}

func applyDynamic(out map[string]string, c Change) error {
	def, ok := dynamicTable[c.Name]
	if !ok {
		return refuse("The broker config %s cannot be changed while the broker runs.", c.Name)
	}
	switch c.Op {
	case Set:
	case Delete:
		delete(out, c.Name)
		return nil
	default:
		return refuse("Config value append and subtract are not allowed for config %s, which is no list.", c.Name)
	}
	if _, err := def.parse(c.Value); err != nil {
		return err
	}
	out[c.Name] = strings.TrimSpace(c.Value)
	return nil
}

// showDynamic turns an entry of a broker into what it is when tools may change it.
func (e *Entry) showDynamic(values map[string]string) {
	if _, ok := dynamicTable[e.Name]; !ok {
		return
	}
	e.ReadOnly = false
	if v, ok := values[e.Name]; ok {
		e.Value, e.Source = v, SourceDynamicBroker
		e.Synonyms = append([]Synonym{{e.Name, v, SourceDynamicBroker}}, e.Synonyms...)
	}
}
