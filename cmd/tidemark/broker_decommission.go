package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/handler"
	"tidemark/catalog"
	"tidemark/replication"
)

// lookEvery is how often a decommission looks how far it is, lookTime what one look may take.
const (
	lookEvery = 500 * time.Millisecond
	lookTime  = 20 * time.Second
)

// retreat is one decommission.
type retreat struct {
	*brokers
	cl       *kgo.Client
	id       catalog.BrokerID
	parallel int
}

func (b *brokers) decommission() *cobra.Command {
	r := retreat{brokers: b}
	undo := false
	cmd := &cobra.Command{
		Use: "decommission BROKER", Short: "Move everything off a broker, so that it can be stopped for good",
		Long: `Moves every replica that a broker has to others, in other racks where there are, and gives it no new ones.
It waits until all is moved; records are produced and consumed meanwhile. Stopped or failed, it goes on when the same
command is given again. Then stop the broker: nobody names it any more.

It works for a broker that is dead, too. Where a partition would have fewer replicas without the broker it changes
nothing and says which one.`,
		Args: named(1, 1, "the broker's number"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || id < 0 {
				return usagef("%q is not the number of a broker; `tidemark broker list` shows those that there are", args[0])
			}
			if r.parallel < 1 {
				return usagef("--parallel is at least 1")
			}
			r.id = catalog.BrokerID(id)
			return b.reach(cmd.Context(), func(ctx context.Context, cl *kgo.Client) error {
				r.cl = cl
				if undo {
					return r.stay(ctx)
				}
				return r.leave(ctx)
			})
		},
	}
	cmd.Flags().IntVar(&r.parallel, "parallel", 50, "partitions that move at once")
	cmd.Flags().BoolVar(&undo, "undo", false, "let the broker stay: moves away from it that are not done are cancelled")
	return cmd
}

// retreatLine is how far it is.
type retreatLine struct {
	Broker   int32  `json:"broker"`
	Left     int    `json:"left"`   // replicas that the broker still has
	Moving   int    `json:"moving"` // of these, on their way
	Finished bool   `json:"finished"`
	Message  string `json:"message,omitempty"`
}

// leave moves everything away and waits for it.
func (r *retreat) leave(ctx context.Context) error {
	last := retreatLine{Left: -1}
	marked, empty := false, false
	for {
		seen, err := r.look(ctx)
		if marked && errors.Is(err, errNoBroker) {
			return r.left(seen) // it was away, and nothing names it any more
		}
		if err != nil {
			return err
		}
		moves, err := replication.Evacuate(r.id, seen.brokers, seen.held)
		if err != nil {
			return err
		}
		if !marked { // after the first plan, so that a broker that cannot leave is not marked
			if err := r.mark(ctx, true); err != nil {
				return err
			}
			marked = true
			continue // what was placed on it until now is seen
		}
		line := retreatLine{Broker: int32(r.id), Left: seen.replicas[r.id]}
		for _, goes := range seen.moving {
			if slices.Contains(goes, r.id) {
				line.Moving++
			}
		}
		if line.Left == 0 && empty {
			return r.left(seen)
		}
		empty = line.Left == 0 // to be seen twice: the broker that answers may not have heard of the last topic
		if line != last {
			r.progress(line)
			last = line
		}
		if n := min(len(moves), r.parallel-line.Moving); n > 0 {
			if err := r.move(ctx, moves[:n]); err != nil {
				return err
			}
		}
		pause := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("stopped with %d replicas left; give the same command again to go on, or --undo", line.Left)
		case <-pause.C:
		}
	}
}

// look reads the cluster; the broker must be there.
func (r *retreat) look(ctx context.Context) (around, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	seen, err := lookAround(ctx, r.cl)
	if err != nil {
		return seen, err
	}
	if _, ok := seen.broker(r.id); !ok {
		return seen, r.unknown()
	}
	return seen, nil
}

// errNoBroker: the cluster names no such broker. One that leaves, is away and has no replicas is not named.
var errNoBroker = errors.New("there is no broker")

func (r *retreat) unknown() error {
	return fmt.Errorf("%w %d; `tidemark broker list` shows those that there are", errNoBroker, r.id)
}

// mark says to the cluster that the broker leaves, or stays.
func (r *retreat) mark(ctx context.Context, leaving bool) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(r.id)
	if !leaving {
		req.UnknownTags.Set(handler.StayTag, nil)
	}
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.BrokerIDNotRegistered) {
		return r.unknown()
	}
	if err != nil {
		return fmt.Errorf("tell the cluster about broker %d: %w", r.id, err)
	}
	return nil
}

// move begins moves. A topic that has been deleted meanwhile is nothing to move.
func (r *retreat) move(ctx context.Context, moves []replication.Held) error {
	var req kadm.AlterPartitionAssignmentsReq
	for _, m := range moves {
		to := make([]int32, len(m.Replicas))
		for i, b := range m.Replicas {
			to[i] = int32(b)
		}
		req.Assign(m.Topic, m.Partition, to)
	}
	return r.alter(ctx, req)
}

func (r *retreat) alter(ctx context.Context, req kadm.AlterPartitionAssignmentsReq) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	rs, err := kadm.NewClient(r.cl).AlterPartitionAssignments(ctx, req)
	if err != nil {
		return fmt.Errorf("move partitions: %w", err)
	}
	var faults []error
	for _, a := range rs.Sorted() {
		gone := errors.Is(a.Err, kerr.UnknownTopicOrPartition) || errors.Is(a.Err, kerr.NoReassignmentInProgress)
		if a.Err != nil && !gone {
			faults = append(faults, answer(fmt.Sprintf("%s-%d", a.Topic, a.Partition), a.Err, a.ErrMessage))
		}
	}
	return errors.Join(faults...)
}

// stay takes a decommission back.
func (r *retreat) stay(ctx context.Context) error {
	if err := r.mark(ctx, false); err != nil {
		return err
	}
	seen, err := r.look(ctx)
	if err != nil && !errors.Is(err, errNoBroker) { // the one that answers may not have heard yet that it stays
		return err
	}
	var req kadm.AlterPartitionAssignmentsReq
	cancelled := 0
	for p, goes := range seen.moving {
		if slices.Contains(goes, r.id) {
			req.CancelAssign(p.topic, p.partition)
			cancelled++
		}
	}
	if cancelled > 0 {
		if err := r.alter(ctx, req); err != nil {
			return err
		}
	}
	line := retreatLine{Broker: int32(r.id), Left: seen.replicas[r.id]}
	line.Message = fmt.Sprintf("Broker %d stays. %d moves away from it are cancelled; what has been moved is not moved back.", r.id, cancelled)
	return r.print(line, func(tab *table) { tab.line("%s", line.Message) })
}

// left says that all is done.
func (r *retreat) left(seen around) error {
	line := retreatLine{Broker: int32(r.id), Finished: true, Message: fmt.Sprintf("Broker %d has nothing any more and is away: it has left.", r.id)}
	if b, _ := seen.broker(r.id); b.Live {
		line.Message = fmt.Sprintf("Broker %d has nothing any more. Stop it, and it has left.", r.id)
	}
	return r.print(line, func(tab *table) { tab.line("%s", line.Message) })
}

// progress says on standard error how far it is.
func (r *retreat) progress(l retreatLine) {
	if r.json {
		_ = json.NewEncoder(r.err).Encode(l)
		return
	}
	fmt.Fprintf(r.err, "broker %d: %d replicas left, %d of them moving\n", l.Broker, l.Left, l.Moving)
}
