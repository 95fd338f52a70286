package sqlite

import (
	"errors"
	"fmt"
	"time"
)

// Options of a store. Zero values mean the default in brackets.
type Options struct {
	// CallTimeout is the deadline of a call whose context has none [5 s].
	CallTimeout time.Duration
	// Readers bounds the connections that read; each costs some hundred KiB while it is used [2].
	Readers int
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var errs []error
	if o.CallTimeout < 0 {
		errs = append(errs, fmt.Errorf("call timeout %v is negative", o.CallTimeout))
	}
	if o.Readers < 0 || o.Readers > 64 {
		errs = append(errs, fmt.Errorf("%d readers is not between 1 and 64", o.Readers))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.CallTimeout == 0 {
		o.CallTimeout = 5 * time.Second
	}
	if o.Readers == 0 {
		o.Readers = 2
	}
	return o
}
