package integration

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
	"tidemark/integration/rawclient"
)

// oneRecord is a batch of one record as an idempotent producer sends it; producer -1 is none.
func oneRecord(producer int64, sequence int32, value string) []byte {
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: tenTime(0).UnixMilli(), MaxTimestamp: tenTime(0).UnixMilli(),
		ProducerID: producer, ProducerEpoch: -1, FirstSequence: sequence, NumRecords: 1}
	if producer >= 0 {
		b.ProducerEpoch = 0
	}
	r := kmsg.Record{Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b.Records = r.AppendTo(nil)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	return sealed(raw)
}

// sealed puts the checksum in.
func sealed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produceRaw sends one batch to partition 0 and gives the answer for it.
func produceRaw(t *testing.T, c *rawclient.Client, version int16, topic string, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	resp, err := c.Do(produceRequest(version, topic, batch))
	require.NoError(t, err)
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func produceRequest(version int16, topic string, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 60_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// F4: an answer is lost and the batch comes again, late or too late; after a kill, and after the disk is lost too.
func TestF4_BatchesThatComeAgain(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "f4", 1, "segment.bytes", "200", "retention.ms", "-1")
	c := n.Raw(t)
	kresp, err := c.Do(initProducer())
	require.NoError(t, err)
	id := kresp.(*kmsg.InitProducerIDResponse).ProducerID
	batch := func(sequence int32) []byte { return oneRecord(id, sequence, fmt.Sprintf("f4-%d", sequence)) }
	for sequence := range int32(6) {
		p := produceRaw(t, c, 9, "f4", batch(sequence))
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, sequence, p.BaseOffset)
	}
	again := func(when string) {
		c := n.Raw(t)
		for _, sequence := range []int32{1, 5} {
			p := produceRaw(t, c, 9, "f4", batch(sequence))
			require.Zero(t, p.ErrorCode, "%s: sequence %d", when, sequence)
			require.EqualValues(t, sequence, p.BaseOffset, when)
		}
		require.Contains(t, []int16{kerr.OutOfOrderSequenceNumber.Code, kerr.DuplicateSequenceNumber.Code},
			produceRaw(t, c, 9, "f4", batch(0)).ErrorCode, "%s: older than the window", when)
		require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, produceRaw(t, c, 9, "f4", batch(8)).ErrorCode, "%s: a gap", when)
		require.EqualValues(t, 6, n.Offset(t, "f4", 0, harness.Latest), when)
	}
	again("at once")
	n.Kill()
	n.Start()
	again("after SIGKILL")
	filler := n.Raw(t)
	require.Zero(t, produceRaw(t, filler, 9, "f4", oneRecord(-1, -1, "seals what was before")).ErrorCode)
	require.Zero(t, produceRaw(t, filler, 9, "f4", oneRecord(-1, -1, "stays in the active segment")).ErrorCode)
	harness.Until(t, time.Minute, "the batches are tiered", func() error {
		if got := n.Offset(t, "f4", 0, harness.LatestTiered); got < 5 {
			return fmt.Errorf("last tiered offset %d", got)
		}
		return nil
	})
	n.Kill()
	n.Wipe()
	n.Start()
	p := produceRaw(t, n.Raw(t), 9, "f4", batch(5))
	require.Zero(t, p.ErrorCode, "after the disk was lost")
	require.EqualValues(t, 5, p.BaseOffset)
	p = produceRaw(t, n.Raw(t), 9, "f4", batch(6))
	require.Zero(t, p.ErrorCode, "the producer goes on after the disk was lost")
}

func initProducer() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	return req
}

// H5: the special times of ListOffsets, at each version that knows them and at those that do not.
func TestH5_SpecialTimes(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "h5", 41)
	n.CreateTopic(t, "local", 1, "remote.storage.enable", "false", "retention.ms", "-1")
	n.CreateTopic(t, "empty", 1)
	produceTens(t, n, "local", 0, 5)
	rows := []struct {
		topic   string
		at      int64
		version int16
		want    int64 // -9: UNSUPPORTED_VERSION
	}{
		{"h5", harness.Latest, 1, 41}, {"h5", harness.Start, 1, 0}, {"h5", harness.MaxTimestamp, 7, 40}, {"h5", harness.LocalStart, 8, 40},
		{"h5", harness.LatestTiered, 9, 39}, {"h5", harness.LatestTiered, 10, 39},
		{"h5", harness.MaxTimestamp, 6, -9}, {"h5", harness.LocalStart, 7, -9}, {"h5", harness.LatestTiered, 8, -9},
		{"h5", harness.PendingUpload, 11, 40}, {"h5", harness.PendingUpload, 10, -9}, {"local", harness.PendingUpload, 11, -1}, {"empty", harness.PendingUpload, 11, 0},
		{"local", harness.LocalStart, 10, 0}, {"local", harness.LatestTiered, 10, -1}, {"local", harness.MaxTimestamp, 10, 4},
		{"empty", harness.MaxTimestamp, 10, -1}, {"empty", harness.LatestTiered, 10, -1}, {"empty", harness.Latest, 10, 0}, {"empty", harness.LocalStart, 10, 0},
	}
	for _, row := range rows {
		got, err := n.ListOffsets(t, row.topic, 0, row.version, row.at)
		if row.want == -9 {
			require.ErrorIs(t, err, kerr.UnsupportedVersion, "%+v", row)
			continue
		}
		require.NoError(t, err, "%+v", row)
		require.Equal(t, row.want, got[0].Offset, "%+v", row)
		if row.version >= 4 && row.want > 0 {
			require.GreaterOrEqual(t, got[0].Epoch, int32(0), "%+v", row)
		}
	}
	newest, err := n.ListOffsets(t, "h5", 0, 10, harness.MaxTimestamp)
	require.NoError(t, err)
	require.Equal(t, tenTime(40).UnixMilli(), newest[0].Timestamp)
}

// H7: answers leave in the order of the requests, however long the first one takes.
func TestH7_AnswersInOrder(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	n.CreateTopic(t, "h7", 1)
	c := n.Raw(t)
	long := fetchAt("h7", 0, 0, 1000)
	long.MinBytes = 1 << 20
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	started := time.Now()
	for _, req := range []kmsg.Request{long, metadata, produceRequest(9, "h7", oneRecord(-1, -1, "x")), versions} {
		_, err := c.Send(req)
		require.NoError(t, err)
	}
	for _, key := range []int16{1, 3, 0, 18} {
		resp, err := c.Recv() // checks the correlation id
		require.NoError(t, err)
		require.Equal(t, key, resp.Key())
	}
	require.Greater(t, time.Since(started), 800*time.Millisecond, "the fetch waited for its bytes")
	require.EqualValues(t, 1, n.Offset(t, "h7", 0, harness.Latest))
}

// H8: a fetch is answered by its max_wait, as soon as min_bytes are there, and at once where a partition is unknown.
func TestH8_FetchIsAlwaysAnswered(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	tens(t, n, "h8", 1)
	produceTens(t, n, "h8", 0, 5)
	const longWait = 180_000 // nobody who has waited for it was answered at once
	rows := []struct {
		name     string
		offset   int64
		minBytes int32
		wait     int32
		session  int32 // its epoch: -1 none, 0 a new one
		unknown  bool
		records  bool
		atOnce   bool
	}{
		{"data is there", 0, 1, longWait, -1, false, true, true},
		{"at the end", 5, 1, 500, -1, false, false, false},
		{"at the end without waiting", 5, 1, 0, -1, false, false, true},
		{"less than min_bytes", 0, 100_000, 500, -1, false, true, false},
		{"in a session", 0, 1, longWait, 0, false, true, true},
		{"at the end in a session", 5, 1, 500, 0, false, false, false},
		{"beside an unknown partition", 5, 1, longWait, -1, true, false, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := n.Raw(t)
			c.Timeout = 2 * longWait * time.Millisecond
			req := fetchAt("h8", 0, row.offset, row.wait)
			req.MinBytes, req.SessionEpoch = row.minBytes, row.session
			if row.unknown {
				rp := kmsg.NewFetchRequestTopicPartition()
				rp.Partition, rp.PartitionMaxBytes = 7, 1<<20
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
			}
			started := time.Now()
			kresp, err := c.Do(req)
			took := time.Since(started)
			require.NoError(t, err)
			resp := kresp.(*kmsg.FetchResponse)
			require.Zero(t, resp.ErrorCode)
			for _, p := range resp.Topics {
				for _, p := range p.Partitions {
					if p.Partition == 7 {
						require.Equal(t, kerr.UnknownTopicOrPartition.Code, p.ErrorCode)
						continue
					}
					require.Equal(t, row.records, len(p.RecordBatches) > 0)
				}
			}
			if !row.atOnce {
				require.GreaterOrEqual(t, took, time.Duration(row.wait)*time.Millisecond-20*time.Millisecond)
			}
			require.Less(t, took, longWait*time.Millisecond)
		})
	}
}

// H10: old formats and zstd for old fetches are refused by name, and nothing of them is appended.
func TestH10_OldVersionsAndFormats(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	n.CreateTopic(t, "h10", 1)
	c := n.Raw(t)
	zstd := n.Client(t, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	require.NoError(t, zstd.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "h10", Value: []byte(tenValue(1))}).FirstErr())
	for _, version := range []int16{4, 9} {
		req := fetchAt("h10", 0, 0, 500)
		req.Version = version
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.Equal(t, kerr.UnsupportedCompressionType.Code, resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode, "fetch v%d", version)
	}
	resp, err := c.Do(fetchAt("h10", 0, 0, 500))
	require.NoError(t, err)
	stored := fetched(t, resp.(*kmsg.FetchResponse)).RecordBatches
	require.NotEmpty(t, stored)

	copied := append([]byte(nil), stored...)
	binary.BigEndian.PutUint64(copied[43:], ^uint64(0)) // without its producer
	binary.BigEndian.PutUint16(copied[51:], ^uint16(0))
	binary.BigEndian.PutUint32(copied[53:], ^uint32(0))
	require.Equal(t, kerr.UnsupportedCompressionType.Code, produceRaw(t, c, 3, "h10", sealed(copied)).ErrorCode, "zstd in produce v3")
	old := oneRecord(-1, -1, "magic 1")
	old[16] = 1
	require.Contains(t, []int16{kerr.InvalidRecord.Code, kerr.CorruptMessage.Code, kerr.UnsupportedForMessageFormat.Code}, produceRaw(t, c, 9, "h10", old).ErrorCode)
	require.EqualValues(t, 1, n.Offset(t, "h10", 0, harness.Latest))

	versions := kmsg.NewPtrApiVersionsRequest()
	kresp, err := c.Do(versions)
	require.NoError(t, err)
	shown := map[int16][2]int16{}
	for _, k := range kresp.(*kmsg.ApiVersionsResponse).ApiKeys {
		shown[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	require.Zero(t, shown[0][0], "Produce is shown from 0")
	require.GreaterOrEqual(t, shown[1][0], int16(4), "Fetch is not shown below 4")
	require.Equal(t, kerr.UnsupportedVersion.Code, produceRaw(t, n.Raw(t), 2, "h10", oneRecord(-1, -1, "x")).ErrorCode)
}

// H13: a session over 100 partitions with room for three: none is starved.
func TestH13_SessionsStarveNoPartition(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	n.CreateTopic(t, "h13", 100)
	cl := n.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var rs []*kgo.Record
	for p := range int32(100) {
		rs = append(rs, &kgo.Record{Topic: "h13", Partition: p, Value: make([]byte, 9000)})
	}
	require.NoError(t, cl.ProduceSync(within(t, time.Minute), rs...).FirstErr())
	c := n.Raw(t)
	req := fetchAt("h13", 0, 0, 500)
	req.MaxBytes, req.SessionEpoch, req.Topics[0].Partitions = 30_000, 0, nil
	for p := range int32(100) {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes = p, 10_000
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
	}
	served := map[int32]bool{}
	for range 60 {
		kresp, err := c.Do(req)
		require.NoError(t, err)
		resp := kresp.(*kmsg.FetchResponse)
		require.Zero(t, resp.ErrorCode)
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				served[p.Partition] = served[p.Partition] || len(p.RecordBatches) > 0
			}
		}
		req.SessionID, req.SessionEpoch, req.Topics = resp.SessionID, req.SessionEpoch+1, nil
	}
	count := 0
	for _, got := range served {
		if got {
			count++
		}
	}
	require.Equal(t, 100, count, "partitions served within 60 fetches")
}
