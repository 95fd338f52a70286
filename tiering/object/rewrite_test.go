package object

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

// batchAt is a batch of one record with a key and a producer.
func batchAt(o record.Offset, key string) []byte {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: o, LeaderEpoch: 3, Producer: &record.Producer{ID: 9, BaseSequence: int32(o)}})
	b.Add(1000+int64(o), []byte(key), []byte("v"))
	return b.Build()
}

func rewriteSpec(base, next record.Offset) Spec {
	end := &End{Producers: producer.New(next, 0)}
	end.Epochs.Assign(3, 0)
	return Spec{Base: base, Next: next, Attempt: "a", Generation: 1, LeaderEpoch: 3, Compacted: true, Rewrite: end}
}

func TestARewriteMayLackBatchesAndTakesItsStateFromWhatItReplaces(t *testing.T) {
	b, err := NewBuilder(rewriteSpec(10, 30))
	require.NoError(t, err)
	first, last := batchAt(15, "a"), batchAt(29, "b")
	require.NoError(t, b.Append(first))
	require.NoError(t, b.Append(last))
	b.CleanSince(4711)
	b.Restrict(producer.AbortedList{{ProducerID: 9, First: 12, Last: 20, LastStable: 21}})
	data := append(bytes.Clone(first), last...)
	built, err := b.Finish(bytes.NewReader(data))
	require.NoError(t, err)
	whole := make([]byte, built.ObjectBytes)
	_, err = built.ReadAt(whole, 0)
	require.NoError(t, err)
	tail, err := ParseTail(whole[built.TailPosition:], built.TailPosition, built.ObjectBytes)
	require.NoError(t, err)
	require.Equal(t, []any{record.Offset(10), record.Offset(30), int64(2), int64(4711), int32(1)},
		[]any{tail.Base, tail.Next, tail.Records, tail.CleanSince, tail.Generation})
	require.Len(t, tail.Aborted(nil, 10, 30), 1)
	block, ok := tail.ProducerBlock()
	require.True(t, ok)
	state, err := tail.ParseProducers(whole[block.Position:][:block.Length])
	require.NoError(t, err)
	require.Zero(t, state.Len(), "the batches are not asked")
	require.EqualValues(t, 30, state.End())
	digests, _ := tail.Block(BlockDigests)
	keys, err := ParseDigests(whole[digests.Position:][:digests.Length])
	require.NoError(t, err)
	require.ElementsMatch(t, []uint32{5, 19}, []uint32{keys[0].Delta, keys[1].Delta})
	require.Equal(t, keys[1], ParseDigest(whole[digests.Position+DigestHeader+DigestSize:]))
}

func TestH19_OnlyARewriteTakesABatchThatNobodyCanRead(t *testing.T) {
	bad := batchAt(10, "a")
	bad[record.HeaderSize] = 0xff
	record.StampMaxTimestamp(bad, 1010)
	b, err := NewBuilder(rewriteSpec(10, 11))
	require.NoError(t, err)
	require.ErrorIs(t, b.Append(bad), ErrBatch)
	require.NoError(t, b.AppendUnread(bad))
	built, err := b.Finish(bytes.NewReader(bad))
	require.NoError(t, err)
	require.EqualValues(t, 1, built.Records)
	torn := bytes.Clone(bad)
	torn[len(torn)-1] ^= 1
	b, err = NewBuilder(rewriteSpec(10, 11))
	require.NoError(t, err)
	require.ErrorIs(t, b.AppendUnread(torn), ErrBatch, "its checksum is read")
	plain := rewriteSpec(10, 11)
	plain.Rewrite = nil
	b, err = NewBuilder(plain)
	require.NoError(t, err)
	require.ErrorIs(t, b.AppendUnread(bad), ErrBatch)
}

func TestC7_ARewriteCoversNoMoreThanItsDigestsCanName(t *testing.T) {
	b, err := NewBuilder(rewriteSpec(0, MaxSpan+10))
	require.NoError(t, err, "a hole at the end is no matter")
	require.NoError(t, b.Append(batchAt(MaxSpan, "a")))
	require.ErrorIs(t, b.Append(batchAt(MaxSpan+1, "b")), ErrBatch)
	s := rewriteSpec(0, 10)
	s.Rewrite.Producers = producer.New(9, 0)
	_, err = NewBuilder(s)
	require.ErrorContains(t, err, "without the state at its end")
}
