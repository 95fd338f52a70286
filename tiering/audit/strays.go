package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark/catalog"
	"tidemark/tiering/objstore"
)

// OldEnough is the age at which an object that nothing names may become garbage (R8).
const OldEnough = 7 * 24 * time.Hour

// ErrRefused: the bucket holds too much that the catalog does not know (D11).
var ErrRefused = errors.New("refused")

// Stray is an object that nothing names.
type Stray struct {
	Key      string    `json:"key"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	Old      bool      `json:"old"` // a week or more
}

// Census is what the bucket holds of this cluster's objects, by what names them.
type Census struct {
	Objects  int64 `json:"objects"`
	Live     int64 `json:"live"`
	Intents  int64 `json:"intents"`
	Garbage  int64 `json:"garbage"`
	Unknown  int64 `json:"unknown"`
	Old      int64 `json:"old"` // of the unknown ones
	OldBytes int64 `json:"oldBytes"`
}

// segmentPrefix begins the keys of the cluster's objects.
func (a *Auditor) segmentPrefix() string { return "segments/" + a.o.Cluster.Hex() + "/" }

// keys lists the bucket page by page.
func (a *Auditor) keys(ctx context.Context, prefix string, each func([]objstore.Info) error) error {
	for after := ""; ; {
		call, cancel := a.call(ctx)
		infos, err := a.o.Store.List(call, prefix, after, page)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		if err := each(infos); err != nil || len(infos) < page {
			return err
		}
		after = infos[len(infos)-1].Key
	}
}

// names turns a page into what the catalog is asked about.
func names(infos []objstore.Info) []catalog.ObjectName {
	out := make([]catalog.ObjectName, len(infos))
	for i, info := range infos {
		out[i] = catalog.ObjectName{Key: info.Key, Attempt: info.Key[strings.LastIndexByte(info.Key, '/')+1:]}
	}
	return out
}

// unnamed asks the catalog about a page and returns what nothing names.
func (a *Auditor) unnamed(ctx context.Context, infos []objstore.Info, c *Census) ([]objstore.Info, error) {
	ctx, cancel := a.call(ctx)
	defer cancel()
	named, err := a.o.Catalog.Named(ctx, names(infos))
	if err != nil {
		return nil, err
	}
	var out []objstore.Info
	for _, info := range infos {
		c.Objects++
		switch named[info.Key] {
		case catalog.NamedLive:
			c.Live++
		case catalog.NamedByIntent:
			c.Intents++
		case catalog.NamedAsGarbage:
			c.Garbage++
		default:
			c.Unknown++
			if a.old(info) {
				c.Old++
				c.OldBytes += info.Size
			}
			out = append(out, info)
		}
	}
	return out, nil
}

func (a *Auditor) old(i objstore.Info) bool { return a.o.Now().Sub(i.Modified) >= OldEnough }

// Strays counts the cluster's objects and calls each with those that nothing names.
func (a *Auditor) Strays(ctx context.Context, each func(Stray)) (Census, error) {
	var c Census
	err := a.keys(ctx, a.segmentPrefix(), func(infos []objstore.Info) error {
		left, err := a.unnamed(ctx, infos, &c)
		for _, i := range left {
			each(Stray{Key: i.Key, Bytes: i.Size, Modified: i.Modified, Old: a.old(i)})
		}
		return err
	})
	return c, err
}

// Judge says whether what nothing names may become garbage: nil, or ErrRefused with a sentence. percent is
// the most that may be unknown.
func (c Census) Judge(percent float64) error {
	switch {
	case c.Unknown == 0:
		return nil
	case c.Live == 0:
		return fmt.Errorf("%w: no live row names any of the %d objects in the bucket; this catalog does not know it (D11)", ErrRefused, c.Objects)
	case float64(c.Unknown)*100 > percent*float64(c.Objects):
		return fmt.Errorf("%w: nothing names %d of the %d objects in the bucket, more than %g %%; find out why, then say how many may be unknown", ErrRefused, c.Unknown, c.Objects, percent)
	}
	return nil
}

// Discard makes garbage rows of what nothing names and is a week old. It first counts and judges.
func (a *Auditor) Discard(ctx context.Context, percent float64) (discarded int64, c Census, err error) {
	if c, err = a.Strays(ctx, func(Stray) {}); err != nil {
		return 0, c, err
	}
	if err := c.Judge(percent); err != nil {
		return 0, c, err
	}
	var again Census
	err = a.keys(ctx, a.segmentPrefix(), func(infos []objstore.Info) error {
		left, err := a.unnamed(ctx, infos, &again)
		if err != nil {
			return err
		}
		var old []objstore.Info
		for _, i := range left {
			if a.old(i) {
				old = append(old, i)
			}
		}
		call, cancel := a.call(ctx)
		defer cancel()
		n, err := a.o.Catalog.DiscardStrays(call, names(old))
		discarded += int64(n)
		return err
	})
	return discarded, c, err
}

// bucket looks for keys that nothing names.
func (r *run) bucket(ctx context.Context) error {
	prefix := ""
	if r.req.Topic != nil {
		prefix = r.a.segmentPrefix() + r.req.Topic.Hex() + "/"
	}
	return r.a.keys(ctx, prefix, func(infos []objstore.Info) error {
		var ours []objstore.Info
		for _, i := range infos {
			switch {
			case strings.HasPrefix(i.Key, r.a.segmentPrefix()):
				ours = append(ours, i)
			case i.Key == "cluster.json", strings.HasPrefix(i.Key, "checkpoints/"):
			default:
				r.found(Problem{Kind: Foreign, Key: i.Key, Detail: "no object of this cluster; its bucket or prefix is its own"})
			}
		}
		var c Census
		left, err := r.a.unnamed(ctx, ours, &c)
		for _, i := range left {
			detail := fmt.Sprintf("nothing names this object of %d bytes, last written at %s", i.Size, i.Modified.UTC().Format(time.RFC3339))
			if r.a.old(i) {
				detail += "; `tidemark tier gc` may make garbage of it"
			}
			r.found(Problem{Kind: Unknown, Key: i.Key, Detail: detail})
		}
		r.count(func(d *Progress) { d.Listed += int64(len(infos)) })
		return err
	})
}
