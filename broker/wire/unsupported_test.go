package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// U6: a request that kmsg can read and nobody serves is answered 35 in each version, and the connection goes on. Only
// responses without any place for a code cost it.
func TestU6_WhateverCanBeReadIsAnswered35(t *testing.T) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := int16(0); version <= req.MaxVersion(); version++ {
			req.SetVersion(version)
			resp, ok := refused(req, codeUnsupportedVersion)
			require.True(t, ok, "%s v%d", kmsg.NameForKey(key), version)
			require.Equal(t, version, resp.GetVersion())
			again := req.ResponseKind()
			require.NoError(t, again.ReadFrom(resp.AppendTo(nil)))
		}
	}
}

// U6, F19: where the code stands beside each partition, each that was named has it.
func TestU6_ARefusalNamesWhatTheRequestNamed(t *testing.T) {
	h := start(t, Options{}, echo)
	c := h.dial()
	topics := []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: []int32{0, 7}}, {Topic: "b", Partitions: []int32{3}}}
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Version, req.TransactionalID, req.Topics = version, "t", topics
		txn := kmsg.NewAddPartitionsToTxnRequestTransaction()
		txn.TransactionalID = "t"
		for _, topic := range topics {
			txn.Topics = append(txn.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic.Topic, Partitions: topic.Partitions})
		}
		req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{txn}
		r, err := c.Do(req)
		require.NoError(t, err)
		resp := r.(*kmsg.AddPartitionsToTxnResponse)
		named := map[string][]int32{}
		if version < 4 {
			for _, rt := range resp.Topics {
				for _, p := range rt.Partitions {
					require.EqualValues(t, 35, p.ErrorCode)
					named[rt.Topic] = append(named[rt.Topic], p.Partition)
				}
			}
		} else {
			require.EqualValues(t, 35, resp.ErrorCode)
			require.Equal(t, "t", resp.Transactions[0].TransactionalID)
			for _, rt := range resp.Transactions[0].Topics {
				for _, p := range rt.Partitions {
					require.EqualValues(t, 35, p.ErrorCode)
					named[rt.Topic] = append(named[rt.Topic], p.Partition)
				}
			}
		}
		require.Equal(t, map[string][]int32{"a": {0, 7}, "b": {3}}, named, "version %d", version)
	}
	offsets := kmsg.NewPtrTxnOffsetCommitRequest()
	offsets.Version = 3
	offsets.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 5, Offset: 9}}}}
	r, err := c.Do(offsets)
	require.NoError(t, err)
	got := r.(*kmsg.TxnOffsetCommitResponse).Topics[0]
	require.Equal(t, "a", got.Topic)
	require.EqualValues(t, []int32{5, 35}, []int32{got.Partitions[0].Partition, int32(got.Partitions[0].ErrorCode)})

	// Naming very many things costs no memory for each.
	many := kmsg.NewPtrAddPartitionsToTxnRequest()
	many.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: make([]int32, maxMirrored)}}
	_, err = c.Send(many)
	require.NoError(t, err)
	requireClosed(t, c)
}
