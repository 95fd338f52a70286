package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tidemark/broker"
	"tidemark/broker/config"
	"tidemark/broker/repeats"
)

// node runs one broker until it fails or a signal ends it. started is called once it serves.
func (c *command) node(ctx context.Context, cfg config.Config, started func(*broker.Broker) error) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log, told := c.logger(cfg)
	defer told()
	limitMemory(cfg.Broker.Memory)
	if err := checkDataDir(cfg); err != nil {
		return err
	}
	gave, err := broker.MakeRoom(cfg)
	if err != nil {
		return err
	}
	if gave {
		log.Warn("the data disk is full; its reserve is given back to start", "dir", cfg.Broker.DataDir)
	}
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
	b, err := broker.Open(ctx, broker.Options{
		Config: cfg, Catalog: store, Objects: objects, Patience: patience, Log: log, Registry: registry(),
	})
	if err != nil {
		return unlessStopped(ctx, explainStart(cfg, err))
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := started(b); err != nil {
		return err
	}
	log.Info("serving", "version", version(), "broker", cfg.Broker.ID, "listeners", addresses(cfg, b), "http", b.HTTPAddr(), "data", cfg.Broker.DataDir)
	if err := within(ctx, cfg.Broker.ShutdownTimeout, stop, b.Run); err != nil {
		return err
	}
	log.Info("stopped", "broker", cfg.Broker.ID)
	return nil
}

// addresses is where clients are served, by listener.
func addresses(cfg config.Config, b *broker.Broker) []string {
	var at []string
	for _, l := range cfg.Network.Listeners {
		at = append(at, l.Name+"://"+b.Addr(l.Name))
	}
	return at
}

// unlessStopped is nil where a start was ended by a signal.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// within runs work; once ctx has ended it waits for it no longer than limit. A second signal is not
// caught any more and ends the process at once.
func within(ctx context.Context, limit time.Duration, stop func(), work func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		stop()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the broker did not stop within TIDEMARK_SHUTDOWN_TIMEOUT=%v", limit)
	}
}

// logger writes to standard error, so that standard output is the command's own. A trouble that lasts is a line a minute;
// told writes what has been counted and not told yet.
func (c *command) logger(cfg config.Config) (log *slog.Logger, told func()) {
	o := &slog.HandlerOptions{Level: cfg.Log.Level}
	var lines slog.Handler = slog.NewTextHandler(c.err, o)
	if cfg.Log.Format == config.LogJSON {
		lines = slog.NewJSONHandler(c.err, o)
	}
	h := repeats.New(lines)
	return slog.New(h), func() { _ = h.Close() }
}

// registry holds the process's metrics.
func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	return r
}
