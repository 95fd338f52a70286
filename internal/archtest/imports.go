package archtest

import "fmt"

// impure are the imports that a pure package may not have: what reaches outside the process, and the log.
var impure = []string{"os", "os/...", "net", "net/...", "syscall", "database/sql/...", "log", "log/...",
	"golang.org/x/sys/...", "github.com/prometheus/..."}

// CheckImports returns one sentence for each import that the layout does not allow.
func CheckImports(t *Tree, l Layout) []string {
	var faults []string
	unknown := map[string]bool{}
	for _, f := range t.goFile {
		right, known := l.allowed(f.pkg)
		if !known && !unknown[f.pkg] {
			unknown[f.pkg] = true
			faults = append(faults, fmt.Sprintf("package %q is not in layout.txt: give it a `may` line", f.pkg))
		}
		if f.isTest() {
			right = append(append([]string(nil), right...), l.testAllowed(f.pkg)...)
		}
		for _, imp := range f.imports() {
			if own, ok := t.own(imp); ok {
				if why := l.refuseOwn(f, own, right); why != "" {
					faults = append(faults, why)
				}
			} else if why := l.refuseForeign(f, imp); why != "" {
				faults = append(faults, why)
			}
		}
	}
	return faults
}

// refuseOwn judges one import inside the module; "" is yes.
func (l Layout) refuseOwn(f goFile, own string, right []string) string {
	switch {
	case own == f.pkg, coversAny(right, own) && (!l.isAside(own) || f.isTest() || l.isAside(f.pkg)):
		return ""
	case l.isAside(own) && (f.isTest() || l.isAside(f.pkg)):
		return ""
	case l.isAside(own):
		return fmt.Sprintf("%s imports %s, which exists for tests only", f.path, own)
	}
	return fmt.Sprintf("%s imports %s: layout.txt does not allow %s that edge", f.path, own, f.pkg)
}

// refuseForeign judges one import from outside the module; "" is yes.
func (l Layout) refuseForeign(f goFile, imp string) string {
	if f.isTest() {
		return ""
	}
	for _, e := range l.only {
		if coversAny(e.left, imp) && !coversAny(e.right, f.pkg) {
			return fmt.Sprintf("%s imports %s, which only %v may", f.path, imp, e.right)
		}
	}
	if coversAny(l.pure, f.pkg) && coversAny(impure, imp) && !l.isAside(f.pkg) {
		return fmt.Sprintf("%s imports %s, but %s is pure", f.path, imp, f.pkg)
	}
	return ""
}
