package hotlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// promise is what the log has said when the power goes.
type promise struct {
	flushed record.Offset // all below it is there, from start on
	start   record.Offset // the highest local start that may be seen
	resetTo record.Offset // of a Reset that runs; -1
	twin    *twin
}

// cutter runs a log towards a power cut. The cut may come while a background flush
// works, so what it needs is published whole.
type cutter struct {
	t    *testing.T
	rnd  *rand.Rand
	fs   *disktest.FS
	log  *Log
	o    Options
	twin *twin
	// written are all batches that ever stood in the log: what a tail that nobody
	// promised may hold.
	written map[string]bool
	epoch   record.Epoch

	now       promise
	published atomic.Pointer[promise]
	atCut     atomic.Pointer[promise] // nil before the cut
	disk      string                  // where the disk is after it
}

// publish makes what is promised now what a cut is held to.
func (c *cutter) publish() {
	p := c.now
	p.twin = c.twin.clone()
	c.published.Store(&p)
}

// TestPowerCuts: at any change of the disk, the power goes. The log opens; all that
// was called flushed is there; what else is there was once written there; epochs
// and producers are those of its batches.
func TestPowerCuts(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	root := t.TempDir()
	for seed := range uint64(rounds) {
		c := &cutter{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), twin: newTwin(), epoch: 1, written: map[string]bool{}}
		c.now.resetTo = -1
		dir := filepath.Join(root, fmt.Sprint(seed))
		require.NoError(t, os.Mkdir(dir, 0o755))
		c.run(dir)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.RemoveAll(dir+".cut"))
	}
}

func (c *cutter) run(dir string) {
	c.fs = disktest.New(dir)
	c.o = Options{Dir: filepath.Join(dir, "p"), Config: DefaultConfig(), FS: c.fs}
	c.o.Config.SegmentBytes = 1 + c.rnd.Int64N(1500)
	c.o.Config.IndexIntervalBytes = c.rnd.IntN(300)
	c.o.Config.FlushMessages = c.rnd.Int64N(3)
	at, chance := 1+c.rnd.IntN(400), rand.New(rand.NewPCG(c.rnd.Uint64(), 2))
	c.disk = dir + ".cut"
	c.publish()
	c.fs.OnStep(func(step int) {
		if step != at {
			return
		}
		if err := c.fs.Cut(chance.IntN, c.disk); err != nil {
			c.t.Error(err)
		}
		c.atCut.Store(c.published.Load())
	})
	c.reopen()
	for c.atCut.Load() == nil {
		c.step()
		c.publish()
		c.log.work.Wait()
	}
	require.NoError(c.t, c.log.Close())
	c.check()
}

func (c *cutter) reopen() {
	l, err := Open(context.Background(), c.o)
	require.NoError(c.t, err)
	c.log = l
}

func (c *cutter) step() {
	switch c.rnd.IntN(12) {
	case 0:
		require.NoError(c.t, c.log.Roll(RollTime))
	case 1:
		// The promise holds from the moment of the call: what is freed may be gone.
		c.now.start = c.twin.end
		c.publish()
		_, err := c.log.Free(c.offset())
		require.NoError(c.t, err)
		c.twin.start = c.log.Bounds().LocalStart
		c.now.start = c.twin.start
	case 2:
		to := c.offset()
		before := c.twin.clone()
		before.truncate(to)
		c.now.flushed = min(c.now.flushed, before.end)
		c.publish()
		require.NoError(c.t, c.log.TruncateTo(to))
		c.twin.truncate(to)
		c.epoch++
	case 3:
		_, err := c.log.Flush()
		require.NoError(c.t, err)
		c.now.flushed = c.twin.end
	case 4:
		c.reset()
	case 5:
		require.NoError(c.t, c.log.Close())
		c.now.flushed = c.twin.end
		c.reopen()
	case 6:
		kill(c.log)
		c.reopen()
		require.Equal(c.t, c.twin.end, c.log.Bounds().End)
	default:
		c.append()
	}
}

func (c *cutter) offset() record.Offset {
	return c.twin.start + record.Offset(c.rnd.Int64N(int64(c.twin.end-c.twin.start)+1))
}

func (c *cutter) reset() {
	if open, _ := c.twin.openTxns(c.twin.end); len(open) > 0 {
		return
	}
	start := c.twin.end + record.Offset(c.rnd.IntN(4))
	c.now.resetTo = start
	c.publish()
	require.NoError(c.t, c.log.Reset(start, c.log.Epochs(), c.log.Producers()))
	c.twin.start, c.twin.end = start, start
	c.now = promise{flushed: start, start: start, resetTo: -1}
}

func (c *cutter) append() {
	b := c.twin.build(int64(c.rnd.IntN(4))-1, 1+c.rnd.IntN(4), c.epoch)
	open, _ := c.twin.openTxns(c.twin.end)
	if _, isOpen := open[firstTxnID]; isOpen && c.rnd.IntN(3) == 0 {
		b = marker(firstTxnID, 0, record.ControlType(c.rnd.IntN(2)))
	} else if c.rnd.IntN(3) == 0 {
		b = c.twin.build(firstTxnID, 1, c.epoch)
	}
	s, err := record.Judge(b, record.Rules{})
	require.NoError(c.t, err)
	stamped := append([]byte(nil), b...)
	record.StampOffset(stamped, c.twin.end, c.epoch)
	c.written[string(stamped)] = true
	out, err := c.log.Append(AppendRequest{Batches: b, Summaries: []record.Summary{s}, Epoch: c.epoch, AppendTime: day})
	require.NoError(c.t, err)
	require.NoError(c.t, c.twin.took(b))
	if c.o.Config.FlushMessages == 1 {
		c.now.flushed = out.Next
	}
}

// check opens what the power cut left.
func (c *cutter) check() {
	o := c.o
	o.FS, o.Dir = disktest.New(c.disk), filepath.Join(c.disk, "p")
	l, err := Open(context.Background(), o)
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, l.Close()) }()
	b, p := l.Bounds(), c.atCut.Load()
	if p.resetTo >= 0 && b.LocalStart == p.resetTo && b.End == p.resetTo {
		return
	}
	require.GreaterOrEqual(c.t, b.End, p.flushed, "flushed up to %d", p.flushed)
	require.LessOrEqual(c.t, b.LocalStart, max(p.start, p.flushed))
	p.twin.holds(c.t, l, max(b.LocalStart, p.twin.start), p.flushed)
	seen := p.twin.clone()
	seen.truncate(max(b.LocalStart, p.flushed))
	c.adopt(seen, l, max(b.LocalStart, p.flushed), b.End)
	seen.knows(c.t, l)
	add(c.t, l, plain(1, 0))
}

// adopt makes the tail that nobody promised the twin's, after looking that each of
// its batches was once written there.
func (c *cutter) adopt(w *twin, l *Log, from, to record.Offset) {
	for from < to {
		s, err := l.Read(from, to, 1, true)
		require.NoError(c.t, err)
		require.Positive(c.t, s.Len)
		got := make([]byte, s.Len)
		_, err = s.ReadAt(got, 0)
		require.NoError(c.t, err)
		require.True(c.t, c.written[string(got)], "batch at %d was never written", from)
		require.NoError(c.t, w.took(got))
		from = s.Next
		s.Release()
	}
}
