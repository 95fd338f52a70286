package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"math/rand/v2"
	"os"

	"github.com/klauspost/compress/zstd"
)

// The shape of a large repository's history as a stream: changes of files, many of which are gone in the end.
const (
	historyRecords = 98_257
	historyFiles   = 10_061
	historyLive    = 6_519
)

// keyedStream is what both brokers compact: records, each with a key.
type keyedStream struct {
	Name    string
	Segment int   // segment.bytes
	Records int   // how many
	Keys    int   // that differ: the records that stay, as no tombstone is old enough to go
	Bytes   int64 // of keys and values
	each    iter.Seq2[[]byte, []byte]
	last    map[string]uint64 // sum of each key's last value
}

// newKeyedStream goes through the records once. The slices that each yields must stay as they are.
func newKeyedStream(name string, segment int, each iter.Seq2[[]byte, []byte]) *keyedStream {
	s := &keyedStream{Name: name, Segment: segment, each: each, last: map[string]uint64{}}
	for key, value := range each {
		s.Records++
		s.Bytes += int64(len(key) + len(value))
		s.last[string(key)] = valueSum(value)
	}
	s.Keys = len(s.last)
	return s
}

var valueSeed = maphash.MakeSeed()

// valueSum tells values apart; a tombstone's is 0.
func valueSum(value []byte) uint64 {
	if value == nil {
		return 0
	}
	return maphash.Bytes(valueSeed, value) | 1
}

// keyedStreams are the history, read from a file where one is given, and records of 1 KiB.
func keyedStreams(s settings) ([]*keyedStream, error) {
	history, name := generatedHistory(), "history of a repository, of its shape"
	if s.Stream != "" {
		var err error
		if history, err = readHistory(s.Stream); err != nil {
			return nil, fmt.Errorf("BENCH_STREAM: %w", err)
		}
		name = "history of a repository"
	}
	return []*keyedStream{
		newKeyedStream(name, 1<<20, history),
		newKeyedStream("1 KiB", 64<<20, generatedKeyed(int(s.Compact>>10))),
	}, nil
}

// generatedHistory has all files in its first records, and then changes of files of which some change often.
func generatedHistory() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rng := rand.New(rand.NewPCG(2011, 2024))
		files, last := make([]int, historyRecords), make([]int, historyFiles)
		for i := range files {
			files[i] = i
			if i >= historyFiles {
				u := rng.Float64()
				files[i] = int(u * u * historyFiles)
			}
			last[files[i]] = i
		}
		for i, file := range files {
			key := fmt.Appendf(nil, "core/src/main/module-%d/File%d.java", file%97, file)
			var value []byte
			if last[file] != i || file*historyLive%historyFiles < historyLive { // as many live in the end, of all kinds
				value = fmt.Appendf(nil, `{"commit":"%016x%016x%08x","blob":"%016x%016x%08x","mode":"100644","op":"M","added":%d,"removed":%d}`,
					rng.Uint64(), rng.Uint64(), rng.Uint32(), rng.Uint64(), rng.Uint64(), rng.Uint32(), rng.IntN(400), rng.IntN(90))
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// readHistory reads lines of {"k": key, "ts": milliseconds, "v": value or null}, compressed by zstd.
func readHistory(path string) (iter.Seq2[[]byte, []byte], error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var keys, values [][]byte
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			K string          `json:"k"`
			V json.RawMessage `json:"v"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(keys)+1, err)
		}
		if bytes.Equal(line.V, []byte("null")) {
			line.V = nil
		}
		keys, values = append(keys, []byte(line.K)), append(values, line.V)
	}
	return func(yield func(key, value []byte) bool) {
		for i := range keys {
			if !yield(keys[i], values[i]) {
				return
			}
		}
	}, lines.Err()
}

// supersededShare is how many of the records of 1 KiB have a newer one with their key.
const supersededShare = 0.85

// generatedKeyed has n records of 1 KiB, key and value together, with keys drawn evenly.
func generatedKeyed(n int) iter.Seq2[[]byte, []byte] {
	keys := max(1, int(float64(n)*(1-supersededShare)))
	values := payload(1024)
	return func(yield func(key, value []byte) bool) {
		rng := rand.New(rand.NewPCG(85, uint64(n)))
		for i := range n {
			key := fmt.Appendf(nil, "user-%011d", rng.IntN(keys))
			value := append([]byte(nil), values[i%len(values)][:1024-len(key)]...)
			copy(value, fmt.Appendf(nil, `{"n":"%014d"`, i)) // no two are the same
			if !yield(key, value) {
				return
			}
		}
	}
}
