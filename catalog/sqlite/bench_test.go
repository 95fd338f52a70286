package sqlite

import (
	"path/filepath"
	"testing"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
)

func BenchmarkCatalog(b *testing.B) {
	catalogtest.Bench(b, func(b *testing.B) catalog.Store { return openTest(b, filepath.Join(b.TempDir(), "catalog.db")) })
}
