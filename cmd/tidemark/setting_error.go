package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"tidemark/broker"
	"tidemark/broker/admin"
	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/postgres"
	"tidemark/catalog/sqlite"
	"tidemark/cmd/tidemark/replay"
	"tidemark/tiering/objstore"
)

// settingError is a setting that reads well and does not work on this machine: it names the variable and what to do.
type settingError struct {
	config.Fault
	cause error // nil where Problem says all
}

// Error implements error.
func (e settingError) Error() string { return e.String() }

// Unwrap gives what the system said.
func (e settingError) Unwrap() error { return e.cause }

func unusable(variable, value string, cause error, remedy string) error {
	return settingError{config.Fault{Variable: variable, Value: value, Problem: cause.Error(), Remedy: remedy}, cause}
}

// checkDataDir finds out that the data folder is none, before anything is opened in it.
func checkDataDir(cfg config.Config) error {
	const variable = "TIDEMARK_DATA_DIR"
	dir := cfg.Broker.DataDir
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		fi, err := os.Stat(at)
		switch {
		case err == nil && !fi.IsDir():
			return unusable(variable, dir, fmt.Errorf("%s is a file", at), "name a folder")
		case err == nil && at == filepath.Clean(dir):
			return nil
		case err == nil:
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return unusable(variable, dir, err, "name a folder that this user may make")
			}
			return nil
		case errors.Is(err, os.ErrPermission):
			return unusable(variable, dir, err, "name a folder that this user may read and write")
		case at == filepath.Dir(at):
			return nil // no root: whoever opens it says more
		}
	}
}

// explainStart names the variable of what a broker or compactor could not be opened with; other errors stay as they are.
func explainStart(cfg config.Config, err error) error {
	switch {
	case catalog.Unavailable(err):
		return explainCatalog(cfg, err)
	case errors.Is(err, broker.ErrDataDirInUse):
		return unusable("TIDEMARK_DATA_DIR", cfg.Broker.DataDir, err, "stop it, or give this one a folder of its own")
	}
	return explainListen(cfg, err)
}

// explainListen names the variable of an address that cannot be listened on; other errors stay as they are.
func explainListen(cfg config.Config, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	variable, value := "TIDEMARK_LISTENERS", cfg.Network.Listeners.String()
	if errors.Is(err, admin.ErrListen) {
		variable, value = "TIDEMARK_HTTP_LISTEN", cfg.HTTP.Listen
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return unusable(variable, value, fmt.Errorf("another process listens on %v", op.Addr), "stop it, or name another port")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return unusable(variable, value, fmt.Errorf("%v is no address of this machine", op.Addr), "name one that is, or 0.0.0.0 for all")
	case errors.Is(err, os.ErrPermission):
		return unusable(variable, value, fmt.Errorf("this user may not listen on %v", op.Addr), "name a port from 1024 on")
	}
	return unusable(variable, value, op.Err, "name an address of this machine, host:port")
}

// explainCatalog and explainObjects say what to do about a store that cannot be opened.
func explainCatalog(cfg config.Config, err error) error {
	if usage := (usageError{}); errors.As(err, &usage) {
		return err
	}
	return unusable("TIDEMARK_CATALOG_URL", cfg.Stores.Catalog.String(), err, catalogRemedy(cfg, err))
}

// catalogRemedy is what to do about an error of the catalog.
func catalogRemedy(cfg config.Config, err error) string {
	switch {
	case errors.Is(err, sqlite.ErrLocked):
		return "stop it, or give this one a data folder of its own"
	case errors.Is(err, catalog.ErrLevel):
		return "use the release that the catalog belongs to"
	case cfg.Stores.Catalog.Scheme() == "sqlite":
		return "name a file that this user may write"
	case errors.Is(err, context.DeadlineExceeded):
		return "look at the load of Postgres and the way to it; TIDEMARK_POSTGRES_CONNECT_TIMEOUT and TIDEMARK_POSTGRES_STATEMENT_TIMEOUT bound a call"
	}
	if remedy := postgres.Remedy(err); remedy != "" {
		return remedy
	}
	return "start Postgres there, or name the server and database that there are"
}

func explainObjects(cfg config.Config, err error) error {
	const variable = "TIDEMARK_OBJECT_STORE_URL"
	remedy := "write it as docs/config.md shows"
	if bad := (*objstore.URLError)(nil); errors.As(err, &bad) {
		return config.Faults{{Variable: variable, Value: bad.URL, Problem: bad.Problem, Remedy: remedy}}
	}
	switch {
	case errors.Is(err, replay.ErrNoBucket):
		remedy = objstore.Remedy(err)
	case cfg.Stores.Objects.Scheme() == "file":
		remedy = "write file:///path of a folder that this user may write"
	}
	return unusable(variable, cfg.Stores.Objects.String(), err, remedy)
}
