package catalog

import "errors"

// Sentinels. Callers test with errors.Is; stores wrap them with the values at fault.
var (
	// ErrFenced: the guard of the write does not hold any more. The holder stops; it does not retry.
	ErrFenced = errors.New("fenced: the writer's epoch or incarnation is not current")
	// ErrNotFound: no such row. On reads only.
	ErrNotFound = errors.New("not in the catalog")
	// ErrTopicExists: a live topic already has this name.
	ErrTopicExists = errors.New("topic already exists")
	// ErrUnknownTopic: no live topic has this id or name; also a publish whose topic is being deleted.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrIntentGone: the intent row of an attempt is not there any more: whoever deleted it has
	// decided (R9). The attempt's key is never used again.
	ErrIntentGone = errors.New("the upload intent has been decided by another")
	// ErrNotContiguous: a publish whose base is not tiered, or a swap whose rows are not live,
	// adjacent and exactly covered by the new range. Read again and plan again.
	ErrNotContiguous = errors.New("the range does not continue what is in the tier")
	// ErrGarbage: the key is named by a garbage row, so no intent may name it (R1).
	ErrGarbage = errors.New("the object key is already garbage")
	// ErrHeld: the registration's broker id is held by another incarnation whose lease moved.
	ErrHeld = errors.New("the broker id is held by another process")
	// ErrRewound: the catalog does not hold the (version, nonce) that the caller has seen: it has
	// lost commits (H2).
	ErrRewound = errors.New("the catalog has gone back in time")
	// ErrNoMove: a move is to be cancelled, but the partition does not move.
	ErrNoMove = errors.New("the partition is not on the move")
	// ErrInvalid: the request itself cannot be right, e.g. fewer partitions than there are.
	ErrInvalid = errors.New("invalid request to the catalog")
	// ErrNotEmpty: a catalog that is to be written again from copies has topics or segments already.
	ErrNotEmpty = errors.New("the catalog is not empty")
	// ErrLevel: cluster.level is newer than this binary knows. A newer schema alone is no error:
	// migrations keep the previous release's statements working (H35).
	ErrLevel = errors.New("the catalog was written by a newer release")
)

// unavailable marks errors after which the outcome of a write is not known.
type unavailable struct{ err error }

func (e unavailable) Error() string { return "catalog unavailable: " + e.err.Error() }
func (e unavailable) Unwrap() error { return e.err }

// MarkUnavailable wraps err so that [Unavailable] reports true. Stores use it for lost connections,
// deadlines and failovers; nil stays nil.
func MarkUnavailable(err error) error {
	if err == nil {
		return nil
	}
	return unavailable{err}
}

// Unavailable reports whether err says that the store could not be asked or did not answer. The
// caller retries later with the same natural key; it must not assume either outcome (R9).
func Unavailable(err error) bool {
	var u unavailable
	return errors.As(err, &u)
}
