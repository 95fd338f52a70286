package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// mdLink finds the target of a Markdown link.
var mdLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// CheckLinks refuses links between the project's own pages that lead nowhere.
func CheckLinks(root fs.FS, t *Tree) []string {
	var faults []string
	for _, f := range t.text {
		if !strings.HasSuffix(f.path, ".md") {
			continue
		}
		for _, m := range mdLink.FindAllSubmatch(f.source, -1) {
			target, _, _ := strings.Cut(string(m[1]), "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := fs.Stat(root, path.Join(path.Dir(f.path), target)); err != nil {
				faults = append(faults, fmt.Sprintf("%s links to %s, which does not exist", f.path, target))
			}
		}
	}
	return faults
}
