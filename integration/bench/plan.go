package main

import (
	"fmt"
	"strings"
)

// selection is what fits into 45 minutes: the main rows, and one row for each other value of each property. Those that say
// most come first, so that a round that the time cuts short has them.
func selection() []row {
	base := produceRow("librdkafka", 1024, "none")
	var sides []row
	vary := func(change func(*row)) {
		r := base
		change(&r)
		r.Side = true
		r.Name = r.describe()
		sides = append(sides, r)
	}
	raw := func(r row) { // not a client that anyone has
		r.Side = true
		sides = append(sides, r)
	}
	rows := []row{base, produceRow("franz-go", 1024, "none"), consumeRow("raw", 1024), consumeRow("librdkafka", 1024)}
	rows = append(rows, latencyRows()...)
	for _, client := range []string{"librdkafka", "franz-go"} {
		rows = append(rows, produceRow(client, 100, "none"), produceRow(client, 1024, "lz4"), produceRow(client, 100, "lz4"))
	}
	rows = append(rows, consumeRow("franz-go", 1024))
	for _, size := range []int{1024, 100} {
		raw(produceRow("raw", size, "none"))
		raw(produceRow("raw", size, "lz4"))
	}
	vary(func(r *row) { r.Topic = map[string]string{"remote.storage.enable": "true"} })
	vary(func(r *row) { r.Client = "java" })
	java := consumeRow("java", 1024)
	java.Side = true
	sides = append(sides, java)
	vary(func(r *row) { r.Acks = "1" })
	vary(func(r *row) { r.Size = 10 << 10 })
	vary(func(r *row) { r.Partitions = 1 })
	vary(func(r *row) { r.Partitions = 256 })
	for _, codec := range []string{"gzip", "snappy", "zstd"} {
		vary(func(r *row) { r.Codec = codec })
	}
	return append(rows, sides...)
}

// matrix is every combination.
func matrix() []row {
	var rows []row
	for _, client := range []string{"raw", "librdkafka", "franz-go", "java"} {
		for _, size := range []int{100, 1024, 10 << 10} {
			for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
				for _, partitions := range []int{1, 16, 256} {
					for _, acks := range []string{"all", "1"} {
						r := produceRow(client, size, codec)
						r.Partitions, r.Acks = partitions, acks
						r.Name = r.describe()
						rows = append(rows, r)
					}
				}
			}
			rows = append(rows, consumeRow(client, size))
		}
	}
	return append(rows, latencyRows()...)
}

func produceRow(client string, size int, codec string) row {
	r := row{Kind: kindProduce, Client: client, Size: size, Partitions: 16, Acks: "all", Codec: codec}
	r.Name = r.describe()
	return r
}

func consumeRow(client string, size int) row {
	r := row{Kind: kindConsume, Client: client, Size: size, Partitions: 16, Acks: "all", Codec: "none"}
	r.Name = r.describe()
	return r
}

// latencyRows measure the peak of producing and consuming at once, then latency at shares of the slower broker's.
func latencyRows() []row {
	r := mixedRow()
	rows := []row{r}
	for _, share := range []float64{0.1, 0.5, 0.8} {
		r.Kind, r.Share, r.Of = kindLatency, share, rows[0].Name
		r.Name = r.describe()
		rows = append(rows, r)
	}
	return rows
}

func mixedRow() row {
	r := row{Kind: kindMixed, Client: "franz-go", Size: 1024, Partitions: 16, Acks: "all", Codec: "none"}
	r.Name = r.describe()
	return r
}

// describe names a row by its properties.
func (r row) describe() string {
	parts := []string{string(r.Kind), r.Client, sizeText(r.Size)}
	if r.Share > 0 {
		parts = append(parts, fmt.Sprintf("at %.0f %%", r.Share*100))
	}
	if r.Kind == kindProduce {
		parts = append(parts, r.Codec)
		if r.Acks != "all" {
			parts = append(parts, "acks="+r.Acks)
		}
	}
	if r.Partitions != 16 {
		parts = append(parts, fmt.Sprintf("%d partitions", r.Partitions))
	}
	if r.Topic["remote.storage.enable"] == "true" {
		parts = append(parts, "tier on")
	}
	return strings.Join(parts, ", ")
}

func sizeText(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// goal is what DESIGN.md asks of a row: the least ratio of MB/s, the largest of CPU per GB and of p99; 0 asks nothing.
type goal struct{ Rate, CPU, P99 float64 }

func (r row) goal() goal {
	switch r.Kind {
	case kindProduce, kindConsume:
		return goal{Rate: 2, CPU: 0.5}
	case kindLatency, kindAcks:
		if r.Share == 0.5 {
			return goal{P99: 0.5}
		}
	}
	return goal{}
}
