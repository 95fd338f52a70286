package archtest

import (
	"fmt"
	"go/ast"
	"sort"
	"strings"
)

// wellKnown are methods whose contract is the standard library's; a comment would only repeat it.
var wellKnown = map[string]bool{
	"String": true, "Error": true, "Unwrap": true, "Is": true, "As": true, "Len": true, "Less": true, "Swap": true,
	"Read": true, "Write": true, "ReadAt": true, "Seek": true, "MarshalText": true, "UnmarshalText": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "LogValue": true, "ServeHTTP": true, "GoString": true, "Format": true,
	"Describe": true, "Collect": true,
}

// CheckComments wants a package comment in every package (in doc.go, or in the only file that has code) and a comment on
// everything exported. A group of constants or variables may share the comment above it.
func CheckComments(t *Tree) []string {
	var faults []string
	files := map[string][]goFile{}
	for _, f := range t.goFile {
		if !f.isTest() {
			files[f.pkg] = append(files[f.pkg], f)
			faults = append(faults, exportedWithoutComment(t, f)...)
		}
	}
	var pkgs []string
	for pkg := range files {
		pkgs = append(pkgs, pkg)
	}
	sort.Strings(pkgs)
	for _, pkg := range pkgs {
		faults = append(faults, packageComment(pkg, files[pkg])...)
	}
	return faults
}

func packageComment(pkg string, files []goFile) []string {
	var holders []goFile
	for _, f := range files {
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			holders = append(holders, f)
		}
	}
	switch {
	case len(holders) == 0:
		return []string{fmt.Sprintf("package %s has no package comment: write %s/doc.go", pkg, pkg)}
	case len(holders) > 1:
		return []string{fmt.Sprintf("package %s has %d package comments (%s, %s): keep one", pkg, len(holders), holders[0].path, holders[1].path)}
	case len(files) > 1 && !strings.HasSuffix(holders[0].path, "doc.go") && !strings.HasSuffix(holders[0].path, "main.go"):
		return []string{fmt.Sprintf("package %s has its comment in %s: it belongs in doc.go", pkg, holders[0].path)}
	}
	return nil
}

func exportedWithoutComment(t *Tree, f goFile) []string {
	var faults []string
	report := func(n ast.Node, name string) {
		faults = append(faults, fmt.Sprintf("%s: exported %s has no comment", t.at(n.Pos()), name))
	}
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && !exempt(d) {
				report(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if name := undocumented(d, spec); name != "" {
					report(spec, name)
				}
			}
		}
	}
	return faults
}

// exempt says whether a method needs no comment: its receiver is not exported, or its contract is well known.
func exempt(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return !x.IsExported() || wellKnown[d.Name.Name]
		default:
			return false
		}
	}
}

// undocumented returns the first exported name of the spec that no comment covers.
func undocumented(d *ast.GenDecl, spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
			return s.Name.Name
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return ""
		}
		for _, n := range s.Names {
			if n.IsExported() {
				return n.Name
			}
		}
	}
	return ""
}
