package broker

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/tiering/objstore"
)

var (
	// ErrFenced: another process holds this broker's id now, or the catalog says that this one does not.
	// The process exits with code 3 and does not register again.
	ErrFenced = errors.New("this broker has been fenced")
	// ErrIDTaken: the broker id is held by a live process; exit code 3.
	ErrIDTaken = errors.New("the broker id is in use")
	// ErrDataDirInUse: another process holds the data folder.
	ErrDataDirInUse = hotlog.ErrInUse

	errIncomplete = errors.New("the catalog is being rebuilt from the bucket and is not whole: let `tidemark tier rebuild` finish first")
)

// Options of a broker. Catalog and Objects stay the caller's: it closes them after Run has returned.
type Options struct {
	Config  config.Config
	Catalog catalog.Store
	Objects objstore.Store
	// Patience bears a catalog that cannot be reached while the broker opens; nil: the first such error ends it.
	Patience *catalog.Patience
	Log      *slog.Logger
	// Registry gets every metric and is what /metrics shows.
	Registry *prometheus.Registry
	// Disk is how the data directory sees the machine; the zero value is the real one. Path is set here.
	Disk hotlog.DataDirOptions
}

// MakeRoom is to be called before a catalog is opened that may lie on the data folder's disk: if that is full it
// gives the reserve back, and says so (H18).
func MakeRoom(cfg config.Config) (bool, error) { return hotlog.MakeRoom(cfg.Broker.DataDir) }
