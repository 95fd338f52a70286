package remote

import (
	"context"
	"errors"
	"fmt"

	"tidemark/tiering/objstore"
)

// putParts stores a source that is too large for one request. Parts have one size, as some services demand, and go one
// after the other, so that none is in flight when the upload is aborted. Whatever fails, the upload is aborted; an
// upload whose Create lost its reply has no known id and stays with the store.
func (s *Store) putParts(ctx context.Context, key string, src objstore.Source, opts objstore.PutOptions) error {
	if opts.OnUpload == nil || opts.Attempt == "" {
		return &objstore.Error{Op: "put", Key: key,
			Err: fmt.Errorf("%w: %d bytes need OnUpload and Attempt, see PutOptions", objstore.ErrRefused, src.Size)}
	}
	if src.Size > maxParts*s.opts.PartSize {
		return &objstore.Error{Op: "put", Key: key,
			Err: fmt.Errorf("%w: %d bytes are more than %d parts of %d", objstore.ErrRefused, src.Size, maxParts, s.opts.PartSize)}
	}
	var id string
	err := s.do(ctx, call{op: "create upload", key: key}, func(ctx context.Context) (err error) {
		id, err = s.uploads.Create(ctx, s.opts.Prefix+key, opts.Attempt, s.opts.NativeChecksums)
		return err
	})
	if err != nil {
		return settled(err)
	}
	if err = opts.OnUpload(ctx, id); err == nil {
		err = s.sendParts(ctx, key, id, src, opts.Attempt)
	}
	if err == nil {
		return nil
	}
	// The caller's context may be over, and that is no reason to leave parts that are paid for.
	if abortErr := s.abort(context.WithoutCancel(ctx), key, id, id); abortErr != nil {
		return errors.Join(err, abortErr)
	}
	return err
}

func (s *Store) sendParts(ctx context.Context, key, id string, src objstore.Source, attempt string) error {
	parts := make([]Part, 0, (src.Size+s.opts.PartSize-1)/s.opts.PartSize)
	for off := int64(0); off < src.Size; off += s.opts.PartSize {
		n := min(s.opts.PartSize, src.Size-off)
		var part Part
		err := s.patiently(ctx, call{op: "put part", key: key, size: n}, func(ctx context.Context) error {
			return s.send(src, off, n, func(r PutRequest) (err error) {
				r.Key = s.opts.Prefix + key
				part, err = s.uploads.Part(ctx, id, len(parts)+1, r)
				return err
			})
		})
		if err != nil {
			return settled(err) // parts alone are no object
		}
		parts = append(parts, part)
	}
	return s.complete(ctx, completion{key: key, id: id, size: src.Size, attempt: attempt, parts: parts})
}

// completion is all that the last request of an upload needs.
type completion struct {
	key, id, attempt string
	size             int64
	parts            []Part
}

// complete makes the object of the parts and looks whether it is there. No answer to Complete is enough: after a lost
// reply NoSuchUpload may mean done or aborted, and a store was seen to answer 200 for an upload that is gone because
// another object stands under the key. The object decides, by its size and its attempt id.
func (s *Store) complete(ctx context.Context, c completion) error {
	const op = "complete upload"
	mayBeDone := false
	for n := 1; ; n++ {
		f, ok := s.once(ctx, 0, func(ctx context.Context) error {
			return s.uploads.Complete(ctx, s.opts.Prefix+c.key, c.id, c.parts)
		})
		mayBeDone = mayBeDone || ok || f.mayBeDone
		gone := ok || f.code == "NoSuchUpload" || errors.Is(f.err, objstore.ErrNotFound)
		if mayBeDone || gone {
			there, err := s.isOurs(ctx, c)
			switch {
			case err == nil && there:
				return nil
			case err == nil && gone:
				f.err = fmt.Errorf("%w: upload %s is gone and its object is not there", objstore.ErrRefused, c.id)
				return f.report(op, c.key, n, false)
			case ok:
				f.err = err
				return f.report(op, c.key, n, true)
			}
		}
		throttled := errors.Is(f.err, objstore.ErrThrottled)
		if !f.again && !throttled || n >= s.opts.Attempts || !s.wait(ctx, n, f) {
			return f.report(op, c.key, n, mayBeDone)
		}
		s.opts.OnRetry(op, f.err)
	}
}

func (s *Store) isOurs(ctx context.Context, c completion) (bool, error) {
	var h Head
	err := s.do(ctx, call{op: "stat", key: c.key}, func(ctx context.Context) (err error) {
		h, err = s.objects.Head(ctx, s.opts.Prefix+c.key)
		return err
	})
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return h.Info.Size == c.size && h.Attempt == c.attempt, err
}

// abort ends uploads; one that is not there is a success (some services answer 404, some 204). Naming an id twice
// aborts it twice.
func (s *Store) abort(ctx context.Context, key string, ids ...string) error {
	for _, id := range ids {
		err := s.do(ctx, call{op: "abort upload", key: key}, func(ctx context.Context) error {
			err := s.uploads.Abort(ctx, s.opts.Prefix+key, id)
			if err != nil && s.opts.Code(err) == "NoSuchUpload" {
				return nil
			}
			return err
		})
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
	return nil
}

// patiently is do, but waits out throttling too: the parts sent so far are worth it.
func (s *Store) patiently(ctx context.Context, c call, attempt func(context.Context) error) error {
	for n := 1; ; n++ {
		err := s.do(ctx, c, attempt)
		if err == nil || !errors.Is(err, objstore.ErrThrottled) || n >= s.opts.Attempts {
			return err
		}
		if !s.wait(ctx, n, failure{note: note{retryAfter: objstore.RetryAfter(err)}}) {
			return err
		}
		s.opts.OnRetry(c.op, err)
	}
}

// wait is pause, after what the service asked for; false if ctx would end before.
func (s *Store) wait(ctx context.Context, n int, f failure) bool {
	if f.note.retryAfter > 0 {
		if !sleep(ctx, f.note.retryAfter) {
			return false
		}
	}
	return s.pause(ctx, n)
}

// settled is err of a step that alone stores no object.
func settled(err error) error {
	var e *objstore.Error
	if errors.As(err, &e) {
		e.MayBeDone = false
	}
	return err
}
