package archtest

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// tree makes a module of the given files; names map to sources.
func tree(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	m := fstest.MapFS{}
	for name, source := range files {
		m[name] = &fstest.MapFile{Data: []byte(source)}
	}
	tr, err := ReadTree(m, "m")
	require.NoError(t, err)
	return tr
}

const smallLayout = `
may a/... : a/...
may b : a
may b/deep : a b
may c :
may env :
may ctest : c
test b : c
only x.org/db/... : a
pure a/...
aside env
`

func TestImportsAreJudgedByTheTable(t *testing.T) {
	layout, err := ParseLayout(smallLayout)
	require.NoError(t, err)
	rows := []struct {
		story, file, imports string
		fault                string // "" is allowed
	}{
		{"an edge of the table", "b/b.go", "m/a", ""},
		{"an edge that nobody reviewed", "b/b.go", "m/c", "does not allow b that edge"},
		{"the same edge in a test, where a test line allows it", "b/b_test.go", "m/c", ""},
		{"the longest left side holds", "b/deep/d.go", "m/b", ""},
		{"a subtree may import itself", "a/in/x.go", "m/a", ""},
		{"a package's external test imports the package", "c/c_test.go", "m/c", ""},
		{"test-only code in a test", "b/b_test.go", "m/env", ""},
		{"test-only code in the product", "b/b.go", "m/env", "exists for tests only"},
		{"a package named …test is test-only", "b/b.go", "m/ctest", "exists for tests only"},
		{"test-only code may use test-only code", "ctest/x.go", "m/env", ""},
		{"a driver where it belongs", "a/x.go", "x.org/db/pool", ""},
		{"a driver elsewhere", "c/x.go", "x.org/db/pool", "which only [a] may"},
		{"a pure package opens files", "a/x.go", "os", "is pure"},
		{"its test may", "a/x_test.go", "os", ""},
		{"a folder that the table does not know", "new/x.go", "fmt", "not in layout.txt"},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			tr := tree(t, map[string]string{row.file: "package p\nimport _ \"" + row.imports + "\"\n"})
			faults := strings.Join(CheckImports(tr, layout), "\n")
			if row.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Contains(t, faults, row.fault)
			}
		})
	}
}

func TestALayoutThatSaysNothingIsRefused(t *testing.T) {
	for _, text := range []string{"may a b", "pure a : b", "perhaps a : b", "may : b"} {
		_, err := ParseLayout(text)
		require.ErrorContains(t, err, "layout.txt:1", text)
	}
}

func TestCommentsAreWanted(t *testing.T) {
	rows := []struct {
		story, body string
		fault       string
	}{
		{"a bare function", "func F() {}", "exported F"},
		{"an exported function with a comment", "// F works.\nfunc F() {}", ""},
		{"an unexported function", "func f() {}", ""},
		{"a bare type", "type T struct{}", "exported T"},
		{"a method of a hidden type", "type t struct{}\nfunc (t) M() {}", ""},
		{"a method of a shown type", "// T is.\ntype T struct{}\nfunc (*T) M() {}", "exported M"},
		{"a method that the standard library defines", "// T is.\ntype T struct{}\nfunc (*T) String() string { return \"\" }", ""},
		{"a group under one comment", "// Modes.\nconst (\nA = 1\nB = 2\n)", ""},
		{"a group of which one has a comment behind it", "const (\nA = 1 // first\nB = 2\n)", "exported B"},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			tr := tree(t, map[string]string{"a/a.go": "// Package a is.\npackage a\n" + row.body + "\n"})
			faults := strings.Join(CheckComments(tr), "\n")
			if row.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Contains(t, faults, row.fault)
			}
		})
	}
}

func TestThePackageCommentHasOnePlace(t *testing.T) {
	require.Contains(t, CheckComments(tree(t, map[string]string{"a/a.go": "package a"}))[0], "no package comment")
	two := map[string]string{"a/doc.go": "// Package a is.\npackage a", "a/b.go": "// Package a too.\npackage a"}
	require.Contains(t, CheckComments(tree(t, two))[0], "keep one")
	wrong := map[string]string{"a/a.go": "// Package a is.\npackage a", "a/b.go": "package a"}
	require.Contains(t, CheckComments(tree(t, wrong))[0], "belongs in doc.go")
}

func TestWordsNamesAndSleeps(t *testing.T) {
	tr := tree(t, map[string]string{
		"a/string_util.go": "package a\n// TO" + "DO later\n",
		"a/base_offset.go": "package a\n",
		"types/x.go":       "package types\n",
		"a/long.go":        "package a\n" + strings.Repeat("\n", 700),
		"a/a_test.go":      "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
		"a/b_test.go":      "package a\nimport (\"time\"; _ \"testing/synctest\")\nfunc g() { time.Sleep(1) }\n",
		"README.md":        "see /ro" + "ot/notes and ./work/here\n",
		"a/testdata/x.go":  "not go at all",
		"nested/go.mod":    "module nested",
		"nested/x.go":      "not go either",
	})
	require.Len(t, CheckNames(tr), 2)
	require.Len(t, CheckLengths(tr), 1)
	require.Len(t, CheckSleeps(tr), 1)
	require.Contains(t, CheckSleeps(tr)[0], "a/a_test.go:3")
	require.Len(t, CheckWords(tr), 2)
}

func TestFunctionsStaySmall(t *testing.T) {
	tr := tree(t, map[string]string{
		"a/a.go":      "package a\nfunc long() {\n" + strings.Repeat("_ = 1\n", 120) + "}\nfunc many(a, b, c, d, e, f, g int) {}\n",
		"a/a_test.go": "package a\nfunc alsoLong() {\n" + strings.Repeat("_ = 1\n", 120) + "}\n",
	})
	require.Len(t, CheckShape(tr), 2)
}

func TestASettingThatNobodyReads(t *testing.T) {
	tr := tree(t, map[string]string{
		"c/c.go":      "package c\ntype C struct {\nUsed int `env:\"A\"`\nIdle int `env:\"B\"`\nMade int `env:\"-\"`\n}\nfunc (c C) x() int { return c.Idle }\n",
		"b/b.go":      "package b\nvar x = cfg.Used\n",
		"b/b_test.go": "package b\nvar y = cfg.Idle\n",
	})
	faults := CheckSettings(tr, "c")
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "nobody reads Idle (B)")
}

func TestLinksLeadSomewhere(t *testing.T) {
	root := fstest.MapFS{
		"README.md":  {Data: []byte("[a](docs/a.md#part) [b](docs/b.md) [c](https://x.org/y) [d](#here)")},
		"docs/a.md":  {Data: []byte("[up](../README.md)")},
		"docs/x.txt": {Data: []byte("[no](page.md)")},
	}
	tr, err := ReadTree(root, "m")
	require.NoError(t, err)
	require.Equal(t, []string{"README.md links to docs/b.md, which does not exist"}, CheckLinks(root, tr))
}
