package archtest

import (
	"fmt"
	"go/ast"
)

// maxFuncLines is the hard limit of a function's length outside tests; 60 is the aim.
const maxFuncLines = 100

// maxParams is the most parameters of a function outside tests: five, and a context.
const maxParams = 6

// CheckShape refuses functions that are too long or take too much, outside tests.
func CheckShape(t *Tree) []string {
	var faults []string
	for _, f := range t.goFile {
		if f.isTest() || generated(f) {
			continue
		}
		for _, decl := range f.ast.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.fset.Position(d.End()).Line - t.fset.Position(d.Pos()).Line + 1
			if n > maxFuncLines {
				faults = append(faults, fmt.Sprintf("%s: %s has %d lines, more than %d", t.at(d.Pos()), d.Name.Name, n, maxFuncLines))
			}
			if n := d.Type.Params.NumFields(); n > maxParams {
				faults = append(faults, fmt.Sprintf("%s: %s has %d parameters, more than %d", t.at(d.Pos()), d.Name.Name, n, maxParams))
			}
		}
	}
	return faults
}

// CheckSleeps refuses time.Sleep in tests: a test waits for a condition, with a deadline. In a testing/synctest bubble a
// sleep advances the bubble's clock and waits for nothing, so files that use it are free.
func CheckSleeps(t *Tree) []string {
	var faults []string
	for _, f := range t.goFile {
		if !f.isTest() || importsAny(f, "testing/synctest") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				faults = append(faults, fmt.Sprintf("%s: time.Sleep in a test: wait for a condition with a deadline", t.at(n.Pos())))
			}
			return true
		})
	}
	return faults
}

func importsAny(f goFile, want string) bool {
	for _, imp := range f.imports() {
		if imp == want {
			return true
		}
	}
	return false
}
