package file

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

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

// What a killed process left half-written is no object and is gone at the next start.
func TestUnfinishedPutIsGoneAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Put(t.Context(), "kept", objstore.Bytes([]byte("x")), objstore.PutOptions{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, tempDir, "put-1"), []byte("half"), 0o644))
	all, err := s.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	open(t, dir)
	left, err := os.ReadDir(filepath.Join(dir, tempDir))
	require.NoError(t, err)
	require.Empty(t, left)
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
