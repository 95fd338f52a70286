package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/tiering/rebuild"
)

// rebuild writes the catalog again from the bucket. It opens the stores itself, so no broker may run.
func (c *command) rebuild() *cobra.Command {
	var dev config.DevOptions
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Write an empty catalog again from the bucket, while no broker runs", Args: named(0, 0, ""),
		Long: "Write topics, partitions, objects and committed offsets into an empty catalog: from the newest checkpoint in the bucket and the objects that continue it.\n" +
			"The stores are those of TIDEMARK_CATALOG_URL and TIDEMARK_OBJECT_STORE_URL, or with --data those of `tidemark dev --data`. It may be repeated after it was interrupted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.rebuildConfig(dev)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return c.rebuildCatalog(ctx, cfg)
		},
	}
	cmd.Flags().StringVar(&dev.DataDir, "data", "", "`folder` of a broker that ran as tidemark dev")
	return cmd
}

// rebuildConfig reads the settings as the broker would: serve's, or dev's if a folder is named. A number
// of the broker matters only where no checkpoint tells who holds what.
func (c *command) rebuildConfig(dev config.DevOptions) (config.Config, error) {
	if dev.DataDir != "" {
		return config.Dev(dev, c.environ)
	}
	environ := c.environ
	if c.variable("TIDEMARK_BROKER_ID") == "" {
		environ = append(slices.Clone(environ), "TIDEMARK_BROKER_ID=1")
	}
	return config.Load(environ)
}

func (c *command) rebuildCatalog(ctx context.Context, cfg config.Config) (err error) {
	store, err := openCatalog(ctx, cfg)
	if errors.Is(err, sqlite.ErrLocked) {
		return fmt.Errorf("%w: %w", rebuild.ErrBrokerRuns, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	objects, err := openObjects(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	began := time.Now()
	report, err := rebuild.Run(ctx, rebuild.Options{
		Store: objects, Catalog: store, Broker: catalog.BrokerID(cfg.Broker.ID),
		Say: func(text string) { fmt.Fprintln(c.err, text) },
	})
	switch {
	case errors.Is(err, catalog.ErrNotEmpty):
		return fmt.Errorf("%w; a catalog is rebuilt only where there is none: give an empty database, or a folder without catalog.db", err)
	case err != nil:
		return err
	}
	return c.print(rebuildResult(report), func(t *table) { writeRebuilt(t, report, time.Since(began)) })
}

// rebuilt is what `tier rebuild --json` prints.
type rebuilt struct {
	Cluster        string     `json:"cluster"`
	Generation     int64      `json:"generation"`
	Checkpoint     *time.Time `json:"checkpoint,omitempty"`
	Topics         int        `json:"topics"`
	Partitions     int        `json:"partitions"`
	Segments       int64      `json:"segments"`
	FromCheckpoint int64      `json:"fromCheckpoint"`
	FromObjects    int64      `json:"fromObjects"`
	Lost           int64      `json:"lost"`
	Bytes          int64      `json:"bytes"`
	Left           int64      `json:"left"`
	Offsets        int        `json:"offsets"`
	Undecided      []string   `json:"undecided"`
}

func rebuildResult(r rebuild.Report) rebuilt {
	out := rebuilt{
		Cluster: r.Cluster.String(), Generation: r.Generation, Topics: r.Topics, Partitions: r.Partitions, Segments: r.Segments,
		FromCheckpoint: r.FromCheckpoint, FromObjects: r.FromObjects, Lost: r.Lost, Bytes: r.Bytes, Left: r.Left, Offsets: r.Offsets,
		Undecided: append([]string{}, r.Undecided...),
	}
	if !r.Checkpoint.IsZero() {
		out.Checkpoint = &r.Checkpoint
	}
	return out
}

func writeRebuilt(t *table, r rebuild.Report, took time.Duration) {
	t.line("The catalog of cluster %s is there again, as generation %d, after %v.", r.Cluster, r.Generation, took.Round(time.Millisecond))
	t.line("%s, %s, %s (%d from the checkpoint, %d from the objects themselves, %d bytes), %s.",
		plural(int64(r.Topics), "topic", "topics"), plural(int64(r.Partitions), "partition", "partitions"), plural(r.Segments, "object", "objects"),
		r.FromCheckpoint, r.FromObjects, r.Bytes, plural(int64(r.Offsets), "committed offset", "committed offsets"))
	if r.Left > 0 {
		t.line("%s got no row: replaced, removed, never published, or of a deleted topic. `tidemark tier gc --dry-run` lists them.", plural(r.Left, "object", "objects"))
	}
	if len(r.Undecided) == 0 {
		return
	}
	t.line("")
	t.line("What could not be decided:")
	for _, u := range r.Undecided {
		t.line("  - %s", u)
	}
}
