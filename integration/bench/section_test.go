package main

import "testing"

// Each of the two programs' runs keeps what the other has written.
func TestTheClustersSectionStaysWhereItIs(t *testing.T) {
	const name = clusterSection
	page := withSection("# Benchmarks\n\none broker\n", name, "\nthree\n")
	if want := "# Benchmarks\n\none broker\n\n" + sectionBegin(name) + "\nthree\n" + sectionEnd(name); page != want {
		t.Fatalf("%q", page)
	}
	if got := section(page, name); got != "\nthree\n" {
		t.Errorf("the section is %q", got)
	}
	again := withSection(page, name, "\nthree again\n")
	if got := section(again, name); got != "\nthree again\n" {
		t.Errorf("written again it is %q", got)
	}
	if got := withSection("# Benchmarks\n\none broker again\n", name, section(page, name)); section(got, name) != "\nthree\n" {
		t.Errorf("one broker measured again: %q", got)
	}
	if got := withSection("# Benchmarks\n", name, section("# Benchmarks\n", name)); got != "# Benchmarks\n" {
		t.Errorf("no section: %q", got)
	}
	both := withSection(page, compactionSection, "\ncleaners\n")
	both = withSection(both, name, "\nthree again\n")
	if section(both, name) != "\nthree again\n" || section(both, compactionSection) != "\ncleaners\n" {
		t.Errorf("two sections: %q", both)
	}
}
