package topicconfig

import (
	"sort"
	"strings"
)

// Type is a config's type with the numbers of DescribeConfigs v3 (KIP-569).
type Type int8

// The types that occur; the numbers are the protocol's.
const (
	Boolean Type = 1
	String  Type = 2
	Int     Type = 3
	Short   Type = 4
	Long    Type = 5
	Double  Type = 6
	List    Type = 7
)

// String gives Kafka's word for the type, as INVALID_CONFIG sentences use it.
func (t Type) String() string {
	switch t {
	case Boolean:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Short:
		return "SHORT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	}
	return "UNKNOWN"
}

// Source says which layer a value comes from, with the numbers of DescribeConfigs.
type Source int8

// The layers that occur, the strongest first; the numbers are the protocol's.
const (
	SourceTopic         Source = 1 // DYNAMIC_TOPIC_CONFIG: set on the topic
	SourceDynamicBroker Source = 2 // DYNAMIC_BROKER_CONFIG: set on the running broker
	SourceStaticBroker  Source = 4 // STATIC_BROKER_CONFIG: set by a variable of the broker
	SourceDefault       Source = 5 // DEFAULT_CONFIG: built in
	SourceGroup         Source = 8 // GROUP_CONFIG (DYNAMIC_GROUP_CONFIG): set on the group
)

// String gives Kafka's name of the source.
func (s Source) String() string {
	switch s {
	case SourceTopic:
		return "DYNAMIC_TOPIC_CONFIG"
	case SourceDynamicBroker:
		return "DYNAMIC_BROKER_CONFIG"
	case SourceStaticBroker:
		return "STATIC_BROKER_CONFIG"
	case SourceDefault:
		return "DEFAULT_CONFIG"
	case SourceGroup:
		return "GROUP_CONFIG"
	}
	return "UNKNOWN"
}

// Effect says what setting a config changes. Every known config is accepted, kept and described, whatever its effect.
type Effect int8

// The effects that occur.
const (
	Effective Effect = iota // it does what its documentation says
	Later                   // kept; it does it once the part that it belongs to exists (docs/limits.md)
	NoEffect                // kept for tools that set it; nothing here depends on it
)

// String gives the word that the generated page uses.
func (e Effect) String() string {
	switch e {
	case Effective:
		return "yes"
	case Later:
		return "not yet"
	}
	return "accepted, no effect"
}

// Definition is one config: a row of the table.
type Definition struct {
	Name       string
	Type       Type
	Default    string // as DescribeConfigs shows it
	Doc        string
	Effect     Effect
	Ours       bool   // Kafka does not know it
	BrokerName string // Kafka's name for the broker-wide default; "" if it has none

	valid rule
	set   func(*Topic, value)
}

// Valid says in words which values are allowed, e.g. "at least 14".
func (d Definition) Valid() string { return d.valid.text }

// Variable is the environment variable that sets the broker-wide default, e.g. TIDEMARK_DEFAULT_SEGMENT_BYTES.
func (d Definition) Variable() string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(d.Name, ".", "_"))
}

// VariablePrefix begins the variables of broker-wide defaults.
const VariablePrefix = "TIDEMARK_DEFAULT_"

var (
	topicTable = sorted(segmentTable, retentionTable, recordTable, tierTable, compactionTable, replicationTable)
	topicIndex = index(topicTable)
)

func sorted(tables ...[]Definition) []Definition {
	var all []Definition
	for _, t := range tables {
		all = append(all, t...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func index(table []Definition) map[string]*Definition {
	m := make(map[string]*Definition, len(table))
	for i := range table {
		m[table[i].Name] = &table[i]
	}
	return m
}

// Topics returns the definitions of all topic configs, by name. The caller must not change the slice.
func Topics() []Definition { return topicTable }

// Lookup finds a topic config by its name.
func Lookup(name string) (Definition, bool) {
	d, ok := topicIndex[name]
	if !ok {
		return Definition{}, false
	}
	return *d, true
}

// ByVariable finds the topic config whose broker-wide default a TIDEMARK_DEFAULT_… variable sets.
func ByVariable(variable string) (Definition, bool) {
	for _, d := range topicTable {
		if d.Variable() == variable {
			return d, true
		}
	}
	return Definition{}, false
}
