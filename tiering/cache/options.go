package cache

import (
	"errors"
	"fmt"
	"time"
)

// Errors. ErrDamaged from a Handle means: release it and Get the chunk again, which downloads it.
var (
	ErrDamaged  = errors.New("cached chunk is damaged")
	ErrTooLarge = errors.New("chunk is larger than the cache")
	ErrBusy     = errors.New("too many downloads are waiting")
	ErrClosed   = errors.New("cache is closed")
)

// Options of a Cache. Zero values are replaced by the defaults in parentheses.
type Options struct {
	// Dir is the folder of the chunk files; made if it is missing. Needed. One Cache at a time.
	Dir string
	// MaxBytes bounds the files in Dir, those of running downloads included (1 GiB).
	MaxBytes int64
	// MemoryBytes bounds the chunks that are in memory and have no file yet (128 MiB).
	MemoryBytes int64
	// MaxDownloads bounds the downloads that run at once, which hold a chunk each beyond MemoryBytes (16).
	MaxDownloads int
	// MaxQueued bounds the downloads that wait for a turn; more are ErrBusy (4096).
	MaxQueued int
	// DownloadTimeout bounds one download (1 min).
	DownloadTimeout time.Duration
	// UnreadGrace is how long a downloaded chunk is kept for a caller who stopped waiting for it (5 s).
	UnreadGrace time.Duration
	// AbandonAfter is how long a download that nobody waits for any more keeps its place in the queue (30 s).
	AbandonAfter time.Duration
	// Reads bounds the reads of chunk files in flight (nil: nothing does).
	Reads ReadGate
	// Metrics counts; nil counts nowhere.
	Metrics *Metrics
}

// ReadGate is a bound on reads of files in flight, each of which may hold a thread of the operating system until the disk
// answers. BeginRead waits for a place, EndRead gives it back.
type ReadGate interface {
	BeginRead()
	EndRead()
}

// openGate is the gate that holds nobody up.
type openGate struct{}

func (openGate) BeginRead() {}
func (openGate) EndRead()   {}

func (o Options) withDefaults() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 128 << 20
	}
	if o.MaxDownloads == 0 {
		o.MaxDownloads = 16
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 4096
	}
	setDefault(&o.DownloadTimeout, time.Minute)
	setDefault(&o.UnreadGrace, 5*time.Second)
	setDefault(&o.AbandonAfter, 30*time.Second)
	if o.Reads == nil {
		o.Reads = openGate{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return o
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("cache: Dir is empty"))
	}
	for name, v := range map[string]int64{"MaxBytes": o.MaxBytes, "MemoryBytes": o.MemoryBytes, "MaxDownloads": int64(o.MaxDownloads), "MaxQueued": int64(o.MaxQueued),
		"DownloadTimeout": int64(o.DownloadTimeout), "UnreadGrace": int64(o.UnreadGrace), "AbandonAfter": int64(o.AbandonAfter)} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("cache: %s is negative: %d", name, v))
		}
	}
	return errors.Join(errs...)
}
