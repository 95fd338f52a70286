package broker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// sequenced is a batch of n records of a producer from a sequence number on, with its values' numbers in them.
func sequenced(o record.BuilderOptions, sequence int32, n int) []byte {
	o.Producer.BaseSequence = sequence
	b := record.NewBuilder(o)
	for i := range n {
		b.Add(1_700_000_000_000, []byte("k"), fmt.Appendf(nil, "v%d", sequence+int32(i)))
	}
	return b.Build()
}

// newProducer asks for a producer id; like is what the asker had before, -1 and -1 for nothing.
func (c client) newProducer(like int64, epoch int16) record.Producer {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, like, epoch
	resp := ask[*kmsg.InitProducerIDResponse](c, req)
	require.Zero(c.t, resp.ErrorCode)
	return record.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func (c client) end(topic string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
	got := ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
	require.Zero(c.t, got.ErrorCode)
	return got.Offset
}

// values reads the first partition of a topic whole.
func (c client) values(topic string) (values []string) {
	c.t.Helper()
	raw := ask[*kmsg.FetchResponse](c, fetchRequest(12, topic, [16]byte{}, 0, 0)).Topics[0].Partitions[0].RecordBatches
	for len(raw) > 0 {
		batch, rest, err := record.Split(raw)
		require.NoError(c.t, err)
		raw = rest
		for r, err := range record.Records(batch, nil) {
			require.NoError(c.t, err)
			values = append(values, string(r.Value))
		}
	}
	return values
}

// F5: on a new partition a later batch overtakes the first one. It is refused, so that the first can still be written and
// the later comes again after it.
func TestF5_AnOvertakingFirstBatchIsRefused(t *testing.T) {
	c := dial(t, brokertest.Start(t, brokertest.Options{}))
	c.create("f5", 1, nil)
	p := c.newProducer(-1, -1)
	send := func(sequence int32, n int) int16 {
		return c.produce("f5", 0, sequenced(record.BuilderOptions{Producer: &p}, sequence, n)).ErrorCode
	}
	require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, send(17, 5))
	require.Zero(t, c.end("f5"))
	require.Zero(t, send(0, 17))
	require.Zero(t, send(17, 5))
	var want []string
	for i := range 22 {
		want = append(want, fmt.Sprintf("v%d", i))
	}
	require.Equal(t, want, c.values("f5"))
}

// F6: all records of a producer are deleted; it goes on with its next sequence number, and a retry of the last is known.
func TestF6_DeletedRecordsLeaveTheirProducerKnown(t *testing.T) {
	c := dial(t, brokertest.Start(t, brokertest.Options{}))
	c.create("f6", 1, nil)
	p := c.newProducer(-1, -1)
	send := func(sequence int32, n int) kmsg.ProduceResponseTopicPartition {
		return c.produce("f6", 0, sequenced(record.BuilderOptions{Producer: &p}, sequence, n))
	}
	require.Zero(t, send(0, 5).ErrorCode)
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version, del.TimeoutMillis = 2, 5000
	del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "f6", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	got := ask[*kmsg.DeleteRecordsResponse](c, del).Topics[0].Partitions[0]
	require.Zero(t, got.ErrorCode)
	require.EqualValues(t, 5, got.LowWatermark)
	require.Zero(t, send(0, 5).BaseOffset, "the retry is told where the records were")
	require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, send(6, 1).ErrorCode)
	next := send(5, 1)
	require.Zero(t, next.ErrorCode)
	require.EqualValues(t, 5, next.BaseOffset)
}

// F17: sequence numbers pass 2^31-1 and go on at 0. A producer whose epoch is used up is given another id with epoch 0, and
// so is not fenced by itself.
func TestF17_SequencesWrapAndEpochsBeginAnew(t *testing.T) {
	c := dial(t, brokertest.Start(t, brokertest.Options{}))
	c.create("f17", 1, nil)
	require.Zero(t, c.produce("f17", 0, batchOf(1, record.CodecNone, "so that it may begin anywhere")).ErrorCode)
	p := c.newProducer(-1, -1)
	send := func(sequence int32, n int) kmsg.ProduceResponseTopicPartition {
		return c.produce("f17", 0, sequenced(record.BuilderOptions{Producer: &p}, sequence, n))
	}
	require.Zero(t, send(2147483646, 4).ErrorCode) // 2147483646, 2147483647, 0, 1
	require.Contains(t, []int16{kerr.OutOfOrderSequenceNumber.Code, kerr.DuplicateSequenceNumber.Code}, send(1, 1).ErrorCode)
	require.EqualValues(t, 1, send(2147483646, 4).BaseOffset, "a retry")
	require.EqualValues(t, 5, send(2, 1).BaseOffset)
	for _, epoch := range []int16{32766, 32767} {
		was := p.ID
		p = c.newProducer(p.ID, epoch)
		require.NotEqual(t, was, p.ID)
		require.Zero(t, p.Epoch)
		require.Zero(t, send(0, 1).ErrorCode)
	}
	require.EqualValues(t, 8, c.end("f17"))
}

// F12, F1: no coordinator says of any transaction that it goes on. So nothing of one is appended, in whichever version,
// codec and epoch it comes, a transaction's end that a client makes up is not either, and nothing hangs: what is written
// besides is stable at once.
func TestF12_NothingOfATransactionIsAppendedUnlessItIsKnown(t *testing.T) {
	c := dial(t, brokertest.Start(t, brokertest.Options{}))
	id := c.create("f12", 1, nil)
	p := c.newProducer(-1, -1)
	for version := int16(3); version <= 13; version++ {
		for _, codec := range []record.Codec{record.CodecNone, record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
			if version < 7 && codec == record.CodecZstd {
				continue
			}
			req := produceRequest("f12", 0, -1, sequenced(record.BuilderOptions{Producer: &p, Transactional: true, Codec: codec}, 0, 3))
			req.Version, req.TransactionID = version, kmsg.StringPtr("t")
			req.Topics[0].TopicID = id
			got := ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]
			require.Equal(t, kerr.InvalidTxnState.Code, got.ErrorCode, "produce v%d, %s", version, codec)
			require.EqualValues(t, -1, got.BaseOffset)
		}
	}
	for _, end := range []record.ControlType{record.ControlAbort, record.ControlCommit} {
		marker := record.ControlBatch(record.ControlOptions{Type: end, ProducerID: p.ID, ProducerEpoch: p.Epoch})
		require.Contains(t, []int16{kerr.InvalidRecord.Code, kerr.InvalidTxnState.Code}, c.produce("f12", 0, marker).ErrorCode)
	}
	require.Zero(t, c.end("f12"))
	require.Zero(t, c.produce("f12", 0, sequenced(record.BuilderOptions{Producer: &p}, 0, 1)).ErrorCode, "its producer is not in a transaction")
	req := fetchRequest(12, "f12", id, 0, 0)
	req.IsolationLevel = 1
	got := ask[*kmsg.FetchResponse](c, req).Topics[0].Partitions[0]
	require.EqualValues(t, 1, got.LastStableOffset)
	require.NotEmpty(t, got.RecordBatches)
}

// F19, F1: requests of transactions, the batched form of AddPartitionsToTxn that is between brokers among them, are answered
// UNSUPPORTED_VERSION in each version, ApiVersions does not show them, and the connection stays.
func TestF19_RequestsOfTransactionsAreAnsweredAndCostNoConnection(t *testing.T) {
	c := dial(t, brokertest.Start(t, brokertest.Options{}))
	shown := map[int16]bool{}
	for _, k := range ask[*kmsg.ApiVersionsResponse](c, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		shown[k.ApiKey] = true
	}
	for _, key := range []int16{24, 25, 26, 27, 28} { // AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, TxnOffsetCommit
		require.False(t, shown[key], "%s is shown", kmsg.NameForKey(key))
		for version := int16(0); version <= kmsg.RequestForKey(key).MaxVersion(); version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			if r, ok := req.(*kmsg.AddPartitionsToTxnRequest); ok {
				r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "f19", Partitions: []int32{0}}}
			}
			_, err := c.Send(req)
			require.NoError(t, err)
			_, raw, err := c.RecvRaw()
			require.NoError(t, err, "%s v%d", kmsg.NameForKey(key), version)
			if key == 24 {
				require.Contains(t, string(raw), "\x00\x23", "v%d: %d", version, kerr.UnsupportedVersion.Code)
			}
		}
	}
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionalID, init.ProducerID, init.ProducerEpoch = 4, kmsg.StringPtr("t"), -1, -1
	fresh := dial(t, brokertest.Start(t, brokertest.Options{}))
	require.Equal(t, kerr.UnsupportedVersion.Code, ask[*kmsg.InitProducerIDResponse](fresh, init).ErrorCode)
	fresh.newProducer(-1, -1)
}
