package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// JavaClasses is the class path of integration/clients/java. Maven builds it outside the checkout, where it is kept; one of
// the test processes that want it does so, and none where its sources have not changed since.
func JavaClasses(t testing.TB) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cache, err := os.UserCacheDir()
	must(err)
	root, err := ModuleRoot()
	must(err)
	from, out := filepath.Join(root, "integration", "clients", "java"), filepath.Join(cache, "tidemark", "clients", "java")
	classes := filepath.Join(out, "classes") + ":" + filepath.Join(out, "lib", "*")
	must(os.MkdirAll(filepath.Dir(out), 0o755))
	lock, err := os.Create(out + ".lock")
	must(err)
	defer lock.Close()
	must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	sources, err := sumOf(from)
	must(err)
	stamp := filepath.Join(out, "sources.sha256")
	if built, err := os.ReadFile(stamp); err == nil && string(built) == sources {
		return classes
	}
	must(os.RemoveAll(out))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-DoutputDirectory="+out, "package")
	cmd.Dir = from
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mvn package in %s: %v: %s; run scripts/setup.sh, which installs what the tests need", from, err, said)
	}
	must(os.WriteFile(stamp, []byte(sources), 0o644))
	return classes
}

// sumOf is a checksum of the names and contents of a folder's files.
func sumOf(dir string) (string, error) {
	sum := sha256.New()
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		one := sha256.Sum256(b)
		_, _ = sum.Write(append([]byte(path+"\n"), one[:]...))
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
