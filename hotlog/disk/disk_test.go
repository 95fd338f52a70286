package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var kind = Kind{Magic: "TEST", Version: 3}

func TestASealedFileIsWholeOrDamaged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	_, err := ReadSealed(name, kind)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, WriteSealed(OS{}, name, kind, []byte("old")))
	require.NoError(t, WriteSealed(OS{}, name, kind, []byte("payload")))
	payload, err := ReadSealed(name, kind)
	require.NoError(t, err)
	require.Equal(t, "payload", string(payload))
	good, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := range good {
		_, err := Unseal(kind, good[:i])
		require.ErrorIs(t, err, ErrDamaged, "cut at %d", i)
		if i == 6 || i == 7 {
			continue // reserved
		}
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		_, err = Unseal(kind, bad)
		require.ErrorIs(t, err, ErrDamaged, "byte %d", i)
	}
	_, err = Unseal(kind, append(good, 0))
	require.ErrorIs(t, err, ErrDamaged)
	require.NoFileExists(t, name+tempSuffix)
}

func TestAReplaceThatFailsLeavesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(name, 0o755)) // a rename over a directory fails
	require.Error(t, Replace(OS{}, name, []byte("x")))
	require.NoFileExists(t, name+tempSuffix)
	require.True(t, IsTemp(name+tempSuffix))
}

func TestTheLockIsExclusive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(name)
	require.NoError(t, err)
	_, err = Lock(name)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, f.Close())
	f, err = Lock(name)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestAllocationIsReal(t *testing.T) {
	for story, allocate := range map[string]func(File, int64) error{"by the system": Allocate, "by zeros": fill} {
		f, err := OS{}.Open(filepath.Join(t.TempDir(), "x"), os.O_CREATE|os.O_RDWR)
		require.NoError(t, err)
		require.NoError(t, allocate(f, 3<<20+5), story)
		info, err := f.OS().Stat()
		require.NoError(t, err)
		require.Equal(t, int64(3<<20+5), info.Size(), story)
		require.NoError(t, f.Close())
	}
	require.True(t, IsFull(&os.PathError{Err: syscall.ENOSPC}))
	require.False(t, IsFull(syscall.EIO))
}
