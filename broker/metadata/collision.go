package metadata

import "strings"

// Collides finds a live topic whose name differs from the given one in '.' and '_' alone, so that
// metrics could not tell them apart (Kafka refuses such a pair).
func (im *Image) Collides(name string) (other string, ok bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	flat := strings.ReplaceAll(name, ".", "_")
	for n := range im.byName {
		if len(n) == len(name) && n != name && strings.ReplaceAll(n, ".", "_") == flat {
			return n, true
		}
	}
	return "", false
}
