package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "tidemark"

// theTree reads the project once for all tests of this file.
func theTree(t *testing.T) *Tree {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	tree, err := ReadTree(os.DirFS(root), module)
	require.NoError(t, err)
	require.NotEmpty(t, tree.goFile)
	return tree
}

func theLayout(t *testing.T) Layout {
	t.Helper()
	text, err := os.ReadFile("layout.txt")
	require.NoError(t, err)
	l, err := ParseLayout(string(text))
	require.NoError(t, err)
	return l
}

// TestTheHouse holds every rule over the whole project; each rule is a subtest, so that a failure names it.
func TestTheHouse(t *testing.T) {
	tree := theTree(t)
	layout := theLayout(t)
	rules := []struct {
		name  string
		check func(*Tree) []string
	}{
		{"imports follow layout.txt", func(tr *Tree) []string { return CheckImports(tr, layout) }},
		{"every package and exported name has a comment", CheckComments},
		{"no file is too long", CheckLengths},
		{"names say what is inside", CheckNames},
		{"functions stay small", CheckShape},
		{"tests do not sleep", CheckSleeps},
		{"nothing unfinished, nothing of one machine", CheckWords},
		{"every setting is read", func(tr *Tree) []string { return CheckSettings(tr, "broker/config") }},
		{"links between pages lead somewhere", func(tr *Tree) []string { return CheckLinks(os.DirFS("../.."), tr) }},
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			if faults := rule.check(tree); len(faults) > 0 {
				t.Errorf("%d faults:\n  %s", len(faults), strings.Join(faults, "\n  "))
			}
		})
	}
}
