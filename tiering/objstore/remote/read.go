package remote

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tidemark/tiering/objstore"
)

// ReadRange implements objstore.Store. A body that ends early is resumed behind the bytes that came, with If-Match, so
// that a range never mixes two objects.
func (s *Store) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	if err := check("get", key); err != nil {
		return err
	}
	if off < 0 {
		return &objstore.Error{Op: "get", Key: key, Err: fmt.Errorf("%w: offset %d", objstore.ErrRange, off)}
	}
	got, etag := 0, ""
	for n := 1; got < len(dst); n++ {
		f, ok := s.once(ctx, int64(len(dst)-got), func(ctx context.Context) error {
			reply, err := s.objects.GetRange(ctx, s.opts.Prefix+key, off+int64(got), int64(len(dst)-got), etag)
			if err != nil {
				return err
			}
			defer reply.Body.Close()
			if err := checkRange(reply.ContentRange, off+int64(got), int64(len(dst)-got)); err != nil {
				return err
			}
			etag = reply.ETag
			k, err := io.ReadFull(reply.Body, dst[got:])
			got += k
			if err != nil {
				return fmt.Errorf("body ended at byte %d of %d: %w", got, len(dst), err)
			}
			return nil
		})
		if ok {
			return nil
		}
		// Each MiB that came buys another attempt: a long range over a bad line may take many, a stuck one ends.
		if !f.again || n >= s.opts.Attempts+got>>20 || !s.pause(ctx, min(n, s.opts.Attempts)) {
			return f.report("get", key, n, false)
		}
		s.opts.OnRetry("get", f.err)
	}
	return nil
}

// checkRange compares the Content-Range of a reply with the n bytes from off that were asked for.
func checkRange(header string, off, n int64) error {
	if header == "" {
		return fmt.Errorf("%w: the whole object instead of bytes %d-%d", objstore.ErrBadReply, off, off+n-1)
	}
	first, last, total, ok := parseContentRange(header)
	if !ok {
		return fmt.Errorf("%w: Content-Range %q", objstore.ErrBadReply, header)
	}
	if total >= 0 && total < off+n {
		return permanent{fmt.Errorf("%w: bytes %d-%d of %d", objstore.ErrRange, off, off+n-1, total)}
	}
	if first != off || last != off+n-1 {
		return fmt.Errorf("%w: Content-Range %q instead of bytes %d-%d", objstore.ErrBadReply, header, off, off+n-1)
	}
	return nil
}

// parseContentRange reads "bytes first-last/total"; total is -1 for "*".
func parseContentRange(s string) (first, last, total int64, ok bool) {
	s, ok1 := strings.CutPrefix(s, "bytes ")
	rng, tot, ok2 := strings.Cut(s, "/")
	a, b, ok3 := strings.Cut(rng, "-")
	first, err1 := strconv.ParseInt(a, 10, 64)
	last, err2 := strconv.ParseInt(b, 10, 64)
	total, err3 := strconv.ParseInt(tot, 10, 64)
	if tot == "*" {
		total, err3 = -1, nil
	}
	return first, last, total, ok1 && ok2 && ok3 && err1 == nil && err2 == nil && err3 == nil
}
