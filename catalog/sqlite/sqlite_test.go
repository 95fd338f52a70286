package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/relational"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTest(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalog.Store { return openTest(t, filepath.Join(t.TempDir(), "catalog.db")) })
}

func TestD16_H2_ABrokerThatListsGarbageLateDropsNoRow(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "catalog.db"))
	slow := &catalogtest.Paused{DB: s.db}
	catalogtest.ListedLate(catalogtest.NewWorld(t, s), relational.New(slow, dialect()), slow)
}
