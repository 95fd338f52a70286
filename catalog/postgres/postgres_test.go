package postgres

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/catalog/relational"
	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func openTest(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalog.Store { return openTest(t, testenv.Postgres(t), Options{}) })
}

func TestD16_H2_ABrokerThatListsGarbageLateDropsNoRow(t *testing.T) {
	s := openTest(t, testenv.Postgres(t), Options{})
	slow := &catalogtest.Paused{DB: s.db}
	catalogtest.ListedLate(catalogtest.NewWorld(t, s), relational.New(slow, dialect()), slow)
}
