package main

import "testing"

// Each of the two programs' runs keeps what the other has written.
func TestTheClustersSectionStaysWhereItIs(t *testing.T) {
	page := withSection("# Benchmarks\n\none broker\n", "\nthree\n")
	if want := "# Benchmarks\n\none broker\n\n" + sectionBegin + "\n\nthree\n" + sectionEnd + "\n"; page != want {
		t.Fatalf("%q", page)
	}
	if got := section(page); got != "\nthree\n" {
		t.Errorf("the section is %q", got)
	}
	again := withSection(page, "\nthree again\n")
	if got := section(again); got != "\nthree again\n" {
		t.Errorf("written again it is %q", got)
	}
	if got := withSection("# Benchmarks\n\none broker again\n", section(page)); section(got) != "\nthree\n" {
		t.Errorf("one broker measured again: %q", got)
	}
	if got := withSection("# Benchmarks\n", section("# Benchmarks\n")); got != "# Benchmarks\n" {
		t.Errorf("no section: %q", got)
	}
}
