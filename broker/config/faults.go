package config

import (
	"fmt"
	"strings"
)

// Fault is one wrong setting.
type Fault struct {
	Variable string // whole name, TIDEMARK_…
	Value    string // as it was given; "" where nothing was; never a secret
	Problem  string // what is wrong with it
	Remedy   string // what to write instead
}

func (f Fault) String() string {
	return fmt.Sprintf("%s=%q: %s; %s", f.Variable, f.Value, f.Problem, f.Remedy)
}

// Faults is every wrong setting of one Config, as an error of one line each.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// orNil keeps an empty list from becoming an error that is not nil.
func (fs Faults) orNil() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}
