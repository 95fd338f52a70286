package archtest

import (
	"fmt"
	"go/ast"
	"reflect"
	"strconv"
)

// CheckSettings refuses settings that nobody reads: a field with an `env` tag in the given package whose name no code
// outside that package selects. A variable that does nothing is a lie in docs/config.md.
func CheckSettings(t *Tree, pkg string) []string {
	read := map[string]bool{}
	for _, f := range t.goFile {
		if f.pkg == pkg || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				read[sel.Sel.Name] = true
			}
			return true
		})
	}
	var faults []string
	for _, f := range t.goFile {
		if f.pkg != pkg || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || len(field.Names) == 0 {
				return true
			}
			tag, _ := strconv.Unquote(field.Tag.Value)
			name := field.Names[0].Name
			if variable := reflect.StructTag(tag).Get("env"); variable != "" && variable != "-" && !read[name] {
				faults = append(faults, fmt.Sprintf("%s: nobody reads %s (%s): use it or take it out", t.at(field.Pos()), name, variable))
			}
			return true
		})
	}
	return faults
}
