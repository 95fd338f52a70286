package topicconfig

import (
	"errors"
	"fmt"
	"strings"
)

// Op is what IncrementalAlterConfigs does to one config, with the protocol's numbers (KIP-339).
type Op int8

// The operations; Append and Subtract work on lists alone.
const (
	Set      Op = 0
	Delete   Op = 1
	Append   Op = 2
	Subtract Op = 3
)

// Change is one entry of IncrementalAlterConfigs. Value is not looked at for Delete.
type Change struct {
	Name  string
	Op    Op
	Value string
}

// Apply makes new overrides from the present ones and a request's changes. It reports every fault, each an ErrInvalid;
// what the result means together is for Check to judge. Deleting what is not set is no fault.
func (d Defaults) Apply(overrides map[string]string, changes []Change, replicas int) (map[string]string, error) {
	out := make(map[string]string, len(overrides)+len(changes))
	for name, text := range overrides {
		out[name] = text
	}
	var faults []error
	seen := map[string]bool{}
	for _, c := range changes {
		if seen[c.Name] {
			faults = append(faults, refuse("The config %s is changed twice in one request.", c.Name))
			continue
		}
		seen[c.Name] = true
		faults = append(faults, d.applyOne(out, c, replicas))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return out, nil
}

func (d Defaults) applyOne(out map[string]string, c Change, replicas int) error {
	def, ok := topicIndex[c.Name]
	if !ok {
		return refuse("Unknown topic config name: %s%s.", c.Name, suggestion(c.Name))
	}
	text := c.Value
	switch c.Op {
	case Set:
	case Delete:
		delete(out, c.Name)
		return nil
	case Append, Subtract:
		if def.Type != List {
			return refuse("Config value append and subtract are not allowed for config %s, which is no list.", c.Name)
		}
		present, _ := d.layered(def, out, replicas)
		text = editList(splitList(strings.TrimSpace(present)), splitList(strings.TrimSpace(c.Value)), c.Op)
	default:
		return refuse("Unknown operation %d for config %s.", c.Op, c.Name)
	}
	if _, err := def.parse(text); err != nil {
		return err
	}
	out[c.Name] = strings.TrimSpace(text)
	return nil
}

// editList adds the items that are not there yet, or takes away those that are.
func editList(present, items []string, op Op) string {
	drop := map[string]bool{}
	for _, item := range present {
		drop[item] = false
	}
	for _, item := range items {
		if _, there := drop[item]; !there && op == Append {
			present = append(present, item)
		}
		drop[item] = op == Subtract
	}
	kept := present[:0]
	for _, item := range present {
		if !drop[item] {
			kept = append(kept, item)
		}
	}
	return strings.Join(kept, ",")
}

// suggestion is " (did you mean …?)" for a name near a known one, else "".
func suggestion(name string) string {
	known := make([]string, 0, len(topicTable))
	for _, d := range topicTable {
		known = append(known, d.Name)
	}
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}
