package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BinaryVariable names a binary that is used as it is, instead of one that the harness builds.
const BinaryVariable = "TIDEMARK_TEST_BINARY"

// Binary is the path of the tidemark binary, built once per test process, with the race detector if the tests have it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return filepath.Abs(path)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	name, args := "tidemark-test", []string{"build"}
	if RaceDetector {
		name, args = name+"-race", append(args, "-race")
	}
	path := filepath.Join(root, "bin", name)
	// Another test process may run the last one: it keeps its file. A copy of it spares the linker where nothing has changed.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if last, err := os.ReadFile(path); err == nil {
		if err := os.WriteFile(fresh, last, 0o755); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("go", append(args, "-o", fresh, "./cmd/tidemark")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/tidemark: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

// ModuleRoot is the folder of go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = parent
	}
}
