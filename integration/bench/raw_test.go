package main

import (
	"encoding/binary"
	"slices"
	"testing"
)

// P16: what a broker can give is measured by a fetcher that decodes and checks nothing, and the row's name says so; both the
// short selection and the whole matrix have it, beside clients that somebody has.
func TestP16_HotConsumeIsMeasuredByAFetcherThatDiscards(t *testing.T) {
	for name, rows := range map[string][]row{"selection": selection(), "matrix": matrix()} {
		for _, client := range []string{"raw", "librdkafka", "franz-go"} {
			want := consumeRow(client, 1024)
			i := slices.IndexFunc(rows, func(r row) bool { return r.Name == want.Name })
			if i < 0 || rows[i].Kind != kindConsume || rows[i].Client != client {
				t.Errorf("%s: no row %q", name, want.Name)
			}
			if name == "selection" && client == "raw" && rows[i].Side {
				t.Errorf("%q does not run in every round", want.Name)
			}
		}
	}
	// Records of a batch are taken from its header: this one's body is no records at all, and its checksum is wrong.
	batch := make([]byte, batchHeader+5)
	binary.BigEndian.PutUint64(batch, 40)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[23:], 9)
	if n, next := walk(append(batch, batch[:30]...), 40); n != 10 || next != 50 {
		t.Errorf("%d records up to %d", n, next)
	}
}
