package handler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/integration/rawclient"
)

func joinRequest(group, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	p := kmsg.NewJoinGroupRequestProtocol()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"a"}
	p.Name, p.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	return req
}

// joined is a member of a stable group of one.
type joined struct {
	id         string
	generation int32
}

// join makes a group of one member, as a client does: told its id first, then joined and synced.
func join(h *house, c *rawclient.Client, group string) joined {
	h.t.Helper()
	first := askOn[*kmsg.JoinGroupResponse](h, c, 9, joinRequest(group, ""))
	require.Equal(h.t, kerr.MemberIDRequired.Code, first.ErrorCode)
	j := askOn[*kmsg.JoinGroupResponse](h, c, 9, joinRequest(group, first.MemberID))
	require.Zero(h.t, j.ErrorCode)
	require.Equal(h.t, j.MemberID, j.LeaderID)
	require.Len(h.t, j.Members, 1)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, j.MemberID, j.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = j.MemberID, []byte("all of it")
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	s := askOn[*kmsg.SyncGroupResponse](h, c, 5, sync)
	require.Zero(h.t, s.ErrorCode)
	require.Equal(h.t, "all of it", string(s.MemberAssignment))
	return joined{j.MemberID, j.Generation}
}

func commitRequest(group string, who joined, offset int64, topics ...kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, who.id, who.generation
	for _, topic := range topics {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = offset, kmsg.StringPtr("m")
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func topicNamed(name string) kmsg.OffsetCommitRequestTopic {
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = name
	return topic
}

// committed asks for partition 0 of a topic by name.
func committed(h *house, group, topic string) kmsg.OffsetFetchResponseTopicPartition {
	h.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.OffsetFetchResponse](h, 7, req).Topics[0].Partitions[0]
}

var nobody = joined{"", -1}

func TestAMembersLife(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	c := h.client()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	at := askOn[*kmsg.FindCoordinatorResponse](h, c, 6, find).Coordinators[0]
	require.Zero(t, at.ErrorCode)
	require.Equal(t, "outside.example", at.Host)

	me := join(h, c, "g")
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", me.id, me.generation
	require.Zero(t, askOn[*kmsg.HeartbeatResponse](h, c, 4, beat).ErrorCode)
	require.Zero(t, askOn[*kmsg.OffsetCommitResponse](h, c, 9, commitRequest("g", me, 7, topicNamed("a"))).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int64(7), committed(h, "g", "a").Offset)

	desc := kmsg.NewPtrDescribeGroupsRequest()
	desc.Groups = []string{"g", "nobody"}
	d := ask[*kmsg.DescribeGroupsResponse](h, 5, desc)
	require.Equal(t, "Stable", d.Groups[0].State)
	require.Equal(t, "/127.0.0.1", d.Groups[0].Members[0].ClientHost)
	require.Equal(t, "rawclient", d.Groups[0].Members[0].ClientID)
	require.Equal(t, "Dead", d.Groups[1].State)
	require.Zero(t, d.Groups[1].ErrorCode)
	require.Equal(t, kerr.GroupIDNotFound.Code, ask[*kmsg.DescribeGroupsResponse](h, 6, desc).Groups[1].ErrorCode)

	list := kmsg.NewPtrListGroupsRequest()
	list.StatesFilter, list.TypesFilter = []string{"stable"}, []string{"Classic"}
	require.Len(t, ask[*kmsg.ListGroupsResponse](h, 5, list).Groups, 1)
	list.TypesFilter = []string{"consumer"}
	require.Empty(t, ask[*kmsg.ListGroupsResponse](h, 5, list).Groups)

	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g", "nobody"}
	require.Equal(t, kerr.NonEmptyGroup.Code, ask[*kmsg.DeleteGroupsResponse](h, 2, del).Groups[0].ErrorCode)

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = "g"
	for _, id := range []string{me.id, "stranger"} {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		leave.Members = append(leave.Members, m)
	}
	left := askOn[*kmsg.LeaveGroupResponse](h, c, 5, leave)
	require.Zero(t, left.ErrorCode)
	require.Zero(t, left.Members[0].ErrorCode)
	require.Equal(t, kerr.UnknownMemberID.Code, left.Members[1].ErrorCode)
	require.Equal(t, kerr.UnknownMemberID.Code, askOn[*kmsg.HeartbeatResponse](h, c, 4, beat).ErrorCode)

	require.Zero(t, ask[*kmsg.DeleteGroupsResponse](h, 2, del).Groups[0].ErrorCode)
	require.Equal(t, kerr.GroupIDNotFound.Code, ask[*kmsg.DeleteGroupsResponse](h, 2, del).Groups[1].ErrorCode)
	require.Equal(t, int64(-1), committed(h, "g", "a").Offset)
}

func TestTheOldestVersionsWork(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	c := h.client()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	require.Equal(t, int32(1), askOn[*kmsg.FindCoordinatorResponse](h, c, 0, find).NodeID)
	j := askOn[*kmsg.JoinGroupResponse](h, c, 0, joinRequest("g", ""))
	require.Zero(t, j.ErrorCode)
	require.Equal(t, "range", *j.Protocol)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", j.MemberID, j.Generation
	require.Zero(t, askOn[*kmsg.SyncGroupResponse](h, c, 0, sync).ErrorCode)
	who := joined{j.MemberID, j.Generation}
	require.Zero(t, askOn[*kmsg.OffsetCommitResponse](h, c, 2, commitRequest("g", who, 3, topicNamed("a"))).Topics[0].Partitions[0].ErrorCode)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", "stranger"
	require.Equal(t, kerr.UnknownMemberID.Code, askOn[*kmsg.LeaveGroupResponse](h, c, 0, leave).ErrorCode)
	leave.MemberID = j.MemberID
	require.Zero(t, askOn[*kmsg.LeaveGroupResponse](h, c, 0, leave).ErrorCode)
}

func TestOffsetFetchOfOneSeveralAndAll(t *testing.T) {
	h := build(t)
	h.create(1, "a", "b")
	for i, name := range []string{"a", "b"} {
		ask[*kmsg.OffsetCommitResponse](h, 9, commitRequest("g", nobody, int64(10+i), topicNamed(name)))
	}
	require.Equal(t, int64(-1), committed(h, "unknown-group", "a").Offset)
	require.Zero(t, committed(h, "unknown-group", "a").ErrorCode)

	all := kmsg.NewPtrOffsetFetchRequest()
	all.Group = "g"
	got := ask[*kmsg.OffsetFetchResponse](h, 2, all)
	require.Len(t, got.Topics, 2)
	require.Equal(t, int64(11), got.Topics[1].Partitions[0].Offset)
	require.Equal(t, "m", *got.Topics[1].Partitions[0].Metadata)

	several := kmsg.NewPtrOffsetFetchRequest()
	for _, name := range []string{"g", "unknown-group"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		several.Groups = append(several.Groups, g)
	}
	groups := ask[*kmsg.OffsetFetchResponse](h, 8, several).Groups
	require.Len(t, groups, 2)
	require.Len(t, groups[0].Topics, 2)
	require.Empty(t, groups[1].Topics)
	require.Empty(t, ask[*kmsg.OffsetFetchResponse](h, 8, kmsg.NewPtrOffsetFetchRequest()).Groups)
}

// G4: what is not durable is not answered with 0, and one bad entry spoils no other.
func TestG4_ACommitIsAnsweredEntryByEntryAndOnlyWhenDurable(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	req := commitRequest("g", nobody, 5, topicNamed("a"), topicNamed("missing"))
	beyond, negative := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopicPartition()
	beyond.Partition, negative.Offset = 4, -9
	req.Topics[0].Partitions = append([]kmsg.OffsetCommitRequestTopicPartition{beyond, negative}, req.Topics[0].Partitions...)
	got := ask[*kmsg.OffsetCommitResponse](h, 9, req)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, kerr.InvalidCommitOffsetSize.Code, got.Topics[0].Partitions[1].ErrorCode)
	require.Zero(t, got.Topics[0].Partitions[2].ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.Topics[1].Partitions[0].ErrorCode)

	h.store.freeze(true)
	frozen := ask[*kmsg.OffsetCommitResponse](h, 9, commitRequest("g", nobody, 6, topicNamed("a"))).Topics[0].Partitions[0]
	require.Contains(t, []int16{kerr.CoordinatorNotAvailable.Code, kerr.RequestTimedOut.Code, kerr.CoordinatorLoadInProgress.Code}, frozen.ErrorCode)
	h.store.freeze(false)
	require.Eventually(t, func() bool { return committed(h, "g", "a").Offset == 5 }, time.Minute, 10*time.Millisecond)
}

// G9: offsets belong to the topic, not to its name.
func TestG9_OffsetsOfADeletedTopicDoNotComeBack(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	old, _ := h.follower.Image().Topic("a")
	byID := func(id catalog.TopicID) kmsg.OffsetCommitRequestTopic {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.TopicID = id
		return topic
	}
	commit := func(topic kmsg.OffsetCommitRequestTopic) int16 {
		return ask[*kmsg.OffsetCommitResponse](h, 10, commitRequest("g", nobody, 99, topic)).Topics[0].Partitions[0].ErrorCode
	}
	require.Zero(t, commit(byID(old.ID)))
	require.Equal(t, int64(99), committed(h, "g", "a").Offset)

	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"a"}
	ask[*kmsg.DeleteTopicsResponse](h, 4, del)
	h.create(1, "a")
	require.Equal(t, int64(-1), committed(h, "g", "a").Offset)
	require.Equal(t, kerr.UnknownTopicID.Code, commit(byID(old.ID)))
	require.Equal(t, int64(-1), committed(h, "g", "a").Offset)

	fresh, _ := h.follower.Image().Topic("a")
	require.Zero(t, commit(byID(fresh.ID)))
	fetch := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	for _, id := range []catalog.TopicID{fresh.ID, old.ID} {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.TopicID, topic.Partitions = id, []int32{0}
		g.Topics = append(g.Topics, topic)
	}
	fetch.Groups = append(fetch.Groups, g)
	got := ask[*kmsg.OffsetFetchResponse](h, 10, fetch).Groups[0]
	require.Equal(t, int64(99), got.Topics[0].Partitions[0].Offset)
	require.Equal(t, kerr.UnknownTopicID.Code, got.Topics[1].Partitions[0].ErrorCode)
}

// H12, part 3: of two commits that are pipelined, the second one stands.
func TestH12_PipelinedCommitsTakeEffectInOrder(t *testing.T) {
	h := build(t)
	h.create(1, "a")
	c := h.client()
	for range 20 {
		for _, offset := range []int64{10, 20} {
			req := commitRequest("g", nobody, offset, topicNamed("a"))
			req.Version = 9
			_, err := c.Send(req)
			require.NoError(t, err)
		}
		for range 2 {
			resp, err := c.Recv()
			require.NoError(t, err)
			require.Zero(t, resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
		}
		require.Equal(t, int64(20), committed(h, "g", "a").Offset)
	}
}

func TestOffsetDelete(t *testing.T) {
	h := build(t)
	h.create(1, "a", "b")
	c := h.client()
	me := join(h, c, "g")
	askOn[*kmsg.OffsetCommitResponse](h, c, 9, commitRequest("g", me, 7, topicNamed("a"), topicNamed("b")))
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for _, name := range []string{"a", "b"} {
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic, topic.Partitions = name, []kmsg.OffsetDeleteRequestTopicPartition{{}}
		req.Topics = append(req.Topics, topic)
	}
	got := ask[*kmsg.OffsetDeleteResponse](h, 0, req)
	require.Equal(t, kerr.GroupSubscribedToTopic.Code, got.Topics[0].Partitions[0].ErrorCode)
	require.Zero(t, got.Topics[1].Partitions[0].ErrorCode)
	require.Equal(t, int64(7), committed(h, "g", "a").Offset)
	require.Equal(t, int64(-1), committed(h, "g", "b").Offset)
	req.Group = "nobody"
	require.Equal(t, kerr.GroupIDNotFound.Code, ask[*kmsg.OffsetDeleteResponse](h, 0, req).ErrorCode)
}

// U8: what kind of group it is, and what its members say of themselves, is theirs: Connect's workers say it in bytes that
// are no consumer's. In each version that they may speak.
func TestU8_WhatMembersSayIsTheirs(t *testing.T) {
	h := build(t)
	said, given := []byte{0, 2, 0xff, 0xfe, 0}, []byte{0xff, 0, 7}
	for v := int16(0); v <= 9; v++ {
		c := h.client()
		req := joinRequest(fmt.Sprint("connect-", v), "")
		req.ProtocolType = "connect"
		req.Protocols = nil
		for _, name := range []string{"sessioned", "compatible"} {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, said
			req.Protocols = append(req.Protocols, p)
		}
		j := askOn[*kmsg.JoinGroupResponse](h, c, v, req)
		if j.ErrorCode == kerr.MemberIDRequired.Code {
			req.MemberID = j.MemberID
			j = askOn[*kmsg.JoinGroupResponse](h, c, v, req)
		}
		require.Zero(t, j.ErrorCode, "JoinGroup v%d", v)
		require.Equal(t, "sessioned", *j.Protocol, "the first that all know")
		require.Equal(t, said, j.Members[0].ProtocolMetadata)
		if v >= 7 {
			require.Equal(t, "connect", *j.ProtocolType)
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = req.Group, j.MemberID, j.Generation
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = j.MemberID, given
		sync.GroupAssignment = append(sync.GroupAssignment, a)
		require.Equal(t, given, askOn[*kmsg.SyncGroupResponse](h, c, min(v, 4), sync).MemberAssignment)
	}
}

func TestThereIsNoTransactionCoordinatorYet(t *testing.T) {
	h := build(t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 1, []string{"t"}
	require.Equal(t, kerr.InvalidRequest.Code, ask[*kmsg.FindCoordinatorResponse](h, 4, find).Coordinators[0].ErrorCode)
}
