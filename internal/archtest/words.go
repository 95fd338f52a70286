package archtest

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// maxLines is the hard limit of a file's length; 400 is the aim.
const maxLines = 600

// nothingNames name nothing anywhere in a file's or folder's name; wholeNames only where they are the whole of it.
var (
	nothingNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "manager"}
	wholeNames   = []string{"types", "base", "shared", "lib"}
)

// todo finds the words of unfinished work as words of their own.
var todo = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// machinePaths find folders of somebody's machine. The patterns are cut in two so that this file passes.
var machinePaths = regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])/(ro` + `ot|wo` + `rk)/`)

// CheckNames refuses files and folders whose name says nothing about what is in them.
func CheckNames(t *Tree) []string {
	var faults []string
	seen := map[string]bool{}
	for _, f := range t.goFile {
		for _, part := range strings.Split(f.path, "/") {
			stem := strings.TrimSuffix(strings.TrimSuffix(part, ".go"), "_test")
			if word := nothingIn(stem); word != "" && !seen[f.pkg+part] {
				seen[f.pkg+part] = true
				faults = append(faults, fmt.Sprintf("%s: %q names nothing; name the thing", f.path, word))
			}
		}
	}
	return faults
}

func nothingIn(stem string) string {
	for _, w := range wholeNames {
		if stem == w {
			return w
		}
	}
	for _, part := range strings.Split(stem, "_") {
		for _, w := range nothingNames {
			if part == w {
				return w
			}
		}
	}
	return ""
}

// CheckLengths refuses Go files above 600 lines, generated ones (with Go's own mark for them) excepted.
func CheckLengths(t *Tree) []string {
	var faults []string
	for _, f := range t.goFile {
		if n := f.lines(); n > maxLines && !generated(f) {
			faults = append(faults, fmt.Sprintf("%s has %d lines, more than %d: it wants a second file", f.path, n, maxLines))
		}
	}
	return faults
}

func generated(f goFile) bool {
	return bytes.HasPrefix(f.source, []byte("// Code generated "))
}

// CheckWords refuses marks of unfinished work and folders of somebody's machine, in code and in what people read.
func CheckWords(t *Tree) []string {
	var faults []string
	check := func(name string, source []byte) {
		for i, line := range bytes.Split(source, []byte("\n")) {
			if m := todo.Find(line); m != nil {
				faults = append(faults, fmt.Sprintf("%s:%d: %q: finish it, or say it in docs/limits.md", name, i+1, m))
			}
			if machinePaths.Match(line) {
				faults = append(faults, fmt.Sprintf("%s:%d names a folder of one machine: %s", name, i+1, bytes.TrimSpace(line)))
			}
		}
	}
	for _, f := range t.goFile {
		check(f.path, f.source)
	}
	for _, f := range t.text {
		if path.Base(f.path) != "layout.txt" {
			check(f.path, f.source)
		}
	}
	return faults
}
