package file

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) objstore.StoreCloser {
	t.Helper()
	s, err := Open(t.Context(), &url.URL{Scheme: "file", Path: dir})
	require.NoError(t, err)
	return s
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.StoreCloser { return open(t, t.TempDir()) })
}

// Bytes that have changed since their sums were taken are not stored: either sum tells, and the CRC-32C alone where both
// are known (A7).
func TestA7_ChangedBytesAreNotStored(t *testing.T) {
	s := open(t, t.TempDir())
	right := objstore.Bytes(bytes.Repeat([]byte("0123456789"), 100_000))
	for name, change := range map[string]func(*objstore.Source){
		"both sums": func(*objstore.Source) {},
		"CRC-32C":   func(src *objstore.Source) { src.SHA256 = [32]byte{} },
		"SHA-256":   func(src *objstore.Source) { src.CRC32C = 0 },
	} {
		src := right
		change(&src)
		require.NoError(t, s.Put(t.Context(), "right", src, objstore.PutOptions{}), name)
		src.ReaderAt = bytes.NewReader(bytes.Repeat([]byte("0123456798"), 100_000))
		require.ErrorIs(t, s.Put(t.Context(), "wrong", src, objstore.PutOptions{}), objstore.ErrSource, name)
		src.ReaderAt = strings.NewReader("short")
		require.ErrorIs(t, s.Put(t.Context(), "wrong", src, objstore.PutOptions{}), objstore.ErrSource, name)
	}
	all, err := s.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// What a killed process left half-written is no object and goes at a later start; what may be another
// broker's Put in progress stays.
func TestUnfinishedPutIsGoneAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Put(t.Context(), "kept", objstore.Bytes([]byte("x")), objstore.PutOptions{}))
	old, young := filepath.Join(dir, tempDir, "put-1"), filepath.Join(dir, tempDir, "put-2")
	require.NoError(t, os.WriteFile(old, []byte("half"), 0o644))
	require.NoError(t, os.WriteFile(young, []byte("half"), 0o644))
	long := time.Now().Add(-2 * leftAfter)
	require.NoError(t, os.Chtimes(old, long, long))
	all, err := s.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	open(t, dir)
	require.NoFileExists(t, old)
	require.FileExists(t, young)
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"file://relative/path": "absolute",
		"file:///x?a=b":        "no parameters",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = Open(t.Context(), u)
		require.ErrorContains(t, err, want)
	}
}

// A folder whose disk is not mounted is neither empty nor does it forget: readers do not take its objects for lost, and
// nobody takes them for deleted.
func TestAFolderThatIsAwayLosesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	s := open(t, dir)
	require.NoError(t, s.Put(t.Context(), "kept", objstore.Bytes([]byte("x")), objstore.PutOptions{}))
	away := dir + ".away"
	for _, mountPoint := range []bool{false, true} {
		require.NoError(t, os.Rename(dir, away))
		if mountPoint { // what an unmounted disk leaves
			require.NoError(t, os.Mkdir(dir, 0o755))
		}
		_, stat := s.Stat(t.Context(), "kept")
		_, list := s.List(t.Context(), "", "", 10)
		for op, err := range map[string]error{
			"stat": stat, "list": list,
			"read":   s.ReadRange(t.Context(), "kept", 0, make([]byte, 1)),
			"delete": s.Delete(t.Context(), "kept"),
			"put":    s.Put(t.Context(), "more", objstore.Bytes([]byte("y")), objstore.PutOptions{}),
		} {
			require.ErrorContains(t, err, dir+" is not there: is its disk mounted?", op)
			require.NotErrorIs(t, err, objstore.ErrNotFound, op)
		}
		if mountPoint {
			require.NoError(t, os.Remove(dir), "nothing was written beside the disk")
		}
		require.NoError(t, os.Rename(away, dir))
	}
	require.NoError(t, s.ReadRange(t.Context(), "kept", 0, make([]byte, 1)))
	_, err := s.Stat(t.Context(), "other")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	require.NoError(t, s.Delete(t.Context(), "other"))
}
