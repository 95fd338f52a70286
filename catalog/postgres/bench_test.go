package postgres

import (
	"testing"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/internal/testenv"
)

func BenchmarkCatalog(b *testing.B) {
	catalogtest.Bench(b, func(b *testing.B) catalog.Store { return openTest(b, testenv.Postgres(b), Options{}) })
}
