package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// refusal is an answer that a handler decides itself: a Kafka error and a sentence for the client, with
// the value at fault and, where there is one, the remedy.
type refusal struct {
	kind *kerr.Error
	text string
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }

func refuse(kind *kerr.Error, format string, args ...any) error {
	return refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

// messageFor is the text that goes beside a code; nil where there is no error.
func messageFor(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

// maxCatalogWait bounds what one request may wait for the catalog: the connection's next requests wait
// behind it.
const maxCatalogWait = 10 * time.Second

// bounded gives ctx the deadline of a request that asks the catalog: its own time-out, from 1 s to
// maxCatalogWait. A time-out of 0 or below, which Kafka answers before anything is done, is taken as
// not given.
func bounded(ctx context.Context, timeoutMillis int32) (context.Context, context.CancelFunc) {
	d := maxCatalogWait
	if timeoutMillis > 0 {
		d = min(d, max(time.Second, time.Duration(timeoutMillis)*time.Millisecond))
	}
	return context.WithTimeout(ctx, d)
}
