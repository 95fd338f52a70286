// Command sarama is sarama's part of the black-box tests; see README.md of the folder above.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const limit = 2 * time.Minute

var (
	bootstrap = []string{os.Getenv("BOOTSTRAP")}
	name      = os.Getenv("NAME")
	cold      = os.Getenv("COLD_TOPIC")
	coldCount = number("COLD_COUNT")
	coldMS    = number("COLD_MS")
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sarama: ")
	admin, err := sarama.NewClusterAdmin(bootstrap, settings(sarama.CompressionNone))
	must(err)
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		codecs(admin, codec)
	}
	groups(admin)
	byTime()
	coldRead()
	administer(admin)
	must(admin.Close())
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

func settings(codec sarama.CompressionCodec) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.Producer.RequiredAcks, c.Producer.Idempotent, c.Net.MaxOpenRequests = sarama.WaitForAll, true, 1
	c.Producer.Return.Successes, c.Producer.Compression = true, codec
	c.Consumer.MaxWaitTime, c.Consumer.Offsets.Initial = 200*time.Millisecond, sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval, c.Consumer.Offsets.AutoCommit.Interval = 300*time.Millisecond, 200*time.Millisecond
	c.Consumer.Group.Session.Timeout = 30 * time.Second
	return c
}

func create(admin sarama.ClusterAdmin, topic string, partitions int32, configs map[string]*string) {
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}, false))
}

func fill(topic string, codec sarama.CompressionCodec, count int) {
	p, err := sarama.NewSyncProducer(bootstrap, settings(codec))
	must(err)
	var ms []*sarama.ProducerMessage
	for i := range count {
		ms = append(ms, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(fmt.Sprintf("k%d", i)), Value: sarama.StringEncoder(fmt.Sprintf("%-200s", fmt.Sprintf("v%d", i)))})
	}
	must(p.SendMessages(ms))
	must(p.Close())
}

func read(topic string, from, count int64) []*sarama.ConsumerMessage {
	c, err := sarama.NewConsumer(bootstrap, settings(sarama.CompressionNone))
	must(err)
	p, err := c.ConsumePartition(topic, 0, from)
	must(err)
	var got []*sarama.ConsumerMessage
	for end := time.After(limit); int64(len(got)) < count; {
		select {
		case m := <-p.Messages():
			got = append(got, m)
		case <-end:
			log.Fatalf("%s: read %d of %d from %d", topic, len(got), count, from)
		}
	}
	must(p.Close())
	must(c.Close())
	return got
}

func codecs(admin sarama.ClusterAdmin, codec sarama.CompressionCodec) {
	topic := name + "-" + codec.String()
	create(admin, topic, 1, nil)
	fill(topic, codec, 100)
	for i, m := range read(topic, 0, 100) {
		check(m.Offset == int64(i) && string(m.Key) == fmt.Sprintf("k%d", i) && strings.TrimSpace(string(m.Value)) == fmt.Sprintf("v%d", i), "%s: message %d is %+v", topic, i, m)
	}
}

// member is one of a group; its claims and what the group has seen are guarded by seen.mu.
type member struct {
	group  sarama.ConsumerGroup
	seen   *seen
	claims int
	done   chan struct{}
	stop   context.CancelFunc
}

type seen struct {
	mu   sync.Mutex
	keys map[string]int
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	m.claims = len(s.Claims()[name+"-group"])
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for r := range c.Messages() {
		m.seen.mu.Lock()
		m.seen.keys[string(r.Key)]++
		m.seen.mu.Unlock()
		s.MarkMessage(r, "")
	}
	return nil
}

func join(s *seen) *member {
	g, err := sarama.NewConsumerGroup(bootstrap, name+"-g", settings(sarama.CompressionNone))
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: g, seen: s, done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{name + "-group"}, m); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				must(err)
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.done
	must(m.group.Close())
}

func (s *seen) until(what string, holds func() bool) {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		ok, n := holds(), len(s.keys)
		s.mu.Unlock()
		if ok {
			return
		}
		check(time.Now().Before(end), "%s: not in time, %d records", what, n)
	}
}

func groups(admin sarama.ClusterAdmin) {
	topic := name + "-group"
	create(admin, topic, 4, nil)
	s := &seen{keys: map[string]int{}}
	a, b := join(s), join(s)
	s.until("two shares", func() bool { return a.claims == 2 && b.claims == 2 })
	fill(topic, sarama.CompressionNone, 200)
	s.until("all records of the group", func() bool { return len(s.keys) == 200 })
	b.leave()
	s.until("the share of the one that stayed", func() bool { return a.claims == 4 })
	a.leave()
	for key, n := range s.keys {
		check(n == 1, "record %s came %d times", key, n)
	}
	offsets, err := admin.ListConsumerGroupOffsets(name+"-g", map[string][]int32{topic: {0, 1, 2, 3}})
	must(err)
	var sum int64
	for _, b := range offsets.Blocks[topic] {
		sum += max(b.Offset, 0)
	}
	check(sum == 200, "committed offsets sum up to %d", sum)
}

func byTime() {
	at := coldCount / 3
	c, err := sarama.NewClient(bootstrap, settings(sarama.CompressionNone))
	must(err)
	found, err := c.GetOffset(cold, 0, coldMS+1000*at-500)
	must(err)
	check(found == at, "time lookup gives %d", found)
	beyond, err := c.GetOffset(cold, 0, coldMS*2)
	must(err)
	check(beyond == -1, "time lookup beyond the end gives %d", beyond)
	must(c.Close())
	m := read(cold, at, 1)[0]
	check(strings.TrimSpace(string(m.Value)) == fmt.Sprintf("cold-%06d", at), "seek by time gives %s", m.Value)
}

func coldRead() {
	for i, m := range read(cold, 0, coldCount) {
		check(m.Offset == int64(i) && strings.TrimSpace(string(m.Value)) == fmt.Sprintf("cold-%06d", i) && m.Timestamp.UnixMilli() == coldMS+1000*int64(i), "cold message %d is at %d", i, m.Offset)
	}
}

func retention(admin sarama.ClusterAdmin, topic string) string {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	must(err)
	check(len(entries) == 1, "describing one config gives %v", entries)
	return entries[0].Value
}

func administer(admin sarama.ClusterAdmin) {
	topic, day, hour := name+"-admin", "86400000", "3600000"
	create(admin, topic, 3, map[string]*string{"retention.ms": &day})
	check(retention(admin, topic) == day, "retention.ms after creation")
	must(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &hour}}, false))
	check(retention(admin, topic) == hour, "retention.ms after the change")
	must(admin.CreatePartitions(topic, 4, nil, false))
	described, err := admin.DescribeTopics([]string{topic})
	must(err)
	check(len(described) == 1 && len(described[0].Partitions) == 4, "described as %v", described)

	must(admin.DeleteRecords(name+"-none", map[int32]int64{0: 50}))
	c, err := sarama.NewClient(bootstrap, settings(sarama.CompressionNone))
	must(err)
	start, err := c.GetOffset(name+"-none", 0, sarama.OffsetOldest)
	must(err)
	check(start == 50, "start after deletion is %d", start)
	must(c.Close())

	listed, err := admin.ListConsumerGroups()
	must(err)
	check(listed[name+"-g"] != "", "the group is not among %v", listed)
	_, err = admin.DescribeConsumerGroups([]string{name + "-g"})
	must(err)
	must(admin.DeleteConsumerGroup(name + "-g"))
	listed, err = admin.ListConsumerGroups()
	must(err)
	_, there := listed[name+"-g"]
	check(!there, "the deleted group is among %v", listed)
	must(admin.DeleteTopic(topic))
	topics, err := admin.ListTopics()
	must(err)
	_, there = topics[topic]
	check(!there, "the deleted topic is listed")
}
