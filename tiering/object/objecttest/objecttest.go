// Package objecttest makes whole remote segments for tests of whoever reads a bucket.
//
// Place in the house: for tests only; it knows the layout through tiering/object and no store.
package objecttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/tiering/object"
)

// Time is the timestamp of the record at an offset, in milliseconds.
func Time(o record.Offset) int64 { return 1_700_000_000_000 + int64(o)*1000 }

// Build makes an object of the spec's range, of batches of two records each; the record at offset o is
// k<o> = v<o>.
func Build(t testing.TB, s object.Spec) (*object.Built, []byte) {
	t.Helper()
	var data []byte
	for at := s.Base; at < s.Next; at += 2 {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: at, LeaderEpoch: s.LeaderEpoch})
		for o := at; o < min(at+2, s.Next); o++ {
			b.Add(Time(o), fmt.Appendf(nil, "k%d", o), fmt.Appendf(nil, "v%d", o))
		}
		data = append(data, b.Build()...)
	}
	if s.Attempt == "" {
		s.Attempt = object.NewAttempt()
	}
	built, err := object.Build(context.Background(), s, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, s.Next, built.Next)
	raw, err := io.ReadAll(io.NewSectionReader(built, 0, built.ObjectBytes))
	require.NoError(t, err)
	return built, raw
}
