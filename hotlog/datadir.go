package hotlog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/hotlog/disk"
)

// Files of a data directory beside the partitions' directories. State files are
// sealed; payloads:
//
//	lock          empty; held with flock(2) while a process uses the directory
//	identity      int32 broker id, then the cluster id's text
//	incarnation   int64 incarnation, then the kernel boot id's text
//	clean         empty: the last process closed every log (H4)
//	logs          what each log knew when it was closed; read and removed at start
//	failed        empty: a write or fsync failed (H28)
//	reserve       ballast, given back when the disk is full (H18)
//	probe         the lease gate's small synced write (H28)
//	stray/        directories of topics that the catalog does not know
//	trash/        partitions that are being deleted (EmptyTrash)
const (
	lockName        = "lock"
	identityName    = "identity"
	incarnationName = "incarnation"
	cleanName       = "clean"
	logsName        = "logs"
	failedName      = "failed"
	reserveName     = "reserve"
	probeName       = "probe"
	strayName       = "stray"
	trashName       = "trash"
)

var (
	identityKind    = disk.Kind{Magic: "TMID", Version: 1}
	incarnationKind = disk.Kind{Magic: "TMIN", Version: 1}
	markKind        = disk.Kind{Magic: "TMMK", Version: 1}
)

// DataDirOptions say which directory, and how to see the rest of the machine.
type DataDirOptions struct {
	// Path is made if absent, with its parents.
	Path string
	// BootID is the running kernel's id; nil: /proc's. An empty one equals none.
	BootID func() string
	// Wall is the wall clock, for the age of what was set aside; nil: time.Now.
	Wall   func() time.Time
	Logger *slog.Logger
	FS     disk.FS
}

// DataDir is a broker's data directory, locked by this process.
type DataDir struct {
	path   string
	fs     *disk.Batch
	wall   func() time.Time
	bootID string
	logger *slog.Logger
	lock   *os.File

	mu       sync.Mutex
	identity identity
	stored   incarnation
	wasClean bool                    // the process before stopped cleanly
	failed   bool                    // a write failed, in this life or the one before
	probing  *probe                  // a write that has not come back
	known    map[partitionKey][]byte // what the clean stop left of logs that have not been opened since
	closed   bool

	trash  trash
	strays atomic.Bool // stray/ may hold something

	probes    sync.WaitGroup
	probeFile disk.File // the running probe's own
}

type identity struct {
	cluster string
	broker  int32
	bound   bool
}

type incarnation struct {
	number int64 // 0: none
	bootID string
}

// OpenDataDir locks the directory, reads what the process before left, and takes
// the clean mark away, durably, before anything is written. Errors: ErrInUse, and
// disk.ErrDamaged if the identity cannot be read.
func OpenDataDir(o DataDirOptions) (*DataDir, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.BootID == nil {
		o.BootID = disk.BootID
	}
	if err := os.MkdirAll(o.Path, 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(o.Path, lockName))
	if err != nil {
		if errors.Is(err, disk.ErrLocked) {
			return nil, fmt.Errorf("%w: %s: another process holds its lock", ErrInUse, o.Path)
		}
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d := &DataDir{path: o.Path, fs: disk.NewBatch(o.FS), wall: o.Wall, bootID: o.BootID(), logger: o.Logger, lock: lock}
	d.trash.wake, d.trash.closing = make(chan struct{}, 1), map[partitionKey]*Log{}
	if err := d.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", o.Path, err), lock.Close())
	}
	return d, nil
}

func (d *DataDir) load() error {
	b, err := disk.ReadSealed(d.file(identityName), identityKind)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(b) < 4:
		return fmt.Errorf("%w: identity of %d bytes", disk.ErrDamaged, len(b))
	default:
		d.identity = identity{cluster: string(b[4:]), broker: int32(binary.BigEndian.Uint32(b)), bound: true}
	}
	// An unreadable incarnation is as good as none: the catalog gives a new one.
	if b, err := disk.ReadSealed(d.file(incarnationName), incarnationKind); err == nil && len(b) >= 8 {
		d.stored = incarnation{int64(binary.BigEndian.Uint64(b)), string(b[8:])}
	}
	if _, err := os.Stat(d.file(failedName)); !errors.Is(err, fs.ErrNotExist) {
		d.failed = true
	}
	if _, err := disk.ReadSealed(d.file(cleanName), markKind); err == nil {
		d.wasClean = true
	}
	if d.wasClean && !d.failed {
		d.readKnown()
	}
	for _, name := range []string{cleanName, logsName} {
		if err := disk.RemoveIfThere(d.fs, d.file(name)); err != nil {
			return err
		}
	}
	strays, err := os.ReadDir(d.file(strayName))
	d.strays.Store(len(strays) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist))
	return d.fs.SyncDir(d.path)
}

func (d *DataDir) file(name string) string { return filepath.Join(d.path, name) }

// Bind writes the identity into a directory that has none, durably, and compares
// it in one that has. Error: ErrForeign, with a sentence for the operator.
func (d *DataDir) Bind(clusterID string, broker int32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.identity.bound {
		if d.identity.cluster == clusterID && d.identity.broker == broker {
			return nil
		}
		return fmt.Errorf("%w: %s holds the data of broker %d of cluster %s, this is broker %d of cluster %s; give this one a folder of its own",
			ErrForeign, d.path, d.identity.broker, d.identity.cluster, broker, clusterID)
	}
	payload := append(binary.BigEndian.AppendUint32(nil, uint32(broker)), clusterID...)
	if err := disk.WriteSealed(d.fs, d.file(identityName), identityKind, payload); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	d.identity = identity{clusterID, broker, true}
	return nil
}

// Identity is whose data this is; false before the first Bind.
func (d *DataDir) Identity() (clusterID string, broker int32, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity.cluster, d.identity.broker, d.identity.bound
}

// MayKeepIncarnation is the incarnation that the process before had, and whether a
// registration may keep it (H4): after a clean stop, or under the same kernel (a
// killed process loses no page cache), and if no write failed before.
func (d *DataDir) MayKeepIncarnation() (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sameBoot := d.bootID != "" && d.bootID == d.stored.bootID
	return d.stored.number, d.stored.number != 0 && !d.failed && (d.wasClean || sameBoot)
}

// SetIncarnation stores, durably, what the catalog gave at registration. A new
// number ends what the failed mark of an earlier life said.
func (d *DataDir) SetIncarnation(number int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	renewed := number != d.stored.number
	payload := append(binary.BigEndian.AppendUint64(nil, uint64(number)), d.bootID...)
	if err := disk.WriteSealed(d.fs, d.file(incarnationName), incarnationKind, payload); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	d.stored = incarnation{number, d.bootID}
	if !renewed || !d.failed {
		return nil
	}
	if err := disk.RemoveIfThere(d.fs, d.file(failedName)); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	d.failed = false
	return d.fs.SyncDir(d.path)
}

// MarkClean says, durably, that every log was closed without error: the caller's
// last act. After MarkFailed it does nothing.
func (d *DataDir) MarkClean() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed {
		return nil
	}
	return disk.WriteSealed(d.fs, d.file(cleanName), markKind, nil)
}

// MarkFailed says that a write or fsync failed: this process writes no clean mark
// any more and the next one gets a new incarnation. An error means that the disk
// does not even take the mark; the process should end, and its incarnation with it.
func (d *DataDir) MarkFailed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = true
	return disk.WriteSealed(d.fs, d.file(failedName), markKind, nil)
}

// Close waits for a running probe and for what is under way in discarded logs, and gives the lock back. Idempotent.
func (d *DataDir) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.probes.Wait()
	d.closeAbandoned()
	var err error
	if d.probeFile != nil {
		err = d.probeFile.Close()
	}
	return errors.Join(err, d.lock.Close())
}

// hexOf is a topic id as directory names have it.
func hexOf(topic [16]byte) string { return hex.EncodeToString(topic[:]) }

// splitDirName takes "<32 hex digits>-<partition>" apart.
func splitDirName(name string) (topic [16]byte, partition int32, ok bool) {
	id, number, found := strings.Cut(name, "-")
	if !found || len(id) != 32 {
		return topic, 0, false
	}
	p, err := strconv.ParseInt(number, 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != number {
		return topic, 0, false
	}
	if _, err := hex.Decode(topic[:], []byte(id)); err != nil {
		return topic, 0, false
	}
	return topic, int32(p), hexOf(topic) == id
}
