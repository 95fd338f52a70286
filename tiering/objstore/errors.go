package objstore

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What a background loop may do about an error: ErrThrottled and errors without a sentinel are worth a later retry,
// the others are not until somebody changed something.
var (
	ErrNotFound  = errors.New("no such object")
	ErrRange     = errors.New("object is shorter than the range asked for")
	ErrDenied    = errors.New("access denied")
	ErrThrottled = errors.New("store asks to slow down")
	ErrRefused   = errors.New("store refused the request")
	ErrNoBucket  = errors.New("bucket does not exist") // is ErrRefused too
	ErrBadReply  = errors.New("store's reply does not fit the request")
	ErrSource    = errors.New("source of the upload is unreadable or shorter than its size")
	ErrKey       = errors.New("invalid object key")
)

// Error is a failed operation. Err wraps one of the sentinels or the cause.
type Error struct {
	Op, Key    string
	Attempts   int           // requests sent, at least 1 unless nothing was sent
	RetryAfter time.Duration // what the store asked for; 0 if it did not say
	MayBeDone  bool          // the operation may have taken effect, or may yet
	Err        error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s: %v", e.Op, e.Key, e.Err)
	if e.Attempts > 1 {
		s += fmt.Sprintf(" (after %d attempts)", e.Attempts)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Unclear says whether the operation that failed with err may have taken effect.
func Unclear(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.MayBeDone
}

// RetryAfter is how long the store asked to be left alone, or 0.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// URLError is an object-store URL that no driver opens, whatever the store's state. URL shows no secrets.
type URLError struct{ URL, Problem string }

func (e *URLError) Error() string { return fmt.Sprintf("object store URL %q: %s", e.URL, e.Problem) }

// maxKey leaves room below S3's 1024 bytes for the bucket's own prefix.
const maxKey = 900

// ValidateKey says whether key may name an object: only a-z 0-9 . _ - and /, which no store and no signature encodes in
// two ways; no empty, "." or ".." element; at most 900 bytes.
func ValidateKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: %d bytes, must be 1 to %d", ErrKey, len(key), maxKey)
	}
	for i := range len(key) {
		c := key[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' || c == '/') {
			return fmt.Errorf("%w: %q has %q, only a-z 0-9 . _ - / are allowed", ErrKey, key, c)
		}
	}
	for el := range strings.SplitSeq(key, "/") {
		if el == "" || el == "." || el == ".." {
			return fmt.Errorf("%w: %q has the element %q", ErrKey, key, el)
		}
	}
	return nil
}

// Remedy is what an operator does about a bucket that cannot be used because of err.
func Remedy(err error) string {
	switch {
	case errors.Is(err, ErrNoBucket):
		return "make the bucket, or name another in TIDEMARK_OBJECT_STORE_URL"
	case errors.Is(err, ErrDenied):
		return "look at the key and the secret (AWS_… or MINIO_…), and at what they may do in the bucket of TIDEMARK_OBJECT_STORE_URL"
	}
	return "look whether the store is up, and at TIDEMARK_OBJECT_STORE_URL"
}
