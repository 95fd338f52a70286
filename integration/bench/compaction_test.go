package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// The generated history is as large, has as many keys and leaves as many files as the real one, each time the same.
func TestTheGeneratedHistoryHasTheShapeOfTheRealOne(t *testing.T) {
	s, again := newKeyedStream("", 1<<20, generatedHistory()), newKeyedStream("", 1<<20, generatedHistory())
	if s.Records != historyRecords || s.Keys != historyFiles {
		t.Errorf("%d records of %d keys", s.Records, s.Keys)
	}
	live := 0
	for key, sum := range s.last {
		if sum != 0 {
			live++
		}
		if again.last[key] != sum {
			t.Fatalf("%s ends otherwise the next time", key)
		}
	}
	if live != historyLive {
		t.Errorf("%d files are left", live)
	}
}

func TestRecordsOf1KiBAreSuperseded(t *testing.T) {
	s := newKeyedStream("", 64<<20, generatedKeyed(40_000))
	if s.Bytes != 40_000<<10 {
		t.Errorf("%d bytes", s.Bytes)
	}
	if gone := 1 - float64(s.Keys)/float64(s.Records); gone < 0.84 || gone > 0.86 {
		t.Errorf("%.3f are superseded", gone)
	}
}

func TestAHistoryIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream.zst")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`{"k":"a","ts":1,"v":{"n":1}}`, `{"k":"b","ts":2,"v":{"n":2}}`, `{"k":"a","ts":3,"v":null}`} {
		if _, err := z.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	each, err := readHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newKeyedStream("", 1<<20, each)
	if s.Records != 3 || s.Keys != 2 || s.last["a"] != 0 || s.last["b"] != valueSum([]byte(`{"n":2}`)) {
		t.Errorf("%d records of %d keys, %v", s.Records, s.Keys, s.last)
	}
}

// What both brokers write after a pass is understood.
func TestPassesAreReadInTheLogs(t *testing.T) {
	kafka := kafkaCleanings(`[kafka-log-cleaner-thread-0] INFO org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread - [kafka-log-cleaner-thread-0]: 
	Log cleaner thread 0 cleaned log compaction-0-0-0 (dirty section = [0, 98257])
	18.1 MB of log processed in 0.8 seconds (24.1 MB/sec).
	Indexed 18.1 MB in 0.3 seconds (70.8 Mb/sec, 34.0% of total time)
	Buffer utilization: 0.2%
	Cleaned 18.1 MB in 0.5 seconds (36.5 Mb/sec, 66.0% of total time)
	Start size: 18.1 MB (98,257 messages)
	End size: 1.4 MB (10,061 messages)
	92.1% size reduction (89.8% fewer messages)

`)
	size := func(mb float64) int64 { return int64(mb * (1 << 20)) }
	if want := (cleaning{Seconds: 0.8, Read: size(36.2), Written: size(1.4)}); len(kafka) != 1 || kafka[0] != want {
		t.Errorf("Kafka's passes: %+v, want %+v", kafka, want)
	}
	tidemark := tidemarkCleanings(`time=2026-11-30T19:42:16.019Z level=INFO msg=compacted part=compaction partition=Kh8FrDOxah4BgL3ZSv9efA-0 ` +
		`why="dirty ratio" objects=20 into=2 records=88196 tombstones=0 read=23324059 written=1672621 took=175ms` + "\n")
	if want := (cleaning{Seconds: 0.175, Read: 23324059, Written: 1672621}); len(tidemark) != 1 || tidemark[0] != want {
		t.Errorf("Tidemark's passes: %+v, want %+v", tidemark, want)
	}
}
