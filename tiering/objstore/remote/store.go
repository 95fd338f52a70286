package remote

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tidemark/tiering/objstore"
)

// Options of a Store. Zero values are replaced by the defaults in parentheses.
type Options struct {
	// Prefix stands before every key, with a slash between (none).
	Prefix string
	// Code reads the service's error code from a client's error; needed.
	Code func(error) string
	// Attempts is how often a request is sent at most (4).
	Attempts int
	// Backoff is the wait before the second attempt; it doubles up to 2 s, with jitter (100 ms).
	Backoff time.Duration
	// Timeout bounds one attempt without its bytes (10 s); each byte adds 1/MinRate.
	Timeout time.Duration
	// MinRate is the slowest transfer that is still waited for, in bytes per second (1 MiB/s).
	MinRate int64
	// SinglePutMax is the largest object stored by one request (objstore.MaxSinglePut).
	SinglePutMax int64
	// PartSize is the size of every part but the last of a multipart upload (16 MiB); services want at least 5 MiB.
	PartSize int64
	// NativeChecksums adds the service's own CRC-32C to uploads, for buckets that demand an integrity header (false).
	NativeChecksums bool
	// OnRetry is told of each failed attempt that is followed by another (nobody).
	OnRetry func(op string, err error)
}

const (
	maxBackoff = 2 * time.Second
	maxParts   = 10_000
	maxPage    = 1000
)

func (o Options) withDefaults() Options {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	def(&o.MinRate, 1<<20)
	def(&o.SinglePutMax, objstore.MaxSinglePut)
	def(&o.PartSize, 16<<20)
	if o.OnRetry == nil {
		o.OnRetry = func(string, error) {}
	}
	if o.Prefix != "" {
		o.Prefix += "/"
	}
	return o
}

// Store implements objstore.StoreCloser over one bucket.
type Store struct {
	objects   Objects
	uploads   Uploads
	transport *Transport
	opts      Options
}

// New makes a Store; transport is the one that the client behind objects and uploads uses.
func New(objects Objects, uploads Uploads, transport *Transport, opts Options) *Store {
	return &Store{objects: objects, uploads: uploads, transport: transport, opts: opts.withDefaults()}
}

// Close ends the idle connections. Requests in flight are not disturbed.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, src objstore.Source, opts objstore.PutOptions) error {
	if err := check("put", key); err != nil {
		return err
	}
	if src.Size > s.opts.SinglePutMax {
		return s.putParts(ctx, key, src, opts)
	}
	return s.do(ctx, call{op: "put", key: key, size: src.Size}, func(ctx context.Context) error {
		return s.send(src, 0, src.Size, func(r PutRequest) error {
			r.Key, r.Attempt = s.opts.Prefix+key, opts.Attempt
			return s.objects.Put(ctx, r)
		})
	})
}

// send prepares one attempt to send [off, off+n) of src with a reader of its own.
func (s *Store) send(src objstore.Source, off, n int64, request func(PutRequest) error) error {
	b := newBody(src, off, n)
	r := PutRequest{Body: b, Size: n}
	whole := n == src.Size && src.SHA256 != [32]byte{}
	var err error
	switch {
	case whole && src.CRC32C != 0:
		r.CRC32C = base64CRC(src.CRC32C)
	case s.opts.NativeChecksums || !whole:
		r.SHA256, r.CRC32C, err = b.digests()
	}
	if whole {
		r.SHA256 = hex.EncodeToString(src.SHA256[:])
	}
	if !s.opts.NativeChecksums {
		r.CRC32C = ""
	}
	if err == nil {
		err = request(r)
	}
	if srcErr := b.detach(); srcErr != nil && err != nil {
		return permanent{srcErr}
	}
	return err
}

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (info objstore.Info, err error) {
	if err := check("stat", key); err != nil {
		return info, err
	}
	err = s.do(ctx, call{op: "stat", key: key}, func(ctx context.Context) error {
		h, err := s.objects.Head(ctx, s.opts.Prefix+key)
		info = h.Info
		return err
	})
	info.Key = key
	return info, err
}

// Delete implements objstore.Store. Uploads are aborted before and after: a part that was in flight at the first abort
// may have been kept.
func (s *Store) Delete(ctx context.Context, key string, uploads ...string) error {
	if err := check("delete", key); err != nil {
		return err
	}
	if err := s.abort(ctx, key, uploads...); err != nil {
		return err
	}
	err := s.do(ctx, call{op: "delete", key: key}, func(ctx context.Context) error {
		return s.objects.Delete(ctx, s.opts.Prefix+key)
	})
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	return s.abort(ctx, key, uploads...)
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	var all []objstore.Info
	if after != "" {
		after = s.opts.Prefix + after
	}
	for more := true; more && len(all) < limit; {
		var page []objstore.Info
		err := s.do(ctx, call{op: "list", key: prefix}, func(ctx context.Context) (err error) {
			page, more, err = s.objects.List(ctx, s.opts.Prefix+prefix, after, min(limit-len(all), maxPage))
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key
		for _, info := range page {
			info.Key = info.Key[len(s.opts.Prefix):]
			all = append(all, info)
		}
	}
	return all, nil
}

// call describes an operation for do: size is how many bytes one attempt moves.
type call struct {
	op, key string
	size    int64
}

// do sends a request until it succeeds, fails for good, or the attempts are used up.
func (s *Store) do(ctx context.Context, c call, attempt func(context.Context) error) error {
	mayBeDone := false
	for n := 1; ; n++ {
		f, ok := s.once(ctx, c.size, attempt)
		if ok {
			return nil
		}
		mayBeDone = mayBeDone || f.mayBeDone
		if !f.again || n >= s.opts.Attempts || !s.pause(ctx, n) {
			return f.report(c.op, c.key, n, mayBeDone)
		}
		s.opts.OnRetry(c.op, f.err)
	}
}

// once makes one attempt under a deadline of its own.
func (s *Store) once(ctx context.Context, size int64, attempt func(context.Context) error) (failure, bool) {
	if ctx.Err() != nil {
		return failure{err: context.Cause(ctx)}, false // nothing was sent
	}
	d := s.opts.Timeout + time.Duration(float64(size)/float64(s.opts.MinRate)*float64(time.Second))
	attemptCtx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	attemptCtx, n := withNote(attemptCtx)
	err := attempt(attemptCtx)
	if err == nil {
		return failure{}, true
	}
	if ctx.Err() == nil && attemptCtx.Err() != nil {
		err = fmt.Errorf("no end within %v: %w", d, err)
	}
	return s.sort(ctx, err, *n), false
}

// pause waits before attempt n+1; false if ctx ended.
func (s *Store) pause(ctx context.Context, n int) bool {
	d := min(s.opts.Backoff<<min(n-1, 10), maxBackoff)
	return sleep(ctx, d/2+rand.N(d/2+1))
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func check(op, key string) error {
	if err := objstore.ValidateKey(key); err != nil {
		return &objstore.Error{Op: op, Key: key, Err: err}
	}
	return nil
}
