package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"tidemark/broker/cleaning"
	"tidemark/broker/config"
)

// compactor runs a worker that only compacts.
func (c *command) compactor() *cobra.Command {
	return &cobra.Command{
		Use:   "compactor",
		Short: "Run a worker that only compacts and merges, beside the brokers; set by TIDEMARK_ variables",
		Args:  named(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Compactor(c.environ)
			if err != nil {
				return err
			}
			if cfg.Stores.Catalog.Scheme() == "sqlite" {
				return usagef("a compactor needs a catalog in Postgres: a SQLite catalog belongs to one broker, which compacts by itself")
			}
			return c.compact(cmd.Context(), cfg)
		},
	}
}

// compact compacts until a signal ends it; its job in progress is abandoned then, and its inputs stay live.
func (c *command) compact(ctx context.Context, cfg config.Config) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log, told := c.logger(cfg)
	defer told()
	// The bucket is not asked, so what is wrong with its URL is told before anything waits.
	objects, err := openObjects(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	patience := catalogPatience(cfg, log)
	store, err := awaitCatalog(ctx, cfg, patience)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	// The tier wants a folder for chunks of cold reads, of which a compactor has none.
	dir, err := os.MkdirTemp("", "tidemark-compactor-")
	if err != nil {
		return fmt.Errorf("a folder for the compactor: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, err := cleaning.Open(ctx, cleaning.Options{
		Config: cfg, Catalog: store, Objects: objects, CacheDir: filepath.Join(dir, "cache"),
		Patience: patience, Log: log, Registry: registry(),
	})
	if err != nil {
		return unlessStopped(ctx, explainStart(cfg, err))
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return within(ctx, cfg.Broker.ShutdownTimeout, stop, w.Run)
}
