package topicconfig

// Nearest returns the known name with the fewest single-letter edits from name, or "" if the nearest one needs more than
// a third of the name's length: a stranger, not a slip.
func Nearest(name string, known []string) string {
	best, near := len(name)/3+1, ""
	for _, k := range known {
		if d := edits(name, k); d < best {
			best, near = d, k
		}
	}
	return near
}

// edits is the Levenshtein distance of two short names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
