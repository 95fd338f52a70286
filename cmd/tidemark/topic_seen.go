package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seenWithin bounds how long `topic create` waits for the brokers that did not create the topic. They pull the cluster's state
// every 250 ms; one that is later than this is not waited for.
const seenWithin = 3 * time.Second

// awaitSeen returns when every broker that answers knows the topic, so that the next command may ask any of them.
func awaitSeen(ctx context.Context, client *kgo.Client, topic string) {
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	// The broker that created the topic knows all others by now, which it may not have when the client first asked it.
	brokers := kmsg.NewPtrMetadataRequest()
	brokers.Topics = []kmsg.MetadataRequestTopic{} // of no topic
	if _, err := brokers.RequestWith(ctx, client); err != nil {
		return
	}
	for _, broker := range client.DiscoveredBrokers() {
		for !seen(ctx, broker, topic) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// seen also holds of a broker that does not answer: it cannot mislead the next command.
func seen(ctx context.Context, broker *kgo.Broker, topic string) bool {
	req := kmsg.NewPtrMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = &topic
	req.Topics = append(req.Topics, wanted)
	got, err := broker.Request(ctx, req)
	if err != nil {
		return ctx.Err() == nil
	}
	for _, t := range got.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 {
			return false
		}
	}
	return true
}
