package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/handler"
	"tidemark/catalog"
	"tidemark/replication"
)

// brokers is what the broker commands share.
type brokers struct{ topics }

func (c *command) broker() *cobra.Command {
	b := &brokers{topics{command: c}}
	g := group("broker", "List brokers; take one out of the cluster for good", b.list(), b.decommission())
	g.PersistentFlags().StringVar(&b.bootstrap, "bootstrap", "127.0.0.1:9092", "a broker, host:port, or several with commas")
	return g
}

// brokerLine is a broker as `broker list` shows it.
type brokerLine struct {
	ID         int32  `json:"id"`
	Address    string `json:"address"`
	Rack       string `json:"rack"`
	State      string `json:"state"` // live, away, leaving; "leaving, away"
	Controller bool   `json:"controller"`
	Leaders    int    `json:"leaders"`
	Replicas   int    `json:"replicas"`
}

func (b *brokers) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the brokers, those that are away too, and what they hold", Args: named(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), toolTimeout)
			defer cancel()
			return b.reach(ctx, func(ctx context.Context, cl *kgo.Client) error {
				seen, err := lookAround(ctx, cl)
				if err != nil {
					return err
				}
				lines := seen.lines()
				return b.print(lines, func(tab *table) {
					tab.row("BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS")
					for _, l := range lines {
						state := l.State
						if l.Controller {
							state += ", controller"
						}
						tab.row(l.ID, l.Address, cmp.Or(l.Rack, "-"), state, l.Leaders, l.Replicas)
					}
				})
			})
		},
	}
}

// around is the cluster as one broker showed it.
type around struct {
	brokers    []catalog.Broker
	controller catalog.BrokerID
	held       []replication.Held // where each partition is, or goes to
	leaders    map[catalog.BrokerID]int
	replicas   map[catalog.BrokerID]int    // copies that are there, going ones too
	moving     map[part][]catalog.BrokerID // of partitions that move: who is to go
}

// part names a partition.
type part struct {
	topic     string
	partition int32
}

// lookAround asks for brokers, replicas and moves.
func lookAround(ctx context.Context, cl *kgo.Client) (around, error) {
	a := around{leaders: map[catalog.BrokerID]int{}, replicas: map[catalog.BrokerID]int{}, moving: map[part][]catalog.BrokerID{}}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	cluster, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(cluster.ErrorCode)
	}
	if err != nil {
		return a, fmt.Errorf("ask for the brokers: %w", err)
	}
	a.controller = catalog.BrokerID(cluster.ControllerID)
	for _, n := range cluster.Brokers {
		b := catalog.Broker{ID: catalog.BrokerID(n.NodeID), Live: !n.IsFenced, Listeners: []catalog.Listener{{Host: n.Host, Port: n.Port}}}
		if n.Rack != nil {
			b.Rack = *n.Rack
		}
		n.UnknownTags.Each(func(tag uint32, _ []byte) { b.Leaving = b.Leaving || tag == handler.LeavingTag })
		a.brokers = append(a.brokers, b)
	}
	slices.SortFunc(a.brokers, func(x, y catalog.Broker) int { return cmp.Compare(x.ID, y.ID) })
	adm := kadm.NewClient(cl)
	moves, err := adm.ListPartitionReassignments(ctx, nil)
	if err != nil {
		return a, fmt.Errorf("ask for moves: %w", err)
	}
	for _, m := range moves.Sorted() {
		a.moving[part{m.Topic, m.Partition}] = brokerIDs(m.RemovingReplicas)
	}
	details, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return a, fmt.Errorf("ask for the topics: %w", err)
	}
	for _, t := range details.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			a.leaders[catalog.BrokerID(p.Leader)]++
			goes := a.moving[part{t.Topic, p.Partition}]
			h := replication.Held{Topic: t.Topic, Partition: p.Partition}
			for _, r := range brokerIDs(p.Replicas) {
				a.replicas[r]++
				if !slices.Contains(goes, r) {
					h.Replicas = append(h.Replicas, r)
				}
			}
			a.held = append(a.held, h)
		}
	}
	return a, nil
}

func brokerIDs(ids []int32) []catalog.BrokerID {
	out := make([]catalog.BrokerID, len(ids))
	for i, id := range ids {
		out[i] = catalog.BrokerID(id)
	}
	return out
}

func (a around) lines() []brokerLine {
	lines := []brokerLine{}
	for _, b := range a.brokers {
		l := brokerLine{ID: int32(b.ID), Rack: b.Rack, Controller: b.ID == a.controller, Leaders: a.leaders[b.ID], Replicas: a.replicas[b.ID]}
		l.Address = net.JoinHostPort(b.Listeners[0].Host, strconv.Itoa(int(b.Listeners[0].Port)))
		switch {
		case b.Live && b.Leaving:
			l.State = "leaving"
		case b.Live:
			l.State = "live"
		case b.Leaving:
			l.State = "leaving, away"
		default:
			l.State = "away"
		}
		lines = append(lines, l)
	}
	return lines
}

// broker finds a registered broker.
func (a around) broker(id catalog.BrokerID) (catalog.Broker, bool) {
	i := slices.IndexFunc(a.brokers, func(b catalog.Broker) bool { return b.ID == id })
	if i < 0 {
		return catalog.Broker{}, false
	}
	return a.brokers[i], true
}
