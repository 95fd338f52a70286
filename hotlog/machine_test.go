package hotlog

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// machine drives a log and its twin by the same random list of operations.
type machine struct {
	options Options
	log     *Log
	twin    *twin
	epoch   record.Epoch
}

func (m *machine) reopen(t *rapid.T) {
	l, err := Open(context.Background(), m.options)
	require.NoError(t, err)
	m.log = l
	require.Equal(t, m.twin.end, l.Bounds().End)
	require.Equal(t, m.twin.start, l.Bounds().LocalStart)
}

func (m *machine) append(t *rapid.T, ids []int64, sizes []int) {
	req := AppendRequest{Epoch: m.epoch, AppendTime: day}
	for i, id := range ids {
		b := m.twin.build(id, sizes[i], m.epoch)
		s, err := record.Judge(b, record.Rules{Client: true, Dense: true})
		require.NoError(t, err)
		req.Batches = append(req.Batches, b...)
		req.Summaries = append(req.Summaries, s)
	}
	out, err := m.log.Append(req)
	require.NoError(t, err)
	require.Equal(t, m.twin.end, out.Base)
	for rest := req.Batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		require.NoError(t, err)
		require.NoError(t, m.twin.took(batch))
		rest = after
	}
	require.Equal(t, m.twin.end, out.Next)
}

func (m *machine) endTxn(t *rapid.T, kind record.ControlType) {
	open, _ := m.twin.openTxns(m.twin.end)
	for id := range open {
		b := marker(id, 0, kind)
		s, err := record.Judge(b, record.Rules{Dense: true})
		require.NoError(t, err)
		_, err = m.log.Append(AppendRequest{Batches: b, Summaries: []record.Summary{s}, Epoch: m.epoch, AppendTime: day})
		require.NoError(t, err)
		require.NoError(t, m.twin.took(b))
		return
	}
}

func (m *machine) within(t *rapid.T, name string) record.Offset {
	return record.Offset(rapid.Int64Range(int64(m.twin.start), int64(m.twin.end)).Draw(t, name))
}

func (m *machine) free(t *rapid.T) {
	_, err := m.log.Free(m.within(t, "below"))
	require.NoError(t, err)
	m.twin.start = m.log.Segments()[0].Base
}

// TestLogAgainstItsTwin: whatever is done, in whatever order, a log holds what a
// list in memory would.
func TestLogAgainstItsTwin(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		m := &machine{twin: newTwin(), epoch: 1}
		m.options = Options{Dir: filepath.Join(dir, "p"), Config: DefaultConfig(), Files: NewFileLimit(2, 2), FS: disktest.New(dir)}
		m.options.Config.SegmentBytes = rapid.Int64Range(1, 2000).Draw(t, "segment bytes")
		m.options.Config.IndexIntervalBytes = rapid.IntRange(0, 500).Draw(t, "interval")
		m.options.Config.FlushMessages = rapid.Int64Range(0, 3).Draw(t, "flush messages")
		m.reopen(t)
		defer func() { require.NoError(t, m.log.Close()) }()
		t.Repeat(map[string]func(*rapid.T){
			"append plain": func(t *rapid.T) {
				sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 5).Draw(t, "sizes")
				ids := make([]int64, len(sizes))
				for i := range ids {
					ids[i] = -1
				}
				m.append(t, ids, sizes)
			},
			"append idempotent": func(t *rapid.T) {
				m.append(t, []int64{rapid.Int64Range(0, 3).Draw(t, "id")}, []int{rapid.IntRange(1, 4).Draw(t, "size")})
			},
			"append transactional": func(t *rapid.T) {
				m.append(t, []int64{rapid.Int64Range(firstTxnID, firstTxnID+1).Draw(t, "id")}, []int{1})
			},
			"abort":  func(t *rapid.T) { m.endTxn(t, record.ControlAbort) },
			"commit": func(t *rapid.T) { m.endTxn(t, record.ControlCommit) },
			"epoch":  func(t *rapid.T) { m.epoch++; require.NoError(t, m.log.AssignEpoch(m.epoch)) },
			"roll":   func(t *rapid.T) { require.NoError(t, m.log.Roll(RollTime)) },
			"free":   m.free,
			"truncate": func(t *rapid.T) {
				to := m.within(t, "to")
				require.NoError(t, m.log.TruncateTo(to))
				m.twin.truncate(to)
				m.epoch++
			},
			"reset": func(t *rapid.T) {
				if open, _ := m.twin.openTxns(m.twin.end); len(open) > 0 {
					return
				}
				start := m.twin.end + record.Offset(rapid.IntRange(0, 5).Draw(t, "jump"))
				require.NoError(t, m.log.Reset(start, m.log.Epochs(), m.log.Producers()))
				m.twin.start, m.twin.end = start, start
			},
			"flush":  func(t *rapid.T) { _, err := m.log.Flush(); require.NoError(t, err) },
			"killed": func(t *rapid.T) { kill(m.log); m.reopen(t) },
			"closed": func(t *rapid.T) {
				require.NoError(t, m.log.Close())
				m.reopen(t)
				require.Zero(t, m.log.Recovered())
			},
			"": func(t *rapid.T) {
				b := m.log.Bounds()
				require.Equal(t, m.twin.start, b.LocalStart)
				require.Equal(t, m.twin.end, b.End)
				require.LessOrEqual(t, b.Flushed, b.End)
				m.twin.holds(t, m.log, b.LocalStart, b.End)
				m.twin.knows(t, m.log)
			},
		})
	})
}
