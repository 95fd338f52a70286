package chaos

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// position is one committed offset of a group and the broker that coordinates the group.
type position struct {
	c            *cluster
	group, topic string
}

// commit makes a commit by whoever coordinates now.
func (p position) commit(at int64) error {
	ctx, cancel := context.WithTimeout(p.c.t.Context(), 15*time.Second)
	defer cancel()
	os := kadm.Offsets{}
	os.AddOffset(p.topic, 0, at, -1)
	return p.c.adm.CommitAllOffsets(ctx, p.group, os)
}

// commitPast makes a commit at another broker than old, which hears nothing of it.
func (p position) commitPast(old *member, at int64) error {
	for _, m := range p.c.members {
		if m == old {
			continue
		}
		conn := m.Raw(p.c.t)
		resp, err := conn.Do(commitRequest(p.group, p.topic, at))
		_ = conn.Close()
		if err != nil {
			return err
		}
		code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		if code == 0 {
			return nil
		}
	}
	return errors.New("nobody takes it")
}

// stands waits until the group's offset can be read, and compares it.
func (p position) stands(want int64) {
	p.c.t.Helper()
	p.c.until(recovery, "the offset is read", func() error {
		ctx, cancel := context.WithTimeout(p.c.t.Context(), 15*time.Second)
		defer cancel()
		got, err := p.c.adm.FetchOffsets(ctx, p.group)
		if err != nil {
			return err
		}
		o, ok := got.Lookup(p.topic, 0)
		if !ok {
			return errors.New("no offset")
		}
		require.Equal(p.c.t, want, o.At)
		return nil
	})
}

// startPosition commits 10 and returns who coordinates.
func startPosition(t *testing.T) (position, *member) {
	t.Helper()
	c := startCluster(t, options{})
	c.create("positions", 1)
	p := position{c, "g2", "positions"}
	c.until(recovery, "the first commit", func() error { return p.commit(10) })
	c.during(4 * time.Second) // slots are spread
	p.stands(10)
	var id int32
	c.until(recovery, "a coordinator", func() error {
		found := c.adm.FindGroupCoordinators(t.Context(), p.group)
		id = found[p.group].NodeID
		return found.Error()
	})
	return p, c.member(int(id))
}

// G2: the coordinator is stopped with a commit in its socket. Another takes over and a later commit is made there; when the
// first goes on, it acknowledges nothing and the later commit stands.
func TestG2_AStoppedCoordinatorAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	p, old := startPosition(t)
	conn := old.Raw(t)
	old.freeze()
	_, err := conn.Send(commitRequest(p.group, p.topic, 15))
	require.NoError(t, err)
	took := p.c.until(recovery, "another coordinator takes a commit", func() error { return p.commit(20) })
	old.thaw()
	conn.Timeout = recovery
	resp, err := conn.Recv()
	if err == nil {
		code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		require.NotZero(t, code, "the stopped coordinator acknowledged a commit")
		t.Logf("the stopped one answers %v", kerr.ErrorForCode(code))
	}
	p.stands(20)
	t.Logf("another coordinator took a commit after %v", took.Round(time.Millisecond))
}

// G2: the coordinator loses the catalog, and only it. Another takes over and a later commit is made there; the first, which
// still has its clients, answers neither an old offset nor a commit of it.
func TestG2_ACoordinatorWithoutCatalogAnswersNoOldOffset(t *testing.T) {
	t.Parallel()
	p, old := startPosition(t)
	conn := old.Raw(t)
	old.catalog.Freeze()
	p.c.until(recovery, "another coordinator takes a commit", func() error { return p.commitPast(old, 20) })
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, p.group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = p.topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	if resp, err := conn.Do(req); err == nil {
		r := resp.(*kmsg.OffsetFetchResponse)
		require.NotZero(t, r.ErrorCode, "it answers offset %v, 20 was committed", r.Topics)
		t.Logf("fetch: %v", kerr.ErrorForCode(r.ErrorCode))
	}
	if resp, err := conn.Do(commitRequest(p.group, p.topic, 10)); err == nil {
		code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		require.NotZero(t, code, "it acknowledged a commit of what it remembers")
		t.Logf("commit: %v", kerr.ErrorForCode(code))
	}
	old.catalog.Thaw()
	p.stands(20)
}

func commitRequest(group, topic string, at int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch = at, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}
