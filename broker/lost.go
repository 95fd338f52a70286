package broker

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"tidemark/broker/published"
	"tidemark/catalog"
)

// publishedName is the folder of the broker's own record in the data directory.
const publishedName = "published"

// lostPage is how many rows one question to the catalog names, lostRound how often the catalog is asked what it has lost.
const (
	lostPage  = 500
	lostRound = 5 * time.Second
	lostCall  = 10 * time.Second
)

// lostWatch holds this broker's own record of what it published against the catalog (H2, H3): at the start, while the
// catalog is marked as one that has lost commits, after an outage of it, and when a partition's tiered is found below
// what it was. A lost publish alone moves no version, so the mark does not tell of it.
type lostWatch struct {
	record *published.Record
	doubt  atomic.Bool // something has said that the catalog may have lost commits

	// What only keepMember touches, once Run has begun.
	marked, quiet bool      // what the doubt was already raised for
	asked         time.Time // when LostPartitions was asked last
}

func (b *Broker) openPublished(context.Context) (err error) {
	b.lost.record, err = published.Open(published.Options{
		Dir: filepath.Join(b.opts.Config.Broker.DataDir, publishedName), FS: b.opts.Disk.FS, Log: b.log,
	})
	return err
}

// reportLost tells the catalog what this broker has published, the newest first: what is lost of a catalog's commits is
// the newest of them, so it ends with the first page of which nothing is lost, unless all are to be told. From the first
// lost row on no object is removed until an operator agrees.
func (b *Broker) reportLost(ctx context.Context, all bool) error {
	lost := 0
	err := b.lost.record.Newest(lostPage, func(rows []catalog.Publication) (bool, error) {
		call, cancel := context.WithTimeout(ctx, lostCall)
		defer cancel()
		n, err := b.opts.Catalog.ReportLost(call, rows)
		lost += n
		return n > 0 || all, err
	})
	if lost > 0 {
		b.log.Error("the catalog has lost rows that this broker published; their partitions' leaders publish them again", "rows", lost)
		b.custody.suspect(fmt.Sprintf("the catalog has lost commits: %d rows that broker %d had published are not in it", lost, b.id))
	}
	if err != nil {
		return fmt.Errorf("hold the record of what was published against the catalog: %w", err)
	}
	return nil
}

// watchLost reports when there is a doubt, and has the uploads look at what the catalog says that it has lost.
func (b *Broker) watchLost(ctx context.Context) {
	w := &b.lost
	marked, quiet := b.member.marked() > 0, b.member.quiet()
	if marked && !w.marked || quiet && !w.quiet {
		w.doubt.Store(true)
	}
	w.marked, w.quiet = marked, quiet
	if w.doubt.Swap(false) {
		if err := b.reportLost(ctx, marked); err != nil {
			w.doubt.Store(true)
			b.log.Debug("the catalog could not be asked what it has lost", "error", err)
			return
		}
		w.asked = time.Time{}
	}
	if time.Since(w.asked) < lostRound {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if ids, err := b.opts.Catalog.LostPartitions(ctx); err == nil {
		w.asked = time.Now()
		b.tier.Reconsider(ids)
	}
}
