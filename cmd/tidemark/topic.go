package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/catalog"
)

// toolTimeout bounds what one tool's command may take.
const toolTimeout = 20 * time.Second

// topics is what the topic commands share.
type topics struct {
	*command
	bootstrap string
	client    *kgo.Client // while with runs
}

func (c *command) topic() *cobra.Command {
	t := &topics{command: c}
	g := group("topic", "List, create, describe, alter and delete topics; elect their leaders",
		t.list(), t.create(), t.describe(), t.alter(), t.delete(), t.elect())
	g.PersistentFlags().StringVar(&t.bootstrap, "bootstrap", "127.0.0.1:9092", "a broker, host:port, or several with commas")
	return g
}

// with calls do with a client that has reached a broker.
func (t *topics) with(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	return t.reach(ctx, func(ctx context.Context, cl *kgo.Client) error { return do(ctx, kadm.NewClient(cl)) })
}

// reach calls do with a client that has reached a broker, for as long as ctx lasts.
func (t *topics) reach(ctx context.Context, do func(context.Context, *kgo.Client) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(t.bootstrap, ",")...), kgo.ClientID("tidemark"),
		kgo.DialTimeout(5*time.Second), kgo.RequestRetries(5), kgo.RetryTimeout(10*time.Second))
	if err != nil {
		return usagef("--bootstrap %q: %w; write host:port", t.bootstrap, err)
	}
	defer cl.Close()
	t.client = cl
	ping, cancelPing := context.WithTimeout(ctx, 8*time.Second)
	defer cancelPing()
	if err := cl.Ping(ping); err != nil {
		return fmt.Errorf("no broker answers at %s: %w; start one with `tidemark dev`, or name one with --bootstrap", t.bootstrap, err)
	}
	return do(ctx, cl)
}

// answer makes an error of a broker's answer for one topic; message is its own sentence, if it gave one.
func answer(topic string, err error, message string) error {
	var kind *kerr.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %s; `tidemark topic list` shows those that there are", topic)
	case message != "" && errors.As(err, &kind):
		return fmt.Errorf("%s: %s (%s)", topic, strings.TrimSuffix(message, "."), kind.Message)
	}
	return fmt.Errorf("%s: %w", topic, err)
}

type topicLine struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
}

func lineOf(d kadm.TopicDetail) topicLine {
	return topicLine{d.Topic, catalog.UUID(d.ID).String(), len(d.Partitions), d.Partitions.NumReplicas()}
}

func (t *topics) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the topics", Args: named(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				details, err := adm.ListTopics(ctx)
				if err != nil {
					return err
				}
				lines := []topicLine{}
				for _, d := range details.Sorted() {
					lines = append(lines, lineOf(d))
				}
				return t.print(lines, func(tab *table) {
					tab.row("TOPIC", "PARTITIONS", "REPLICAS", "ID")
					for _, l := range lines {
						tab.row(l.Name, l.Partitions, l.Replicas, l.ID)
					}
				})
			})
		},
	}
}

func (t *topics) create() *cobra.Command {
	var partitions int32
	var replicas int16
	var settings []string
	cmd := &cobra.Command{
		Use: "create TOPIC", Short: "Create a topic", Args: named(1, 1, "the topic's name"),
		Example: "  tidemark topic create events --partitions 8 --config retention.ms=-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := parseSettings("--config", settings)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				r, err := adm.CreateTopic(ctx, partitions, replicas, configs, args[0])
				if r.Err != nil {
					return answer(args[0], r.Err, r.ErrMessage)
				}
				if err != nil {
					return err
				}
				awaitSeen(ctx, t.client, args[0])
				l := topicLine{args[0], catalog.UUID(r.ID).String(), int(r.NumPartitions), int(r.ReplicationFactor)}
				return t.print(l, func(tab *table) {
					tab.line("Created %s: %d partition(s), %d replica(s), id %s.", l.Name, l.Partitions, l.Replicas, l.ID)
				})
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1: the broker's default")
	cmd.Flags().Int16Var(&replicas, "replicas", -1, "replication factor; -1: the broker's default")
	cmd.Flags().StringArrayVar(&settings, "config", nil, "NAME=VALUE of a topic config; may be repeated")
	return cmd
}

func (t *topics) alter() *cobra.Command {
	var partitions int
	var set, config, unset []string
	cmd := &cobra.Command{
		Use: "alter TOPIC", Short: "Change a topic's configs or raise its partition count", Args: named(1, 1, "the topic's name"),
		Example: "  tidemark topic alter events --set retention.ms=604800000 --unset local.retention.ms\n  tidemark topic alter events --partitions 16",
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := parseSettings("--set", append(set, config...))
			if err != nil {
				return err
			}
			if len(configs) == 0 && len(unset) == 0 && partitions == 0 {
				return usagef("nothing to change: give --set, --unset or --partitions")
			}
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				if err := t.change(ctx, adm, args[0], alteration{partitions, configs, unset}); err != nil {
					return err
				}
				return t.print(map[string]string{"altered": args[0]}, func(tab *table) { tab.line("Altered %s.", args[0]) })
			})
		},
	}
	cmd.Flags().IntVar(&partitions, "partitions", 0, "new number of partitions; it can only grow")
	cmd.Flags().StringArrayVar(&set, "set", nil, "NAME=VALUE of a topic config; may be repeated")
	cmd.Flags().StringArrayVar(&config, "config", nil, "the same as --set, as create has it")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "NAME of a topic config that goes back to its default; may be repeated")
	return cmd
}

// alteration is what `topic alter` changes.
type alteration struct {
	partitions int
	set        map[string]*string
	unset      []string
}

func (t *topics) change(ctx context.Context, adm *kadm.Client, topic string, a alteration) error {
	var changes []kadm.AlterConfig
	for _, name := range slices.Sorted(maps.Keys(a.set)) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: a.set[name]})
	}
	for _, name := range a.unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	if len(changes) > 0 {
		rs, err := adm.AlterTopicConfigs(ctx, changes, topic)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Err != nil {
				return answer(topic, r.Err, r.ErrMessage)
			}
		}
	}
	if a.partitions == 0 {
		return nil
	}
	rs, err := adm.UpdatePartitions(ctx, a.partitions, topic)
	if err != nil {
		return err
	}
	for _, r := range rs {
		if r.Err != nil {
			return answer(topic, r.Err, r.ErrMessage)
		}
	}
	return nil
}

func (t *topics) delete() *cobra.Command {
	return &cobra.Command{
		Use: "delete TOPIC...", Short: "Delete topics and all their data", Args: named(1, -1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				rs, err := adm.DeleteTopics(ctx, args...)
				if err != nil {
					return err
				}
				deleted, faults := []string{}, []error{}
				for _, r := range rs.Sorted() {
					if r.Err != nil {
						faults = append(faults, answer(r.Topic, r.Err, r.ErrMessage))
						continue
					}
					deleted = append(deleted, r.Topic)
				}
				printed := t.print(map[string][]string{"deleted": deleted}, func(tab *table) {
					for _, name := range deleted {
						tab.line("Deleted %s.", name)
					}
				})
				return errors.Join(append(faults, printed)...)
			})
		},
	}
}

// parseSettings reads NAME=VALUE texts; all faults at once.
func parseSettings(flag string, texts []string) (map[string]*string, error) {
	out := map[string]*string{}
	var faults []error
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			faults = append(faults, fmt.Errorf("%s %q is not NAME=VALUE, such as retention.ms=-1", flag, text))
			continue
		}
		out[name] = &value
	}
	if err := errors.Join(faults...); err != nil {
		return nil, usageError{err}
	}
	return out, nil
}
