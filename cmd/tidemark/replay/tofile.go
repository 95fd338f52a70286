package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"tidemark/record"
)

// Line is a record as a line of NDJSON. A key, a value or a header's value that is UTF-8 is a string; other bytes are
// base64 in the field beside it; null is neither.
type Line struct {
	Partition   int32         `json:"partition"`
	Offset      record.Offset `json:"offset"`
	Timestamp   int64         `json:"timestamp"`
	Key         *string       `json:"key"`
	KeyBase64   *string       `json:"key_base64,omitempty"`
	Value       *string       `json:"value"`
	ValueBase64 *string       `json:"value_base64,omitempty"`
	Headers     []LineHeader  `json:"headers,omitempty"`
}

// LineHeader is a header in a Line.
type LineHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

func lineOf(p int32, r record.Record) Line {
	l := Line{Partition: p, Offset: r.Offset, Timestamp: r.Timestamp}
	l.Key, l.KeyBase64 = text(r.Key)
	l.Value, l.ValueBase64 = text(r.Value)
	for h := range r.Headers.All() {
		f := LineHeader{Key: string(h.Key)}
		f.Value, f.ValueBase64 = text(h.Value)
		l.Headers = append(l.Headers, f)
	}
	return l
}

func text(b []byte) (plain, encoded *string) {
	if b == nil {
		return nil, nil
	}
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// Bytes are what a pair of fields of a Line stands for.
func Bytes(plain, encoded *string) ([]byte, error) {
	switch {
	case plain != nil:
		return []byte(*plain), nil
	case encoded != nil:
		return base64.StdEncoding.DecodeString(*encoded)
	}
	return nil, nil
}

// lineTarget writes NDJSON to one file or stream.
type lineTarget struct {
	filter *Filter
	out    io.Writer
	path   string   // "" for a stream, which cannot go on after a kill
	file   *os.File // of path, from begin on
	cp     *Checkpoint
}

// ToStream writes NDJSON to w.
func ToStream(w io.Writer, filter *Filter) Target { return &lineTarget{filter: filter, out: w} }

// ToLines writes NDJSON to a file, which is made when the range is known to be there.
func ToLines(path string, filter *Filter) Target { return &lineTarget{filter: filter, path: path} }

// begin cuts off what was written after the checkpoint.
func (t *lineTarget) begin(_ context.Context, cp *Checkpoint) error {
	t.cp = cp
	if t.path == "" {
		return nil
	}
	var err error
	if t.file, err = os.OpenFile(t.path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return err
	}
	t.out = t.file
	if !cp.Resumed {
		fi, err := t.file.Stat()
		if err != nil {
			return err
		}
		if fi.Mode().IsRegular() && fi.Size() > 0 {
			return fmt.Errorf("%s is there already and no checkpoint says that it is this replay's; remove it or name another file", t.file.Name())
		}
		return syncDir(filepath.Dir(t.file.Name()))
	}
	if err := cutTo(t.file, cp.s.Size); err != nil {
		return err
	}
	_, err = t.file.Seek(cp.s.Size, io.SeekStart)
	return err
}

// cutTo shortens a file to what its checkpoint speaks of.
func cutTo(f *os.File, size int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() < size {
		return fmt.Errorf("%s has %d bytes, its checkpoint speaks of %d: it is not what the replay left", f.Name(), fi.Size(), size)
	}
	return f.Truncate(size)
}

func (t *lineTarget) sync() error {
	if t.file == nil {
		return nil
	}
	return t.file.Sync()
}

// note implements Target.
func (t *lineTarget) note() string { return "" }

// Close implements Target.
func (t *lineTarget) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

func (t *lineTarget) lane(p int32) writer { return &lineLane{t: t, p: p} }

type lineLane struct {
	t       *lineTarget
	p       int32
	buf     bytes.Buffer
	scratch record.Scratch
}

func (l *lineLane) resume(context.Context) (record.Offset, error) { return l.t.cp.at(l.p).Next, nil }

// write implements writer: a block's lines are written together, and only whole.
func (l *lineLane) write(_ context.Context, b Block, from, until record.Offset) (record.Offset, error) {
	l.buf.Reset()
	enc := json.NewEncoder(&l.buf)
	enc.SetEscapeHTML(false)
	var records, size int64
	next, err := b.committed(from, until, &l.scratch, func(_ record.Header, r record.Record) error {
		if !l.t.filter.Match(r) {
			return nil
		}
		records++
		size += int64(len(r.Key) + len(r.Value))
		return enc.Encode(lineOf(l.p, r))
	})
	if err != nil {
		return from, err
	}
	return next, l.t.cp.move(l.p, func(s *state, c *lane) error {
		n, err := l.t.out.Write(l.buf.Bytes())
		if err != nil {
			return fmt.Errorf("write lines: %w", err)
		}
		s.Size += int64(n)
		s.Records += records
		s.Bytes += size
		c.Next = next
		return nil
	})
}

// dumpTarget writes batches verbatim, a folder for each partition, as Kafka keeps them.
type dumpTarget struct {
	dir   string
	topic string
	cp    *Checkpoint
	lanes []*dumpLane
}

// dumpRoll is how large a file of batches grows.
const dumpRoll = 1 << 30

// ToDump writes the batches that overlap the range to dir/<topic>-<partition>/<first offset>.log, which Kafka's dump tool
// reads. Control batches and aborted ones are among them.
func ToDump(dir, topic string) Target { return &dumpTarget{dir: dir, topic: topic} }

func (t *dumpTarget) begin(_ context.Context, cp *Checkpoint) error {
	t.cp = cp
	for p := range cp.Ranges() {
		folder := t.folder(p)
		if !cp.Resumed {
			if found, _ := filepath.Glob(filepath.Join(folder, "*.log")); len(found) > 0 {
				return fmt.Errorf("%s is there already and no checkpoint says that it is this replay's; remove it or name another folder", found[0])
			}
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := syncDir(t.dir); err != nil {
			return err
		}
	}
	return nil
}

func (t *dumpTarget) folder(p int32) string {
	return filepath.Join(t.dir, fmt.Sprintf("%s-%d", t.topic, p))
}

func (t *dumpTarget) lane(p int32) writer {
	l := &dumpLane{t: t, p: p}
	t.lanes = append(t.lanes, l)
	return l
}

func (t *dumpTarget) sync() error {
	var errs []error
	for _, l := range t.lanes {
		if l.file != nil {
			errs = append(errs, l.file.Sync(), syncDir(t.folder(l.p)))
		}
	}
	return errors.Join(errs...)
}

// note implements Target.
func (t *dumpTarget) note() string { return "" }

// Close implements Target.
func (t *dumpTarget) Close() error {
	var errs []error
	for _, l := range t.lanes {
		if l.file != nil {
			errs = append(errs, l.file.Close())
			l.file = nil
		}
	}
	return errors.Join(errs...)
}

// dumpLane writes one partition. Its file is guarded by the checkpoint's lock.
type dumpLane struct {
	t    *dumpTarget
	p    int32
	file *os.File
}

// resume cuts the open file back, and removes those that were begun after the checkpoint.
func (l *dumpLane) resume(context.Context) (record.Offset, error) {
	at := l.t.cp.at(l.p)
	found, err := filepath.Glob(filepath.Join(l.t.folder(l.p), "*.log"))
	if err != nil {
		return 0, err
	}
	for _, path := range found {
		if filepath.Base(path) > at.File {
			if err := os.Remove(path); err != nil {
				return 0, err
			}
		}
	}
	if at.File == "" {
		return at.Next, nil
	}
	f, err := os.OpenFile(filepath.Join(l.t.folder(l.p), at.File), os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	if err := cutTo(f, at.Size); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	_, err = f.Seek(at.Size, io.SeekStart)
	return at.Next, errors.Join(err, l.t.cp.move(l.p, func(*state, *lane) error {
		l.file = f
		return nil
	}))
}

func (l *dumpLane) write(_ context.Context, b Block, from, until record.Offset) (record.Offset, error) {
	first := record.NoOffset
	next, begin, end, at := max(from, b.Next), 0, 0, 0
	var records int64
	err := b.batches(func(h record.Header, batch []byte) error {
		begins := at
		at += len(batch)
		if h.BaseOffset >= until {
			next = max(next, until)
		}
		if h.NextOffset() <= from || h.BaseOffset >= until {
			return nil
		}
		if first == record.NoOffset {
			first, begin = h.BaseOffset, begins
		}
		end, next, records = at, max(next, h.NextOffset()), records+int64(h.Count)
		return nil
	})
	if err != nil {
		return from, err
	}
	return next, l.t.cp.move(l.p, func(s *state, c *lane) error {
		c.Next = next
		s.Records += records
		s.Bytes += int64(end - begin)
		return l.append(c, first, b.Batches[begin:end])
	})
}

// append writes whole batches that begin at first to the open file, or to a new one.
func (l *dumpLane) append(c *lane, first record.Offset, batches []byte) error {
	if len(batches) == 0 {
		return nil
	}
	if l.file == nil || c.Size+int64(len(batches)) > dumpRoll {
		if l.file != nil {
			if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
				return err
			}
		}
		c.File, c.Size = fmt.Sprintf("%020d.log", first), 0
		f, err := os.OpenFile(filepath.Join(l.t.folder(l.p), c.File), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		l.file = f
	}
	n, err := l.file.Write(batches)
	c.Size += int64(n)
	return err
}
