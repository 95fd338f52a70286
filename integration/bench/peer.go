package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// peer is one of the two that are compared, a broker or a cluster: how it is started, and its processes while they run.
type peer struct {
	name    string
	address string   // host:port of each broker, with commas between them
	brokers int      // how many; 0: one
	http    []string // of Tidemark's profiles and metrics
	launch  func(p *peer) (servers, error)
	// topic is what its topics are told, so that both peers do the same work.
	topic map[string]string

	procs servers
	admin *kadm.Client
}

const readyLimit = 5 * time.Minute

// start launches the broker and waits until it answers for itself; it returns how long that took.
func (p *peer) start(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	began := time.Now()
	procs, err := p.launch(p)
	if err != nil {
		return 0, err
	}
	p.procs = procs
	if err := procs.until(ctx, p.answers); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	took := time.Since(began)
	client, err := kgo.NewClient(kgo.SeedBrokers(p.seeds()...))
	if err != nil {
		return 0, err
	}
	p.admin = kadm.NewClient(client)
	return took, nil
}

// seeds are the addresses of its brokers.
func (p *peer) seeds() []string { return strings.Split(p.address, ",") }

// replicas is how many copies its topics have: one on each broker.
func (p *peer) replicas() int { return max(p.brokers, 1) }

// answers reports whether all brokers are named in its metadata: it can take topics then.
func (p *peer) answers(ctx context.Context) bool {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.seeds()...), kgo.RetryTimeout(time.Second), kgo.RequestRetries(0))
	if err != nil {
		return false
	}
	defer client.Close()
	m, err := kadm.NewClient(client).BrokerMetadata(ctx)
	return err == nil && len(m.Brokers) == p.replicas()
}

// stop ends the broker; SIGKILL is a crash.
func (p *peer) stop(sig syscall.Signal) {
	if p.admin != nil {
		p.admin.Close()
		p.admin = nil
	}
	p.procs.end(sig)
	p.procs = nil
}

// create makes a topic and waits until each of its partitions has a leader that answers.
func (p *peer) create(ctx context.Context, topic string, partitions int, more map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	configs := map[string]*string{}
	for _, m := range []map[string]string{p.topic, more} {
		for k, v := range m {
			configs[k] = kadm.StringPtr(v)
		}
	}
	if _, err := p.admin.CreateTopic(ctx, int32(partitions), int16(p.replicas()), configs, topic); err != nil {
		return fmt.Errorf("%s: create topic %s: %w", p.name, topic, err)
	}
	return p.serves(ctx, topic, partitions)
}

// serves waits until every partition of the topic tells its end.
func (p *peer) serves(ctx context.Context, topic string, partitions int) error {
	return p.procs.until(ctx, func(ctx context.Context) bool {
		ends, err := p.admin.ListEndOffsets(ctx, topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == partitions
	})
}

// remove deletes a topic and waits until both the broker and the disk are quiet: what it leaves behind must not be
// measured on the other broker.
func (p *peer) remove(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := p.admin.DeleteTopic(ctx, topic); err != nil && err != kerr.UnknownTopicOrPartition {
		return fmt.Errorf("%s: delete topic %s: %w", p.name, topic, err)
	}
	return p.settle(ctx)
}

// settle waits until the broker uses less than a fifth of a core.
func (p *peer) settle(ctx context.Context) error {
	const step = 250 * time.Millisecond
	syscall.Sync()
	for range 40 {
		before, err := p.procs.cpu()
		if err != nil {
			return err
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := p.procs.cpu()
		if err != nil {
			return err
		}
		if after-before <= step/5 {
			return nil
		}
	}
	return nil
}
