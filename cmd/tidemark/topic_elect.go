package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// electedLine is one partition's outcome.
type electedLine struct {
	Partition int32  `json:"partition"`
	Outcome   string `json:"outcome"` // elected, not needed, or what stands in the way
}

func (t *topics) elect() *cobra.Command {
	acceptLoss := false
	cmd := &cobra.Command{
		Use: "elect TOPIC", Short: "Give partitions to their preferred replicas or, accepting loss, to any live one",
		Long: `Gives the partitions of a topic to their preferred replicas where those are in sync.

With --accept-loss it gives those partitions that have no leader to a live replica although it may lack
acknowledged records: what only the lost disks held is gone, and its offsets are given again. The object tier is
never touched by it.`,
		Args: named(1, 1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return t.elected(ctx, adm, args[0], acceptLoss)
			})
		},
	}
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "lead partitions that are offline although records may be lost")
	return cmd
}

func (t *topics) elected(ctx context.Context, adm *kadm.Client, topic string, acceptLoss bool) error {
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	d, ok := details[topic]
	if !ok || d.Err != nil {
		return answer(topic, kerr.UnknownTopicOrPartition, "")
	}
	how := kadm.ElectPreferredReplica
	if acceptLoss {
		how = kadm.ElectLiveReplica
	}
	set := kadm.TopicsSet{}
	set.Add(topic, d.Partitions.Numbers()...)
	rs, err := adm.ElectLeaders(ctx, how, set)
	if err != nil {
		return err
	}
	var lines []electedLine
	var faults []error
	for _, n := range d.Partitions.Numbers() {
		r := rs[topic][n]
		switch {
		case r.Err == nil:
			lines = append(lines, electedLine{n, "elected"})
		case errors.Is(r.Err, kerr.ElectionNotNeeded):
			lines = append(lines, electedLine{n, "not needed"})
		default:
			lines = append(lines, electedLine{n, r.Err.Error()})
			faults = append(faults, answer(fmt.Sprintf("%s-%d", topic, n), r.Err, r.ErrMessage))
		}
	}
	printed := t.print(lines, func(tab *table) {
		tab.line("PARTITION\tOUTCOME")
		for _, l := range lines {
			tab.line("%d\t%s", l.Partition, l.Outcome)
		}
	})
	return errors.Join(append(faults, printed)...)
}
