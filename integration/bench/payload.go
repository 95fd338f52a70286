package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
)

// payloadBytes is how much of a payload is different before it repeats.
const payloadBytes = 2 << 20

// payload makes values of one size that compress as events do: JSON with names that repeat and numbers that do not.
func payload(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, uint64(size)))
	kinds := []string{"view", "cart", "checkout", "return", "search"}
	countries := []string{"DE", "FR", "US", "JP", "BR"}
	values := make([][]byte, max(64, payloadBytes/size))
	for i := range values {
		var b bytes.Buffer
		for b.Len() < size {
			fmt.Fprintf(&b, `{"id":"%016x","at":%d,"user":"user-%d","kind":"%s","amount":%.2f,"country":"%s"}`,
				random.Uint64(), 1700000000000+random.Int64N(1e9), random.IntN(100000), kinds[random.IntN(len(kinds))],
				random.Float64()*500, countries[random.IntN(len(countries))])
		}
		values[i] = b.Bytes()[:size]
	}
	return values
}

// writePayload writes the values with a line feed after each.
func writePayload(path string, values [][]byte) error {
	return os.WriteFile(path, append(bytes.Join(values, []byte("\n")), '\n'), 0o644)
}
