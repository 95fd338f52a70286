package tiering

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/catalog"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// Journal is a broker's own record of what it publishes.
type Journal interface {
	// Note makes the row durable on this broker. It is called before the transaction that publishes the row is sent; an
	// error keeps the transaction from being sent.
	Note(row catalog.Publication) error
}

// note writes a row into the broker's own record, if it keeps one.
func (t *Tier) note(row catalog.Publication) error {
	if t.o.Journal == nil {
		return nil
	}
	return t.o.Journal.Note(row)
}

// Reclaim publishes again what the catalog has lost of a partition that the broker is about to lead under g, before its
// log is held against the tier: what brokers have published (catalog.LostSegments) and the intents that are left, of
// several that continue the tier the one that reaches farthest (model, finding 7), and swaps in the place of live rows. Each
// goes through R4: intent, footer, publish. moved says that tiered is another now. What cannot be published stays for
// the uploads to decide. Errors: the catalog's and the bucket's.
func (t *Tier) Reclaim(ctx context.Context, p catalog.PartitionID, g catalog.Guard) (moved bool, err error) {
	if !t.Ready() {
		return false, fmt.Errorf("%w: the catalog has lost rows of %s and the bucket has not been reached yet", ErrStorage, p)
	}
	claimed, err := t.claimLost(ctx, p, g)
	if err != nil {
		return false, err
	}
	left, err := t.intents(ctx, p)
	if err != nil {
		return false, err
	}
	for {
		row, err := t.partition(ctx, p)
		if err != nil {
			return moved, err
		}
		i := slices.IndexFunc(left, func(in catalog.Intent) bool { return continues(in, row.Bounds) && in.Next > row.Tiered })
		if i < 0 {
			swapped, err := t.swapBack(ctx, comeback{p: p, guard: g, claimed: claimed, bounds: row.Bounds})
			moved = moved || swapped.Tiered != row.Tiered
			if err != nil || swapped.Tiered == row.Tiered {
				return moved, err
			}
			continue // what follows may continue the tier now
		}
		_, _, done, err := t.republish(ctx, g, left[i], claimed, row.Bounds)
		if err != nil {
			return moved, err
		}
		left = slices.Delete(left, i, i+1)
		moved = moved || done
	}
}

// Reconsider has the uploads of led partitions look again for what the catalog has lost. The others are passed over.
func (t *Tier) Reconsider(ps []catalog.PartitionID) {
	for _, p := range ps {
		if l := t.lane(p); l != nil {
			l.lost.Store(true)
			t.sched.wake(l)
		}
	}
}

// claim is a lost row whose intent is there, unless it was refused because garbage names its key.
type claim struct {
	catalog.Publication
	refused bool
}

// claimLost puts the intents of a partition's lost rows, which are refused where garbage names the key (R1). It returns the
// rows, by attempt.
func (t *Tier) claimLost(ctx context.Context, p catalog.PartitionID, g catalog.Guard) (map[string]claim, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	rows, err := t.o.Catalog.LostSegments(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("tiering: lost rows of %s: %w", p, err)
	}
	claimed := make(map[string]claim, len(rows))
	for _, row := range rows {
		err := t.o.Catalog.PutIntent(ctx, catalog.Intent{
			Attempt: row.Attempt, Partition: p, Base: row.Base, Next: row.Next, Key: row.Key, Guard: g,
		})
		switch {
		case errors.Is(err, catalog.ErrGarbage):
			t.log.Info("a row that the catalog has lost is garbage by now", "partition", p, "base", int64(row.Base), "next", int64(row.Next), "key", row.Key)
		case err != nil:
			return nil, fmt.Errorf("tiering: announce a lost row of %s: %w", p, err)
		}
		claimed[row.Attempt] = claim{Publication: row, refused: err != nil}
	}
	return claimed, nil
}

// intents lists the uploads that are not decided, the one that reaches farthest first.
func (t *Tier) intents(ctx context.Context, p catalog.PartitionID) ([]catalog.Intent, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	left, err := t.o.Catalog.Intents(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("tiering: intents of %s: %w", p, err)
	}
	left = slices.DeleteFunc(left, func(in catalog.Intent) bool { return in.Job != 0 })
	slices.SortFunc(left, func(a, b catalog.Intent) int { return int(min(max(b.Next-a.Next, -1), 1)) })
	return left, nil
}

func (t *Tier) partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	return t.o.Catalog.Partition(ctx, p)
}

// continues says whether an attempt continues the tier (R4).
func continues(in catalog.Intent, b catalog.Bounds) bool {
	return in.Base == b.Tiered || in.Base <= b.Start && b.Start == b.Tiered
}

// republish makes the object of an intent live after holding it against the row that its broker had published, or, if
// there is none, after reading all of it. done is false if it cannot be published: it is not there, not whole, or
// decided by another.
func (t *Tier) republish(ctx context.Context, g catalog.Guard, in catalog.Intent, claimed map[string]claim, b catalog.Bounds) (catalog.Segment, catalog.Bounds, bool, error) {
	row, err := t.stored(ctx, in, claimed)
	switch {
	case unusable(err):
		t.log.Error("an object that is to be published is lost or damaged", "partition", in.Partition, "key", in.Key, "err", err)
		return row, b, false, nil
	case err != nil:
		return row, b, false, fmt.Errorf("tiering: object of an earlier leader: %w", err)
	case row.Partition != in.Partition || row.Attempt != in.Attempt || row.Base != in.Base || row.Next <= b.Tiered:
		t.log.Error("an earlier leader's object is not what its intent says", "partition", in.Partition, "key", in.Key, "base", int64(row.Base), "next", int64(row.Next))
		return row, b, false, nil
	}
	if err := t.note(catalog.Publication{Segment: row}); err != nil {
		return row, b, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	after, err := t.o.Catalog.Publish(ctx, g, row)
	if errors.Is(err, catalog.ErrIntentGone) {
		return row, b, false, nil
	}
	if err != nil {
		return row, b, false, fmt.Errorf("tiering: publish an earlier leader's [%d,%d) of %s: %w", row.Base, row.Next, in.Partition, err)
	}
	t.rows.put(row)
	_, again := claimed[in.Attempt]
	if again {
		t.m.republished.Inc()
	}
	t.log.Info("published an earlier object", "partition", in.Partition, "base", int64(row.Base), "next", int64(row.Next), "lost_before", again)
	return row, after, true, nil
}

// stored is the row of an intent's object: the one that was published before if the object's tail agrees with it.
func (t *Tier) stored(ctx context.Context, in catalog.Intent, claimed map[string]claim) (catalog.Segment, error) {
	c, ok := claimed[in.Attempt]
	if !ok {
		return t.inspect(ctx, in.Key)
	}
	return c.Segment, t.holds(ctx, c.Segment)
}

// holds makes sure that a row's object is there and calls itself by its key.
func (t *Tier) holds(ctx context.Context, row catalog.Segment) error {
	tail, err := t.tailOf(ctx, row)
	if err == nil && (tail.Key() != row.Key || tail.Attempt != row.Attempt) {
		err = fmt.Errorf("%w: %s calls itself %s", object.ErrFormat, row.Key, tail.Key())
	}
	return err
}

// unusable reports whether an error of [Tier.holds] says that the object is not what its row says, or not there.
func unusable(err error) bool {
	return errors.Is(err, objstore.ErrNotFound) || errors.Is(err, object.ErrFormat) || errors.Is(err, object.ErrVersion) || errors.Is(err, errDigest)
}

func (t *Tier) tailOf(ctx context.Context, row catalog.Segment) (*object.Tail, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	tail, _, err := t.loadTail(ctx, t.upStore, row)
	return tail, err
}

// agrees says whether what a row holds is what the local log holds of its range. A leader that began without the row
// keeps its log; one that disagrees has gone on without it, and the row's object is given up.
func (t *Tier) agrees(ctx context.Context, l *lane, row catalog.Segment) bool {
	tail, err := t.tailOf(ctx, row)
	return err == nil && l.source.Agrees(tail.Epochs, max(row.Base, l.bounds().Start), row.Next)
}

// settleClaimed publishes lost rows again under a leadership that has begun, the one that reaches farthest first, then
// swaps, and returns the intents that are left to be decided. No claimed one is given up before the tier has come as far
// as it can: what the first lost row continues may be an intent that the catalog has kept.
func (t *Tier) settleClaimed(ctx context.Context, l *lane, left []catalog.Intent, claimed map[string]claim) ([]catalog.Intent, error) {
	if len(claimed) == 0 {
		return left, nil
	}
	passed := map[string]bool{}
	for {
		b := l.bounds()
		i := slices.IndexFunc(left, func(in catalog.Intent) bool {
			_, ok := claimed[in.Attempt]
			return ok && !passed[in.Attempt] && continues(in, b) && in.Next > b.Tiered
		})
		if i < 0 {
			adopted, rest, err := t.settleRound(ctx, l, left, claimed)
			if err != nil {
				return nil, err
			}
			if left = rest; adopted {
				continue
			}
			after, err := t.swapBack(ctx, comeback{p: l.p, guard: l.guard, claimed: claimed, bounds: b, log: l})
			if err != nil || after.Tiered == b.Tiered {
				return left, err
			}
			continue // what follows may continue the tier now
		}
		in := left[i]
		passed[in.Attempt] = true
		if !t.agrees(ctx, l, claimed[in.Attempt].Segment) {
			continue
		}
		row, after, done, err := t.republish(ctx, l.guard, in, claimed, b)
		if err != nil {
			return nil, err
		}
		if done {
			t.announce(l, after, row)
			left = slices.Delete(left, i, i+1)
		}
	}
}

// forgetLost ends what claimLost began: each lost row has become an intent, a live row or garbage.
func (t *Tier) forgetLost(ctx context.Context, claimed map[string]claim) error {
	if len(claimed) == 0 {
		return nil
	}
	attempts := make([]string, 0, len(claimed))
	for id := range claimed {
		attempts = append(attempts, id)
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	return t.o.Catalog.SettleLost(ctx, attempts)
}
