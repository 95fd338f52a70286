package hotlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"tidemark/hotlog/disk"
)

// closeTogether is the number of logs from which on closing them syncs the file system as a whole; what
// others have written there and not synced is then synced too, so it is not done for a few.
const closeTogether = 64

// scanFree is the size of a log up to which a close leaves it to the next start to read it through, as that
// does after SIGKILL: cheaper than the small files that would spare it.
const scanFree = 16 << 10

// CloseLogs closes the logs of this directory, opened by OpenLog, as each one's Close would, and writes down what they know,
// so that the next process need not read them. Where they are many it asks for three
// syncs of the file system instead of some fsyncs a log: the data; what a start relies on; the recovery points,
// which may only be durable after both. Nobody may append meanwhile. Errors: those of Close.
func (d *DataDir) CloseLogs(logs []*Log) error {
	if len(logs) < closeTogether || d.fs.SyncAll(d.path) != nil {
		err := each(logs, (*Log).Close)
		if err == nil {
			d.storeKnown(logs)
		}
		return err
	}
	c := closers{dir: d}
	for _, l := range logs {
		l.closing.Do(func() { c.logs = append(c.logs, &closer{log: l}) })
	}
	if len(c.logs) == 0 {
		return each(logs, (*Log).Close)
	}
	return errors.Join(c.close(), each(logs, (*Log).Close))
}

// each calls f for every log, some at a time, and returns one failure.
func each[T any](all []T, f func(T) error) error {
	var g errgroup.Group
	g.SetLimit(8)
	for _, l := range all {
		g.Go(func() error { return f(l) })
	}
	return g.Wait()
}

// closers are logs that are closed together.
type closers struct {
	dir  *DataDir
	logs []*closer
}

// closer is one of them.
type closer struct {
	log   *Log
	point recoveryPoint
	news  bool // the point is not stored yet
}

func (c *closers) close() error {
	_ = each(c.logs, func(x *closer) error { x.log.endWrites(); return nil })
	err := c.dir.fs.SyncAll(c.dir.path)
	if err == nil {
		c.dir.fs.PutOff(true)
		err = c.write()
		c.dir.fs.PutOff(false)
	}
	_ = each(c.logs, func(x *closer) error { x.log.letGo(); return nil })
	if err != nil {
		return fmt.Errorf("close %d logs: %w", len(c.logs), err)
	}
	return nil
}

// write is done while syncs are put off. A log whose files cannot be written spoils no other's.
func (c *closers) write() error {
	states := each(c.logs, (*closer).writeState)
	if err := c.dir.fs.SyncAll(c.dir.path); err != nil {
		return errors.Join(states, err)
	}
	points := each(c.logs, (*closer).writePoint)
	if states == nil && points == nil {
		logs := make([]*Log, len(c.logs))
		for i, x := range c.logs {
			logs[i] = x.log
		}
		c.dir.storeKnown(logs)
	}
	return errors.Join(states, points, c.dir.fs.SyncAll(c.dir.path))
}

// writeState writes all but the recovery point. The log's data has been synced.
func (x *closer) writeState() error {
	l := x.log
	if l.Failed() != nil || l.isSmall() {
		return nil
	}
	p := l.planFlush()
	if err := l.syncPlan(p); err != nil {
		return err
	}
	point, news := l.pointOf(p)
	if news {
		if err := l.storeState(p); err != nil {
			return err
		}
	}
	if l.wantsSnapshot() {
		if err := l.writeLastState(); err != nil {
			return l.retriable("write producer state", err)
		}
	}
	x.point, x.news = point, news
	return nil
}

func (x *closer) writePoint() error {
	if x.log.Failed() != nil {
		return nil
	}
	if !x.news {
		x.log.settled = true
		return nil
	}
	// In place: 44 bytes are whole or, by their checksum, nothing, and a name that is made and renamed costs
	// ten times as much.
	name := filepath.Join(x.log.dir, pointFile)
	if err := disk.Overwrite(x.log.fs, name, disk.Seal(pointKind, x.point.encode())); err != nil {
		return x.log.retriable("write recovery point", err)
	}
	x.log.stored, x.log.settled = x.point, true
	return nil
}

// isSmall says if the log is one segment of at most scanFree bytes whose beginning is on the disk.
func (l *Log) isSmall() bool {
	return len(*l.segs.Load()) == 1 && l.active.snapshot == nil && l.active.extent().size <= scanFree
}
