package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"tidemark/tiering/objstore"
)

// failure is one attempt's error, sorted.
type failure struct {
	err       error
	note      note
	code      string // the service's error code
	again     bool   // another attempt may succeed
	mayBeDone bool   // the attempt may have taken effect
}

// permanent marks an error of our own that no retry cures.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// sort decides what an attempt's error means. ctx is the caller's: if it is over, nobody waits for a retry.
func (s *Store) sort(ctx context.Context, err error, n note) failure {
	f := failure{err: err, note: n, code: s.opts.Code(err)}
	var p permanent
	switch {
	case errors.As(err, &p):
		f.err = p.error
		// Stores were seen to keep a body that ended before its announced length, if its hash fitted.
		f.mayBeDone = errors.Is(err, objstore.ErrSource)
	case f.code == "NoSuchBucket":
		// Never ErrNotFound: a missing bucket must not look like a lost or a deleted object.
		f.err = fmt.Errorf("%w: %w: %w", objstore.ErrRefused, objstore.ErrNoBucket, err)
	case throttling[f.code] || n.status == http.StatusServiceUnavailable || n.status == http.StatusTooManyRequests:
		f.err = fmt.Errorf("%w: %w", objstore.ErrThrottled, err)
		f.mayBeDone = n.status >= 500 // a proxy may have said it after the store had stored
	case damagedOnTheWay[f.code] || n.status == http.StatusRequestTimeout || n.status == http.StatusConflict:
		f.again = true
	case n.status == http.StatusNotFound || f.code == "NoSuchKey":
		f.err = fmt.Errorf("%w: %w", objstore.ErrNotFound, err)
	case n.status == http.StatusForbidden || n.status == http.StatusUnauthorized:
		f.err = fmt.Errorf("%w: %w", objstore.ErrDenied, err)
	case n.status == http.StatusRequestedRangeNotSatisfiable:
		f.err = fmt.Errorf("%w: %w", objstore.ErrRange, err)
	case n.status >= 300 && n.status < 500:
		f.err = fmt.Errorf("%w: %w", objstore.ErrRefused, err)
	default: // 5xx, a broken connection, a deadline, an error inside a 200
		f.again = true
		f.mayBeDone = !neverSent(err)
	}
	if ctx.Err() != nil {
		f.again = false
	}
	return f
}

// neverSent is true if no connection came about, so that the service cannot have seen the request.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

var throttling = map[string]bool{
	"SlowDown": true, "SlowDownRead": true, "SlowDownWrite": true, "ServiceUnavailable": true, "Throttling": true,
	"ThrottlingException": true, "RequestLimitExceeded": true, "TooManyRequests": true, "BandwidthLimitExceeded": true,
}

// damagedOnTheWay are refusals of a request whose body did not arrive as it was sent; the same request may pass.
var damagedOnTheWay = map[string]bool{
	"RequestTimeout": true, "IncompleteBody": true, "BadDigest": true, "XAmzContentSHA256Mismatch": true,
	"XAmzContentChecksumMismatch": true, "ConditionalRequestConflict": true, "OperationAborted": true,
}

// report makes the error that the caller sees.
func (f failure) report(op, key string, attempts int, mayBeDone bool) *objstore.Error {
	return &objstore.Error{Op: op, Key: key, Attempts: attempts, RetryAfter: f.note.retryAfter, MayBeDone: mayBeDone, Err: f.err}
}
