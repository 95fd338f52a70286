package archtest

import (
	"fmt"
	"strings"
)

// Layout is the parsed import table: who may import whom, who alone may import a foreign package, which packages are
// pure and which exist for tests only. See layout.txt for the language.
type Layout struct {
	may   []edge
	test  []edge
	only  []edge
	pure  []string
	aside []string
}

// edge is one line of the table: every package of left is allowed (or, for `only`, alone allowed) the right.
type edge struct {
	left  []string
	right []string
}

// ParseLayout reads the table. Its error names the first line that is not understood.
func ParseLayout(text string) (Layout, error) {
	var l Layout
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		left, right, hasColon := strings.Cut(rest, " :")
		e := edge{left: strings.Fields(left), right: strings.Fields(right)}
		bare := verb == "pure" || verb == "aside"
		if len(e.left) == 0 || bare == hasColon {
			return Layout{}, fmt.Errorf("layout.txt:%d: %q is neither `may|test|only LEFT : RIGHT` nor `pure|aside LIST`", i+1, line)
		}
		switch verb {
		case "may":
			l.may = append(l.may, e)
		case "test":
			l.test = append(l.test, e)
		case "only":
			l.only = append(l.only, e)
		case "pure":
			l.pure = append(l.pure, e.left...)
		case "aside":
			l.aside = append(l.aside, e.left...)
		default:
			return Layout{}, fmt.Errorf("layout.txt:%d: unknown word %q", i+1, verb)
		}
	}
	return l, nil
}

// covers says whether the pattern (`x` or `x/...`) names the path.
func covers(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	}
	return pattern == path
}

func coversAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if covers(p, path) {
			return true
		}
	}
	return false
}

// allowed returns the right side of the `may` line that holds for a package: the longest left side that covers it, an
// exact name before a subtree of the same length. The second result is false where the table does not know the package.
func (l Layout) allowed(pkg string) ([]string, bool) {
	best, found := -1, false
	var right []string
	for _, e := range l.may {
		for _, p := range e.left {
			n := 2 * len(strings.TrimSuffix(p, "/..."))
			if !strings.HasSuffix(p, "/...") {
				n++
			}
			if covers(p, pkg) && n > best {
				best, found, right = n, true, e.right
			}
		}
	}
	return right, found
}

// testAllowed returns what the tests of a package may import on top.
func (l Layout) testAllowed(pkg string) []string {
	var out []string
	for _, e := range l.test {
		if coversAny(e.left, pkg) {
			out = append(out, e.right...)
		}
	}
	return out
}

// isAside says whether a package exists for tests only.
func (l Layout) isAside(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || coversAny(l.aside, pkg)
}
