package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
	"tidemark/catalog"
)

// AlterPartitionReassignments (key 45), versions 0–1: begins to move partitions to other replicas, changes
// a move or, without a replica list, cancels it (KIP-455). Any broker does it. v1 may forbid another
// number of replicas: INVALID_REPLICATION_FACTOR (KIP-860). A replica that is not live is
// INVALID_REPLICA_ASSIGNMENT, a cancel of nothing NO_REASSIGNMENT_IN_PROGRESS. The answer says that the
// move has begun; ListPartitionReassignments shows it until it is done.
func beginAlterPartitionAssignments(h *Handlers, ctx context.Context, conn *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	ctx, cancel := bounded(ctx, r.TimeoutMillis)
	defer cancel()

	var moves []catalog.Move
	var outcomes []*kmsg.AlterPartitionAssignmentsResponseTopicPartition // of each move
	for i, t := range r.Topics {
		resp.Topics = append(resp.Topics, kmsg.AlterPartitionAssignmentsResponseTopic{
			Topic: t.Topic, Partitions: make([]kmsg.AlterPartitionAssignmentsResponseTopicPartition, len(t.Partitions)),
		})
		for j, p := range t.Partitions {
			out := &resp.Topics[i].Partitions[j]
			out.Partition = p.Partition
			m, err := h.plannedMove(t.Topic, p, r.Version == 0 || r.AllowReplicationFactorChange)
			if err != nil {
				out.ErrorCode, out.ErrorMessage = codeFor(err), messageFor(err)
				continue
			}
			moves, outcomes = append(moves, m), append(outcomes, out)
		}
	}
	errs, err := h.Catalog.Move(ctx, moves)
	if err == nil && len(moves) > 0 {
		begun := 0
		for _, err := range errs {
			if err == nil {
				begun++
			}
		}
		if begun > 0 {
			h.told(conn, req, "reassignments begun or cancelled", "partitions", begun)
		}
		err = h.Metadata.Refresh(ctx)
	}
	for i, out := range outcomes {
		failed := err
		if failed == nil {
			failed = errs[i]
		}
		out.ErrorCode, out.ErrorMessage = codeForMove(failed), messageFor(failed)
	}
	return wire.Respond(resp)
}

// codeForMove is codeFor with the code that a bad list of replicas has here.
func codeForMove(err error) int16 {
	if code := codeFor(err); code != kerr.InvalidRequest.Code {
		return code
	}
	return kerr.InvalidReplicaAssignment.Code
}

func (h *Handlers) plannedMove(topic string, p kmsg.AlterPartitionAssignmentsRequestTopicPartition, otherFactor bool) (catalog.Move, error) {
	t, ok := h.Metadata.Image().Topic(topic)
	if !ok || p.Partition < 0 || int(p.Partition) >= len(t.Partitions) {
		return catalog.Move{}, refuse(kerr.UnknownTopicOrPartition, "There is no partition %d of a topic %s.", p.Partition, topic)
	}
	row := t.Partitions[p.Partition]
	m := catalog.Move{ID: row.ID}
	if p.Replicas == nil {
		return m, nil
	}
	m.Target = make([]catalog.BrokerID, len(p.Replicas))
	for i, r := range p.Replicas {
		m.Target[i] = catalog.BrokerID(r)
	}
	if now := len(row.Replicas) - len(row.Adding); !otherFactor && len(m.Target) != now {
		return m, refuse(kerr.InvalidReplicationFactor, "Partition %s-%d has %d replicas, and the request allows no other number.", topic, p.Partition, now)
	}
	return m, nil
}
