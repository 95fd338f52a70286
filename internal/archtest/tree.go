package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// Tree is the source of one module: its Go files, parsed, and the other text files that people read.
type Tree struct {
	module string
	fset   *token.FileSet
	goFile []goFile
	text   []textFile
}

// goFile is one parsed file. pkg is the folder, relative to the module's root ("" is the root itself).
type goFile struct {
	path   string
	pkg    string
	source []byte
	ast    *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// imports returns the file's import paths.
func (f goFile) imports() []string {
	out := make([]string, 0, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (f goFile) lines() int { return bytes.Count(f.source, []byte("\n")) }

// textFile is a file that is not Go but is part of what a reader sees.
type textFile struct {
	path   string
	source []byte
}

// textEndings are the endings (or whole names) of files whose words are checked besides Go's.
var textEndings = []string{".md", ".sh", ".sql", ".yaml", ".yml", ".txt", ".toml", ".json", "Makefile", "Dockerfile", ".ci/run"}

// ReadTree reads every file of the module: nested modules, testdata, hidden folders (but .ci) and node_modules stay out.
// A file that does not parse is an error that names it.
func ReadTree(root fs.FS, module string) (*Tree, error) {
	t := &Tree{module: module, fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a file of another's build that came and went
		case err != nil:
			return err
		case d.IsDir():
			return skipDir(root, p)
		case strings.HasSuffix(p, ".go"):
			return t.addGo(root, p)
		}
		for _, end := range textEndings {
			if strings.HasSuffix(p, end) {
				return t.addText(root, p)
			}
		}
		return nil
	})
	sort.Slice(t.goFile, func(i, j int) bool { return t.goFile[i].path < t.goFile[j].path })
	return t, err
}

func skipDir(root fs.FS, p string) error {
	name := path.Base(p)
	hidden := strings.HasPrefix(name, ".") && p != "." && name != ".ci"
	if hidden || name == "testdata" || name == "node_modules" || name == "bin" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(p, "go.mod")); err == nil && p != "." {
		return fs.SkipDir
	}
	return nil
}

func (t *Tree) addGo(root fs.FS, p string) error {
	source, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.fset, p, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("does not parse: %w", err)
	}
	pkg := path.Dir(p)
	if pkg == "." {
		pkg = ""
	}
	t.goFile = append(t.goFile, goFile{path: p, pkg: pkg, source: source, ast: file})
	return nil
}

func (t *Tree) addText(root fs.FS, p string) error {
	source, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	t.text = append(t.text, textFile{path: p, source: source})
	return nil
}

// own turns an import path into a folder of the module; the second result is false for foreign imports.
func (t *Tree) own(importPath string) (string, bool) {
	if importPath == t.module {
		return "", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

// at gives "path:line" of a node.
func (t *Tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}
