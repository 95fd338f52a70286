package topicconfig

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
)

// Defaults are the broker-wide defaults: what TIDEMARK_DEFAULT_… variables set, over what is built in. The zero value is
// the built-in defaults alone. It is immutable and safe for concurrent use.
type Defaults struct {
	static map[string]string
}

// NewDefaults makes broker-wide defaults from values by config name. It reports every fault, each an ErrInvalid.
func NewDefaults(static map[string]string) (Defaults, error) {
	var faults []error
	own := make(map[string]string, len(static))
	for _, name := range names(static) {
		faults = append(faults, checkValue(name, static[name]))
		own[name] = static[name]
	}
	if err := errors.Join(faults...); err != nil {
		return Defaults{}, err
	}
	return Defaults{static: own}, nil
}

// checkValue refuses unknown names and values that do not parse or lie outside their range.
func checkValue(name, text string) error {
	d, ok := topicIndex[name]
	if !ok {
		return refuse("Unknown topic config name: %s%s.", name, suggestion(name))
	}
	_, err := d.parse(text)
	return err
}

// layered gives the value of one config and the layer that it comes from.
func (d Defaults) layered(def *Definition, overrides map[string]string, replicas int) (string, Source) {
	if text, ok := overrides[def.Name]; ok {
		return text, SourceTopic
	}
	if text, ok := d.static[def.Name]; ok {
		return text, SourceStaticBroker
	}
	return builtIn(def, replicas), SourceDefault
}

// builtIn is the table's default, but for min.insync.replicas, which depends on the number of replicas.
func builtIn(def *Definition, replicas int) string {
	if def.Name == "min.insync.replicas" && replicas >= 3 {
		return strconv.Itoa(2)
	}
	return def.Default
}

// Resolve merges a topic's overrides into its typed settings. It fails, with an ErrInvalid for each fault, only where an
// override's name is unknown or its value does not parse; what Check and Apply let in resolves.
func (d Defaults) Resolve(overrides map[string]string, replicas int) (Topic, error) {
	t, err := d.resolve(overrides, replicas)
	t.follow()
	return t, err
}

// resolve is Resolve before local retention follows the whole one: what the cross-checks look at.
func (d Defaults) resolve(overrides map[string]string, replicas int) (Topic, error) {
	var faults []error
	for _, name := range names(overrides) {
		if _, ok := topicIndex[name]; !ok {
			faults = append(faults, checkValue(name, overrides[name]))
		}
	}
	var t Topic
	for i := range topicTable {
		def := &topicTable[i]
		text, _ := d.layered(def, overrides, replicas)
		v, err := def.parse(text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if def.set != nil {
			def.set(&t, v)
		}
	}
	return t, errors.Join(faults...)
}

// Check judges the overrides of a topic that is made or altered: names, values and what they mean together. It reports
// every fault, each an ErrInvalid whose text is a sentence for the client.
func (d Defaults) Check(overrides map[string]string, replicas int) error {
	t, err := d.resolve(overrides, replicas)
	if err != nil {
		return err
	}
	return errors.Join(crossFaults(t, overrides)...)
}

// Entry is one config as DescribeConfigs shows it.
type Entry struct {
	Name     string
	Value    string
	Null     bool // the value is null, Value is ""
	Type     Type
	Source   Source
	ReadOnly bool
	Doc      string
	Synonyms []Synonym // the layers that have a value, the strongest first
}

// Synonym is the value that one layer gives a config, under the name that it has there.
type Synonym struct {
	Name   string
	Value  string
	Source Source
}

// Describe answers every topic config with its value, source and synonyms, by name.
func (d Defaults) Describe(overrides map[string]string, replicas int) []Entry {
	entries := make([]Entry, 0, len(topicTable))
	for i := range topicTable {
		def := &topicTable[i]
		text, source := d.layered(def, overrides, replicas)
		e := Entry{Name: def.Name, Value: text, Type: def.Type, Source: source, Doc: def.describeDoc()}
		broker := def.BrokerName
		if broker == "" {
			broker = def.Name
		}
		if v, ok := overrides[def.Name]; ok {
			e.Synonyms = append(e.Synonyms, Synonym{def.Name, v, SourceTopic})
		}
		if v, ok := d.static[def.Name]; ok {
			e.Synonyms = append(e.Synonyms, Synonym{broker, v, SourceStaticBroker})
		}
		e.Synonyms = append(e.Synonyms, Synonym{broker, builtIn(def, replicas), SourceDefault})
		entries = append(entries, e)
	}
	return entries
}

// describeDoc is the documentation with a word about configs that do nothing, so that a tool's user sees it.
func (d Definition) describeDoc() string {
	if d.Effect == Effective {
		return d.Doc
	}
	return fmt.Sprintf("%s (In effect: %s.)", d.Doc, d.Effect)
}

// names returns the keys of a map in order, so that faults come in order.
func names(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}
