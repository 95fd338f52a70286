package producer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

func TestActiveListsProducersByID(t *testing.T) {
	l := newLog(t)
	l.appended(data(9, 1, 0, 3))
	l.appended(txn(data(4, 0, 0, 2)))
	l.appended(data(9, 1, 3, 2))
	got := l.state.Active()
	require.Len(t, got, 2)
	require.Equal(t, int64(4), got[0].ID)
	require.Equal(t, record.Offset(3), got[0].TxnFirst)
	require.Equal(t, int32(1), got[0].LastSequence)
	require.Equal(t, int64(9), got[1].ID)
	require.Equal(t, int16(1), got[1].Epoch)
	require.Equal(t, int32(4), got[1].LastSequence)
	require.Equal(t, record.Offset(record.NoOffset), got[1].TxnFirst)
	require.Equal(t, int32(-1), got[1].CoordinatorEpoch)

	l.end(4, 0, record.ControlCommit)
	require.Equal(t, record.Offset(record.NoOffset), l.state.Active()[0].TxnFirst)
}
