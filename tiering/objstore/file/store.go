package file

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/tiering/objstore"
)

const tempDir = ".TMP"

// Store implements objstore.StoreCloser in a folder.
type Store struct {
	root string
}

// Open makes the folder that u names if need be and removes what unfinished uploads left over an hour ago. A URL that is
// none of a folder is an *objstore.URLError.
func Open(_ context.Context, u *url.URL) (objstore.StoreCloser, error) {
	if u.Host != "" || u.Path == "" || !filepath.IsAbs(u.Path) {
		return nil, &objstore.URLError{URL: u.Redacted(), Problem: "write file:///absolute/path"}
	}
	if u.RawQuery != "" {
		return nil, &objstore.URLError{URL: u.Redacted(), Problem: "file URLs take no parameters"}
	}
	s := &Store{root: filepath.Clean(u.Path)}
	if err := s.makeDir(filepath.Join(s.root, tempDir)); err != nil {
		return nil, err
	}
	return s, s.sweepTemp()
}

// leftAfter is the age from which on a temporary file is nobody's any more: no Put takes that long.
const leftAfter = time.Hour

// sweepTemp removes what unfinished Puts of processes that are gone have left. Younger files may belong
// to another broker that shares the folder.
func (s *Store) sweepTemp() error {
	dir := filepath.Join(s.root, tempDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < leftAfter {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close implements io.Closer; there is nothing to close.
func (s *Store) Close() error { return nil }

// Put implements objstore.Store. Multipart uploads do not exist here, so OnUpload is never called.
func (s *Store) Put(ctx context.Context, key string, src objstore.Source, _ objstore.PutOptions) error {
	path, err := s.path("put", key)
	if err != nil {
		return err
	}
	temp, err := s.writeTemp(ctx, src)
	if err != nil {
		return s.failed("put", key, err)
	}
	// A Delete that tidies empty folders may take the one just made: then make it again.
	for range 10 {
		if err = s.makeDir(filepath.Dir(path)); err == nil {
			err = os.Rename(temp, path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		_ = os.Remove(temp)
		return s.failed("put", key, err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return &objstore.Error{Op: "put", Key: key, Attempts: 1, MayBeDone: true, Err: err}
	}
	return nil
}

func (s *Store) writeTemp(ctx context.Context, src objstore.Source) (path string, err error) {
	f, err := os.CreateTemp(filepath.Join(s.root, tempDir), "put-")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	name, hash, want := sumOf(src)
	buf := pieces.Get().(*[piece]byte)
	defer pieces.Put(buf)
	for off := int64(0); off < src.Size; off += piece {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		part := buf[:min(piece, src.Size-off)]
		if n, err := src.ReadAt(part, off); n < len(part) {
			if err == nil || err == io.EOF {
				err = fmt.Errorf("%w: %d bytes of %d", objstore.ErrSource, off+int64(n), src.Size)
			}
			return "", err
		}
		if hash != nil {
			hash.Write(part)
		}
		if _, err := f.Write(part); err != nil {
			return "", err
		}
	}
	if hash != nil {
		if got := hash.Sum(nil); !bytes.Equal(got, want) {
			return "", fmt.Errorf("%w: its %s is %x, not %x", objstore.ErrSource, name, got, want)
		}
	}
	return f.Name(), f.Sync()
}

// piece is how much is copied at once, between two looks at ctx.
const piece = 256 << 10

var pieces = sync.Pool{New: func() any { return new([piece]byte) }}

// sumOf is how the source's bytes are checked: by the cheaper of the sums that it brings; h is nil if it brings none.
func sumOf(src objstore.Source) (name string, h hash.Hash, want []byte) {
	switch {
	case src.CRC32C != 0:
		return "CRC-32C", crc32.New(crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.AppendUint32(nil, src.CRC32C)
	case src.SHA256 != [sha256.Size]byte{}:
		return "SHA-256", sha256.New(), src.SHA256[:]
	}
	return "", nil, nil
}

// ReadRange implements objstore.Store.
func (s *Store) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	path, err := s.path("get", key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return s.failed("get", key, err)
	}
	if off < 0 {
		return s.failed("get", key, fmt.Errorf("%w: offset %d", objstore.ErrRange, off))
	}
	f, err := openFile(path)
	if err != nil {
		return s.failed("get", key, err)
	}
	defer f.Close()
	n, err := f.ReadAt(dst, off)
	if n == len(dst) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: bytes %d-%d, it ends at %d", objstore.ErrRange, off, off+int64(len(dst))-1, off+int64(n))
	}
	return s.failed("get", key, err)
}

func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && fi.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Stat implements objstore.Store.
func (s *Store) Stat(_ context.Context, key string) (objstore.Info, error) {
	path, err := s.path("stat", key)
	if err != nil {
		return objstore.Info{}, err
	}
	fi, err := os.Stat(path)
	if err == nil && fi.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return objstore.Info{}, s.failed("stat", key, err)
	}
	return objstore.Info{Key: key, Size: fi.Size(), Modified: fi.ModTime()}, nil
}

// Delete implements objstore.Store. Folders that it leaves empty go too.
func (s *Store) Delete(_ context.Context, key string, _ ...string) error {
	path, err := s.path("delete", key)
	if err != nil {
		return err
	}
	if fi, err := os.Lstat(path); err != nil || fi.IsDir() {
		if err == nil {
			return nil // a folder is no object
		}
		if isAbsent(err) && s.mounted() == nil {
			return nil
		}
		return s.failed("delete", key, err)
	}
	if err := os.Remove(path); err != nil && !isAbsent(err) {
		return s.failed("delete", key, err)
	}
	dir := filepath.Dir(path)
	for dir != s.root && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
	if err := syncDir(dir); err != nil && !isAbsent(err) {
		return s.failed("delete", key, err)
	}
	return nil
}

// List implements objstore.Store by walking the folder; it is for tools.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	var all []objstore.Info
	if err := s.mounted(); err != nil {
		return nil, s.failed("list", prefix, err)
	}
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if isAbsent(err) {
				return nil // deleted while we walk
			}
			return err
		}
		if d.IsDir() {
			if d.Name() == tempDir {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(s.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if key <= after || !strings.HasPrefix(key, prefix) {
			return nil
		}
		fi, err := d.Info()
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		all = append(all, objstore.Info{Key: key, Size: fi.Size(), Modified: fi.ModTime()})
		return nil
	})
	if err != nil {
		return nil, s.failed("list", prefix, err)
	}
	// The walk orders path elements; keys are ordered as whole texts.
	slices.SortFunc(all, func(a, b objstore.Info) int { return cmp.Compare(a.Key, b.Key) })
	return all[:min(limit, len(all))], nil
}

func (s *Store) path(op, key string) (string, error) {
	if err := objstore.ValidateKey(key); err != nil {
		return "", &objstore.Error{Op: op, Key: key, Err: err}
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}
