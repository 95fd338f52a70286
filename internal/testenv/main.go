package testenv

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is a TestMain: it runs the tests, stops the shared servers, and fails the package if a goroutine was left.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Without it the servers end too, a moment after the process.
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	stopShared()
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left after the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.pg != nil {
		shared.pg.remove()
	}
	if shared.s3 != nil {
		shared.s3.remove()
	}
}
