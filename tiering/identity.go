package tiering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"tidemark/catalog"
	"tidemark/tiering/objstore"
)

// identityKey names the file that says whose bucket this is.
const identityKey = "cluster.json"

// identityLimit bounds its size.
const identityLimit = 4096

// clusterFile is cluster.json.
type clusterFile struct {
	Cluster    string `json:"cluster"` // 32 characters of [0-9a-f]
	Generation int64  `json:"generation"`
}

// errEmptyBucket is a bucket that is not there yet, for whoever knows that it has been written to.
var errEmptyBucket = errors.New("there is no " + identityKey + " in it, although the catalog names objects: is its disk mounted, are bucket and prefix the right ones?")

// identity is whether the bucket is known to be this cluster's.
type identity struct {
	known   atomic.Bool
	trouble atomic.Pointer[error] // why not, as the last try saw it
}

// Ready reports whether the bucket has been found to be this cluster's. Until then nothing is uploaded
// and cold reads answer ErrStorage; hot traffic does not care (H22).
func (t *Tier) Ready() bool { return t.bound.known.Load() }

// Trouble is why the bucket was not known when it was last tried; nil if it is.
func (t *Tier) Trouble() error {
	if err := t.bound.trouble.Load(); err != nil && !t.Ready() {
		return *err
	}
	return nil
}

// Probe asks the bucket whether it still answers and is the one that it was: an error if it does not.
func (t *Tier) Probe(ctx context.Context) error {
	_, err := t.store.Stat(ctx, identityKey)
	return err
}

// identify tries once to read or make cluster.json. An unreachable bucket is no error.
func (t *Tier) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(t.o.CallTimeout, 5*time.Second))
	defer cancel()
	err := t.claim(ctx)
	switch {
	case err == nil:
		t.bound.known.Store(true)
		return nil
	case errors.Is(err, ErrOtherCluster), errors.Is(err, ErrNewerBucket):
		return err
	}
	t.bound.trouble.Store(&err)
	t.log.Warn("the bucket cannot be used: tiering is off until it can", "remedy", objstore.Remedy(err), "err", err)
	return nil
}

// awaitBucket repeats identify until it has an answer.
func (t *Tier) awaitBucket(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for !t.Ready() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := t.identify(ctx); err != nil {
			return err
		}
	}
	t.log.Info("the bucket is there: tiering is on")
	t.sched.signal()
	return nil
}

// claim reads cluster.json and holds it against ours; it makes the file if the bucket has none, and moves
// its generation up to the catalog's. Brokers of one cluster that do so at once write the same bytes.
func (t *Tier) claim(ctx context.Context) error {
	f, found, err := t.readIdentity(ctx)
	if err != nil {
		return err
	}
	if found {
		id, err := catalog.ParseUUID(f.Cluster)
		if err != nil || id != t.o.Cluster {
			return fmt.Errorf("%w: %s names %q, the catalog %q; give each cluster its own bucket or prefix", ErrOtherCluster, identityKey, f.Cluster, t.o.Cluster.Hex())
		}
		if f.Generation > t.o.Generation {
			return fmt.Errorf("%w: %s says generation %d, the catalog %d: this catalog is a copy from before the cluster was rebuilt or went on; use the newer one, or empty this one and run `tidemark tier rebuild`",
				ErrNewerBucket, identityKey, f.Generation, t.o.Generation)
		}
		if f.Generation == t.o.Generation {
			return nil
		}
	} else if t.o.Holds {
		return errEmptyBucket
	}
	return t.writeIdentity(ctx, t.o.Generation)
}

// SetGeneration moves the bucket to a generation that the catalog has been raised to.
func (t *Tier) SetGeneration(ctx context.Context, generation int64) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	f, found, err := t.readIdentity(ctx)
	if err != nil || found && f.Generation >= generation {
		return err
	}
	return t.writeIdentity(ctx, generation)
}

func (t *Tier) writeIdentity(ctx context.Context, generation int64) error {
	raw, err := json.Marshal(clusterFile{Cluster: t.o.Cluster.Hex(), Generation: generation})
	if err != nil {
		return err
	}
	return t.o.Store.Put(ctx, identityKey, objstore.Bytes(append(raw, '\n')), objstore.PutOptions{})
}

func (t *Tier) readIdentity(ctx context.Context) (f clusterFile, found bool, err error) {
	info, err := t.o.Store.Stat(ctx, identityKey)
	if errors.Is(err, objstore.ErrNotFound) {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	if info.Size > identityLimit {
		return f, false, fmt.Errorf("%w: %s has %d bytes", ErrOtherCluster, identityKey, info.Size)
	}
	raw := make([]byte, info.Size)
	if err := t.o.Store.ReadRange(ctx, identityKey, 0, raw); err != nil {
		return f, false, err
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, false, fmt.Errorf("%w: %s is not ours: %w", ErrOtherCluster, identityKey, err)
	}
	return f, true, nil
}
