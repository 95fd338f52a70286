package tiering

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/tiering/objstore"
)

// settle decides what earlier attempts left: intents of this partition whose writer is gone or has
// dropped them. As R8 has it: an intent whose range live rows cover is given up; one whose range the
// local log holds is given up, and uploaded again; any other is published, the one that reaches
// farthest first, if its object is whole and continues the tier. What is none of these stays. Before all that, what the
// catalog has lost is claimed and published again.
func (t *Tier) settle(ctx context.Context, l *lane) (err error) {
	b, err := t.look(ctx, l)
	if err != nil {
		return err
	}
	l.source.Published(b)
	var claimed map[string]claim
	if l.lost.Swap(false) {
		defer func() {
			if err != nil {
				l.lost.Store(true) // what was claimed is not yet decided
			}
		}()
		if claimed, err = t.claimLost(ctx, l.p, l.guard); err != nil {
			return err
		}
	}
	left, err := t.intents(ctx, l.p)
	if err != nil {
		return err
	}
	if left, err = t.settleClaimed(ctx, l, left, claimed); err != nil {
		return err
	}
	for {
		adopted, rest, err := t.settleRound(ctx, l, left, nil)
		if err != nil {
			return err
		}
		if left = rest; !adopted {
			break
		}
	}
	for _, in := range left {
		t.log.Warn("an upload of an earlier leader can neither be published nor given up", "partition", l.p, "base", int64(in.Base), "next", int64(in.Next), "key", in.Key)
	}
	return t.forgetLost(ctx, claimed)
}

// settleRound decides what it can, but for the intents of claimed rows, and returns the rest. adopted says that tiered has
// moved, so that another round may decide more.
func (t *Tier) settleRound(ctx context.Context, l *lane, left []catalog.Intent, claimed map[string]claim) (adopted bool, rest []catalog.Intent, err error) {
	for _, in := range left {
		if _, waits := claimed[in.Attempt]; waits {
			rest = append(rest, in)
			continue
		}
		gaveUp, err := t.giveUp(ctx, l, in)
		if err != nil {
			return false, nil, err
		}
		if gaveUp {
			continue
		}
		b := l.bounds()
		if adopted || !continues(in, b) {
			rest = append(rest, in)
			continue
		}
		adopted, err = t.adopt(ctx, l, in)
		if err != nil {
			return false, nil, err
		}
		if !adopted {
			rest = append(rest, in)
		}
	}
	return adopted, rest, nil
}

// giveUp gives the intent up if its range is covered by live rows, or held by the local log, which
// then frees nothing of it until the transaction is through (R8, R9).
func (t *Tier) giveUp(ctx context.Context, l *lane, in catalog.Intent) (done bool, err error) {
	b := l.bounds()
	if in.Next > b.Tiered {
		release, held := l.source.Hold(max(in.Base, b.Tiered), in.Next)
		if !held {
			return false, nil
		}
		defer release()
	}
	return true, t.giveUpNow(ctx, l, in)
}

func (t *Tier) giveUpNow(ctx context.Context, l *lane, in catalog.Intent) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	err := t.o.Catalog.GiveUp(ctx, l.guard, in.Attempt)
	if err == nil {
		t.m.givenUp.Inc()
	}
	if errors.Is(err, catalog.ErrIntentGone) {
		return nil // decided by another, or by a COMMIT whose answer was lost
	}
	if err != nil {
		return fmt.Errorf("tiering: give up attempt %s of %s: %w", in.Attempt, l.p, err)
	}
	return nil
}

// adopt publishes the object of an earlier leader's intent after reading all of it. One that is not in
// the bucket is given up: nobody can make the range whole from it.
func (t *Tier) adopt(ctx context.Context, l *lane, in catalog.Intent) (adopted bool, err error) {
	ictx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	if _, err := t.upStore.Stat(ictx, in.Key); errors.Is(err, objstore.ErrNotFound) {
		return false, t.giveUpNow(ctx, l, in)
	}
	row, b, done, err := t.republish(ctx, l.guard, in, nil, l.bounds())
	if done {
		t.announce(l, b, row)
	}
	return done, err
}
