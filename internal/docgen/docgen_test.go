package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedPagesAreFresh(t *testing.T) {
	differ, err := stale("../../docs")
	require.NoError(t, err)
	for path := range differ {
		t.Errorf("docs/%s is stale: run `go run ./internal/docgen`", path)
	}
}

func TestAStalePageIsFoundAndWritten(t *testing.T) {
	docs := t.TempDir()
	require.ErrorContains(t, run(docs, true), "is stale")
	require.NoError(t, run(docs, false))
	require.NoError(t, run(docs, true))
	require.NoError(t, os.WriteFile(filepath.Join(docs, "config.md"), []byte("old"), 0o644))
	require.ErrorContains(t, run(docs, true), "docs/config.md is stale")
}
