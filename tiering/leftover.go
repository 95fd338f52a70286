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

// settle decides what earlier attempts left: intents of this partition whose writer is gone or has
// dropped them. As R8 has it: an intent whose range live rows cover is given up; one whose range the
// local log holds is given up, and uploaded again; any other is published, the one that reaches
// farthest first, if its object is whole and continues the tier. What is none of these stays.
func (t *Tier) settle(ctx context.Context, l *lane) error {
	b, err := t.look(ctx, l)
	if err != nil {
		return err
	}
	l.source.Published(b)
	ictx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	left, err := t.o.Catalog.Intents(ictx, l.p)
	if err != nil {
		return fmt.Errorf("tiering: intents of %s: %w", l.p, err)
	}
	left = slices.DeleteFunc(left, func(in catalog.Intent) bool { return in.Job != 0 })
	slices.SortFunc(left, func(a, b catalog.Intent) int { return int(min(max(b.Next-a.Next, -1), 1)) })
	for {
		adopted, rest, err := t.settleRound(ctx, l, left)
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
	return nil
}

// settleRound decides what it can and returns the rest. adopted says that tiered has moved, so that
// another round may decide more.
func (t *Tier) settleRound(ctx context.Context, l *lane, left []catalog.Intent) (adopted bool, rest []catalog.Intent, err error) {
	for _, in := range left {
		gaveUp, err := t.giveUp(ctx, l, in)
		if err != nil {
			return false, nil, err
		}
		if gaveUp {
			continue
		}
		b := l.bounds()
		continues := in.Base == b.Tiered || in.Base <= b.Start && b.Start == b.Tiered
		if adopted || !continues {
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
	seg, err := t.inspect(ctx, in.Key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return false, t.giveUpNow(ctx, l, in)
	case errors.Is(err, object.ErrFormat), errors.Is(err, object.ErrVersion), errors.Is(err, errDigest):
		t.log.Error("an earlier leader's object is damaged", "partition", l.p, "key", in.Key, "err", err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("tiering: object of an earlier leader: %w", err)
	}
	if seg.Partition != l.p || seg.Attempt != in.Attempt || seg.Base != in.Base || seg.Next <= l.bounds().Tiered {
		t.log.Error("an earlier leader's object is not what its intent says", "partition", l.p, "key", in.Key, "base", int64(seg.Base), "next", int64(seg.Next))
		return false, nil
	}
	pctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	b, err := t.o.Catalog.Publish(pctx, l.guard, seg)
	if errors.Is(err, catalog.ErrIntentGone) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("tiering: publish an earlier leader's [%d,%d) of %s: %w", seg.Base, seg.Next, l.p, err)
	}
	t.announce(l, b, seg)
	t.log.Info("published an earlier leader's object", "partition", l.p, "base", int64(seg.Base), "next", int64(seg.Next))
	return true, nil
}
