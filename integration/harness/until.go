package harness

import (
	"testing"
	"time"
)

// Until calls check until it returns nil; after limit the test fails with check's last error. what names what is
// waited for.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Holds calls check for as long as span and fails the test when it returns an error.
func Holds(t testing.TB, span time.Duration, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := check(); err != nil {
			t.Fatalf("%s does not hold: %v", what, err)
		}
	}
}
