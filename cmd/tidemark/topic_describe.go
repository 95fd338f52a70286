package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicDescription is what `topic describe` shows.
type topicDescription struct {
	topicLine
	Configs map[string]string      `json:"configs"` // the topic's own
	Details []partitionDescription `json:"partitionDetails"`
}

type partitionDescription struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // -1: none
	Epoch     int32   `json:"leaderEpoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Start     int64   `json:"start"` // -1: not known
	End       int64   `json:"end"`   // the high watermark; -1: not known
}

func (t *topics) describe() *cobra.Command {
	return &cobra.Command{
		Use: "describe TOPIC", Short: "Show a topic's partitions, offsets and configs", Args: named(1, 1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				d, err := describeTopic(ctx, adm, args[0])
				if err != nil {
					return err
				}
				return t.print(d, d.write)
			})
		},
	}
}

func describeTopic(ctx context.Context, adm *kadm.Client, topic string) (topicDescription, error) {
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return topicDescription{}, err
	}
	found := details[topic]
	if found.Err != nil {
		return topicDescription{}, answer(topic, found.Err, "")
	}
	d := topicDescription{topicLine: lineOf(found), Configs: map[string]string{}}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return d, err
	}
	for _, rc := range configs {
		if rc.Err != nil {
			return d, answer(topic, rc.Err, "")
		}
		for _, c := range rc.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				d.Configs[c.Key] = c.MaybeValue()
			}
		}
	}
	// A partition without a leader has no offsets to list; the rest is shown all the same.
	starts, _ := adm.ListStartOffsets(ctx, topic)
	ends, _ := adm.ListEndOffsets(ctx, topic)
	for _, p := range found.Partitions.Sorted() {
		pd := partitionDescription{Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Start: -1, End: -1}
		if o, ok := starts.Lookup(topic, p.Partition); ok && o.Err == nil {
			pd.Start = o.Offset
		}
		if o, ok := ends.Lookup(topic, p.Partition); ok && o.Err == nil {
			pd.End = o.Offset
		}
		d.Details = append(d.Details, pd)
	}
	return d, nil
}

func (d topicDescription) write(t *table) {
	t.line("Topic %s, id %s, %d partition(s), %d replica(s)", d.Name, d.ID, d.Partitions, d.Replicas)
	for _, name := range sortedKeys(d.Configs) {
		t.line("  %s=%s", name, d.Configs[name])
	}
	t.row("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")
	for _, p := range d.Details {
		t.row(p.Partition, orNone(int64(p.Leader)), p.Epoch, ids(p.Replicas), ids(p.ISR), orNone(p.Start), orNone(p.End))
	}
}

// orNone shows a number that is missing as a dash.
func orNone(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func ids(list []int32) string { return strings.Trim(fmt.Sprint(list), "[]") }
