// Command kafkago is kafka-go's part of the black-box tests; see README.md of the folder above. kafka-go has no
// idempotent producer and cannot delete records; it answers metadata requests from a cache of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

const limit = 2 * time.Minute

var (
	bootstrap = os.Getenv("BOOTSTRAP")
	name      = os.Getenv("NAME")
	cold      = os.Getenv("COLD_TOPIC")
	coldCount = number("COLD_COUNT")
	coldMS    = number("COLD_MS")
	transport = &kafka.Transport{MetadataTTL: time.Second}
	client    = &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: limit, Transport: transport}
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("kafka-go: ")
	for codec, title := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		codecs(kafka.Compression(codec), title)
	}
	groups()
	byTime()
	coldRead()
	administer()
}

func number(variable string) int64 {
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 64)
	must(err)
	return n
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func check(holds bool, format string, args ...any) {
	if !holds {
		log.Fatalf(format, args...)
	}
}

func within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	time.AfterFunc(limit, cancel)
	return ctx
}

func create(topic string, partitions int, configs ...kafka.ConfigEntry) {
	r, err := client.CreateTopics(within(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}}})
	must(err)
	must(r.Errors[topic])
}

func fill(topic string, codec kafka.Compression, count int) {
	w := &kafka.Writer{Addr: kafka.TCP(bootstrap), Transport: transport, Topic: topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll, Compression: codec, BatchTimeout: 50 * time.Millisecond}
	var ms []kafka.Message
	for i := range count {
		ms = append(ms, kafka.Message{Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%-200s", fmt.Sprintf("v%d", i))})
	}
	must(w.WriteMessages(within(), ms...))
	must(w.Close())
}

func read(topic string, from, count int64) []kafka.Message {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MaxWait: 200 * time.Millisecond, MaxBytes: 1 << 20})
	must(r.SetOffset(from))
	var got []kafka.Message
	ctx := within()
	for int64(len(got)) < count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			log.Fatalf("%s: read %d of %d from %d: %v", topic, len(got), count, from, err)
		}
		got = append(got, m)
	}
	must(r.Close())
	return got
}

func codecs(codec kafka.Compression, title string) {
	topic := name + "-" + title
	create(topic, 1)
	fill(topic, codec, 100)
	for i, m := range read(topic, 0, 100) {
		check(m.Offset == int64(i) && string(m.Key) == fmt.Sprintf("k%d", i) && strings.TrimSpace(string(m.Value)) == fmt.Sprintf("v%d", i), "%s: message %d is %+v", topic, i, m)
	}
}

// seen is what the group's members got.
type seen struct {
	mu     sync.Mutex
	keys   map[string]int
	shares map[string]map[int]bool // the partitions from which a member got records
}

func (s *seen) member(title string) (leave func()) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, GroupID: name + "-g", Topic: name + "-group", StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond, HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: 30 * time.Second, RebalanceTimeout: 30 * time.Second})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := r.FetchMessage(context.Background())
			if err != nil {
				return
			}
			s.mu.Lock()
			s.keys[string(m.Key)]++
			if s.shares[title] == nil {
				s.shares[title] = map[int]bool{}
			}
			s.shares[title][m.Partition] = true
			s.mu.Unlock()
			must(r.CommitMessages(within(), m))
		}
	}()
	return func() {
		must(r.Close())
		<-done
	}
}

// members asks the broker for the sizes of the members' shares, since the reader does not tell.
func members() (shares []int) {
	r, err := client.DescribeGroups(within(), &kafka.DescribeGroupsRequest{GroupIDs: []string{name + "-g"}})
	must(err)
	must(r.Groups[0].Error)
	for _, m := range r.Groups[0].Members {
		n := 0
		for _, t := range m.MemberAssignments.Topics {
			n += len(t.Partitions)
		}
		shares = append(shares, n)
	}
	return shares
}

func until(what string, holds func() bool) {
	for end := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) {
		check(time.Now().Before(end), "%s: not in time", what)
	}
}

func groups() {
	create(name+"-group", 4)
	s := &seen{keys: map[string]int{}, shares: map[string]map[int]bool{}}
	leaveA, leaveB := s.member("a"), s.member("b")
	until("two shares", func() bool { m := members(); return len(m) == 2 && m[0] == 2 && m[1] == 2 })
	fill(name+"-group", 0, 200)
	until("all records of the group", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.keys) == 200
	})
	check(len(s.shares["a"]) == 2 && len(s.shares["b"]) == 2, "records came from %v", s.shares)
	leaveB()
	until("the share of the one that stayed", func() bool { m := members(); return len(m) == 1 && m[0] == 4 })
	leaveA()
	for key, n := range s.keys {
		check(n == 1, "record %s came %d times", key, n)
	}
	offsets, err := client.OffsetFetch(within(), &kafka.OffsetFetchRequest{GroupID: name + "-g", Topics: map[string][]int{name + "-group": {0, 1, 2, 3}}})
	must(err)
	var sum int64
	for _, p := range offsets.Topics[name+"-group"] {
		sum += max(p.CommittedOffset, 0)
	}
	check(sum == 200, "committed offsets sum up to %d", sum)
}

func byTime() {
	at := coldCount / 3
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: cold, Partition: 0, MaxWait: 200 * time.Millisecond})
	must(r.SetOffsetAt(within(), time.UnixMilli(coldMS+1000*at-500)))
	m, err := r.ReadMessage(within())
	must(err)
	check(m.Offset == at && strings.TrimSpace(string(m.Value)) == fmt.Sprintf("cold-%06d", at), "seek by time gives %d", m.Offset)
	must(r.Close())
}

func coldRead() {
	for i, m := range read(cold, 0, coldCount) {
		check(m.Offset == int64(i) && strings.TrimSpace(string(m.Value)) == fmt.Sprintf("cold-%06d", i) && m.Time.UnixMilli() == coldMS+1000*int64(i), "cold message %d is at %d", i, m.Offset)
	}
}

func retention(topic string) string {
	r, err := client.DescribeConfigs(within(), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}}})
	must(err)
	must(r.Resources[0].Error)
	check(len(r.Resources[0].ConfigEntries) == 1, "describing one config gives %v", r.Resources[0].ConfigEntries)
	return r.Resources[0].ConfigEntries[0].ConfigValue
}

func partitions(topic string) int {
	m, err := client.Metadata(within(), &kafka.MetadataRequest{Topics: []string{topic}})
	must(err)
	if len(m.Topics) == 0 || m.Topics[0].Error != nil {
		return 0
	}
	return len(m.Topics[0].Partitions)
}

func administer() {
	topic, day, hour := name+"-admin", "86400000", "3600000"
	create(topic, 3, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: day})
	check(retention(topic) == day, "retention.ms after creation")
	altered, err := client.IncrementalAlterConfigs(within(), &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: hour, ConfigOperation: kafka.ConfigOperationSet}}}}})
	must(err)
	must(altered.Resources[0].Error)
	check(retention(topic) == hour, "retention.ms after the change")
	grown, err := client.CreatePartitions(within(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}}})
	must(err)
	must(grown.Errors[topic])
	until("the fourth partition", func() bool { return partitions(topic) == 4 })

	listed := func() bool {
		r, err := client.ListGroups(within(), &kafka.ListGroupsRequest{})
		must(err)
		for _, g := range r.Groups {
			if g.GroupID == name+"-g" {
				return true
			}
		}
		return false
	}
	check(listed(), "the group is not listed")
	deleted, err := client.DeleteGroups(within(), &kafka.DeleteGroupsRequest{GroupIDs: []string{name + "-g"}})
	must(err)
	must(deleted.Errors[name+"-g"])
	check(!listed(), "the deleted group is listed")
	gone, err := client.DeleteTopics(within(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	must(err)
	must(gone.Errors[topic])
	until("the end of the topic", func() bool { return partitions(topic) == 0 })
}
