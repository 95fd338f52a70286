package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// event is one record of the main job's stream. A nil value is a tombstone.
type event struct {
	key, value []byte
	ms         int64
}

const streamLength = 98_257

// generatedStream is shaped like the history of a large repository: 98,257 changes of ten thousand files between
// August 2011 and the end of 2024, many with the timestamp of the one before, a few that go back in time, one in
// thirty a tombstone, values of about 200 bytes. It is the same each time, and one for all tests, which do not change it.
var generatedStream = sync.OnceValue(func() []event {
	rng := rand.New(rand.NewPCG(2011, 2024))
	first := time.Date(2011, 8, 1, 23, 41, 24, 0, time.UTC).UnixMilli()
	last := time.Date(2024, 12, 31, 22, 0, 0, 0, time.UTC).UnixMilli()
	events := make([]event, streamLength)
	var commit string
	ms := first
	for i := range events {
		if i > 0 && rng.IntN(100) < 14 { // a new commit; the others belong to the one before
			ms = first + int64(float64(last-first)*float64(i)/streamLength)/1000*1000
			commit = ""
		}
		if commit == "" {
			commit = fmt.Sprintf("%016x%016x%08x", rng.Uint64(), rng.Uint64(), rng.Uint32())
		}
		at := ms
		if i%30_000 == 29_999 {
			at -= 5_000_000_000
		}
		file := rng.IntN(10_061)
		events[i] = event{key: fmt.Appendf(nil, "core/src/main/module-%d/File%d.java", file%97, file), ms: at}
		if rng.IntN(30) > 0 {
			events[i].value = fmt.Appendf(nil, `{"commit":%q,"blob":"%016x%016x%08x","mode":"100644","op":"M","added":%d,"removed":%d,"n":%d}`,
				commit, rng.Uint64(), rng.Uint64(), rng.Uint32(), rng.IntN(400), rng.IntN(90), i)
		}
	}
	return events
})

// realStream reads the history that lies beside the checkout of who builds this; a user has it not.
func realStream(t *testing.T) []event {
	root, err := harness.ModuleRoot()
	require.NoError(t, err)
	f, err := os.Open(filepath.Join(root, "..", "shared", "data", "kafka-history.jsonl.zst"))
	if os.IsNotExist(err) {
		t.Skip("the real stream is not here; TestMainJob has one of its shape")
	}
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	var events []event
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var line struct {
			K  string          `json:"k"`
			TS int64           `json:"ts"`
			V  json.RawMessage `json:"v"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		e := event{key: []byte(line.K), ms: line.TS}
		if string(line.V) != "null" {
			e.value = line.V
		}
		events = append(events, e)
	}
	require.NoError(t, lines.Err())
	require.Len(t, events, streamLength)
	return events
}
