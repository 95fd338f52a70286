package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/broker/config"
	"tidemark/cmd/tidemark/replay"
)

const replayLong = `Copy a range of a topic, by offset or by time, to another topic, to a file or to standard output.

Only committed records are copied; offsets of the source are not kept in a topic, timestamps, keys, values, headers, order
within a partition and the codec are. The range is fixed when the replay begins. A replay that was stopped or killed goes on
when the same command is given again: a checkpoint file says how far it came, and nothing is lost or doubled. When all is
copied the checkpoint says so, and the same command does nothing more; remove the checkpoint to copy again.

A time is RFC 3339 (2024-05-01T12:00:00Z), a date (2024-05-01, UTC), milliseconds since 1970, or how long ago (36h). As for a
consumer that seeks, --from-time is the first record with that timestamp or a later one, and --until-time ends before the
first such record; with --strict-time exactly the records with timestamps between the two are copied, up to the topic's end.

--direct reads catalog and bucket (TIDEMARK_CATALOG_URL, TIDEMARK_OBJECT_STORE_URL) without loading any broker: what is
tiered, and no more.`

const replayExamples = `  tidemark replay audit --to audit-copy --create
  tidemark replay audit --to errors --from-time 2024-05-01 --until-time 2024-06-01 --header level=error --by-key
  tidemark replay audit --out audit.ndjson --partitions 0,4-7 --from-offset 1000000
  tidemark replay audit --out dump/ --format dump --direct
  tidemark replay audit --out - --key user-17 | jq .value`

// replayFlags are the flags of replay.
type replayFlags struct {
	*command
	source, bootstrap, toBootstrap  string
	to, out, format                 string
	create, byKey, direct, strict   bool
	partitions                      string
	fromOffset, untilOffset         int64
	fromTime, untilTime             string
	keys, headers                   []string
	keyPrefix, keyRegexp, rate, cps string
	parallel                        int
}

func (c *command) replay() *cobra.Command {
	f := &replayFlags{command: c}
	cmd := &cobra.Command{
		Use: "replay TOPIC", Short: "Copy a range of a topic to another topic, a file or standard output",
		Long: replayLong, Example: replayExamples, Args: named(1, 1, "the topic's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.source = args[0]
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return f.run(ctx, cmd)
		},
	}
	f.declare(cmd)
	return cmd
}

func (f *replayFlags) declare(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.bootstrap, "bootstrap", "127.0.0.1:9092", "a broker, host:port, or several with commas")
	s.StringVar(&f.to, "to", "", "topic to copy to")
	s.StringVar(&f.toBootstrap, "to-bootstrap", "", "a broker of the cluster that --to is in (--bootstrap)")
	s.BoolVar(&f.create, "create", false, "make the topic of --to if it is not there, with the source's number of partitions and retention.ms=-1")
	s.BoolVar(&f.byKey, "by-key", false, "choose the partition by the key's hash, as producers do (the partition of the same number)")
	s.StringVar(&f.out, "out", "", "file or folder to copy to; - is standard output")
	s.StringVar(&f.format, "format", "ndjson", "of --out: ndjson, a record a line, or dump, a folder of raw batches as Kafka's log files")
	s.StringVar(&f.partitions, "partitions", "", "partitions to copy, such as 0,4-7 (all)")
	s.Int64Var(&f.fromOffset, "from-offset", -1, "first offset (the log's start)")
	s.Int64Var(&f.untilOffset, "until-offset", -1, "offset to end before (the present end)")
	s.StringVar(&f.fromTime, "from-time", "", "first time")
	s.StringVar(&f.untilTime, "until-time", "", "time to end before")
	s.BoolVar(&f.strict, "strict-time", false, "copy exactly the records with timestamps in the range")
	s.StringArrayVar(&f.keys, "key", nil, "copy records with this key; may be repeated")
	s.StringVar(&f.keyPrefix, "key-prefix", "", "copy records whose key begins so")
	s.StringVar(&f.keyRegexp, "key-regexp", "", "copy records whose key the expression matches")
	s.StringArrayVar(&f.headers, "header", nil, "NAME or NAME=VALUE of a header that copied records have; may be repeated, all must hold")
	s.StringVar(&f.rate, "rate", "", "bytes a second to read at most, such as 20MiB (no limit)")
	s.IntVar(&f.parallel, "parallel", 4, "partitions to copy at once")
	s.StringVar(&f.cps, "checkpoint", "", "file that says how far the replay came (named for source and target)")
	s.BoolVar(&f.direct, "direct", false, "read catalog and bucket instead of brokers; Postgres only")
}

// run does what the flags say.
func (f *replayFlags) run(ctx context.Context, cmd *cobra.Command) error {
	plan, err := f.plan(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	closing := &closers{}
	src, err := f.open(setup, closing)
	if err != nil {
		return errors.Join(err, closing.close())
	}
	target, spec, err := f.target(setup, src, plan, closing)
	if err != nil {
		return errors.Join(err, closing.close())
	}
	spec.Options = f.options()
	cp, err := replay.OpenCheckpoint(plan.checkpoint, spec)
	if err != nil {
		if errors.Is(err, replay.ErrOther) {
			err = usageError{fmt.Errorf("%w; name another with --checkpoint, or remove it and what was copied to begin anew", err)}
		}
		return errors.Join(err, closing.close())
	}
	closing.add(cp.Close)
	show := f.shower()
	result, err := replay.Run(ctx, replay.Job{
		Source: src, Target: target, Checkpoint: cp, Span: plan.span, Parallel: f.parallel, Rate: plan.rate, Progress: show.tell,
	})
	show.end()
	if err := errors.Join(err, closing.close()); err != nil {
		return f.explain(ctx, err, plan.checkpoint)
	}
	return f.report(result, spec, plan.checkpoint)
}

// explain says what to do about a replay that ended before its end.
func (f *replayFlags) explain(ctx context.Context, err error, checkpoint string) error {
	switch {
	case ctx.Err() != nil && checkpoint != "":
		return fmt.Errorf("stopped; the same command goes on where %s says", checkpoint)
	case ctx.Err() != nil:
		return errors.New("stopped")
	case checkpoint == "":
		return err
	}
	if _, missing := os.Stat(checkpoint); missing != nil {
		return err // nothing has begun
	}
	return fmt.Errorf("%w; the same command goes on where %s says", err, checkpoint)
}

// closers are what a replay has opened; the last is closed first.
type closers struct{ all []func() error }

func (c *closers) add(f func() error) { c.all = append(c.all, f) }

func (c *closers) close() error {
	var errs []error
	for len(c.all) > 0 {
		last := len(c.all) - 1
		errs = append(errs, c.all[last]())
		c.all = c.all[:last]
	}
	return errors.Join(errs...)
}

// cluster reaches the brokers behind an address.
func (f *replayFlags) cluster(ctx context.Context, flag, bootstrap string, closing *closers) (*replay.Cluster, *kgo.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID("tidemark-replay"),
		kgo.DialTimeout(5*time.Second), kgo.MetadataMinAge(200*time.Millisecond))
	if err != nil {
		return nil, nil, usagef("%s %q: %w; write host:port", flag, bootstrap, err)
	}
	closing.add(func() error { cl.Close(); return nil })
	ping, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	if err := cl.Ping(ping); err != nil {
		return nil, nil, fmt.Errorf("no broker answers at %s: %w; start one with `tidemark dev`, or name one with %s", bootstrap, err, flag)
	}
	return replay.NewCluster(cl), cl, nil
}

// open opens the source.
func (f *replayFlags) open(ctx context.Context, closing *closers) (replay.Source, error) {
	if f.direct {
		return f.openStores(ctx, closing)
	}
	c, _, err := f.cluster(ctx, "--bootstrap", f.bootstrap, closing)
	if err != nil {
		return nil, err
	}
	src, err := replay.FromBrokers(ctx, c, f.source)
	if errors.Is(err, replay.ErrNoTopic) {
		return nil, answer(f.source, kerr.UnknownTopicOrPartition, "")
	}
	return src, err
}

// openStores opens catalog and bucket for --direct.
func (f *replayFlags) openStores(ctx context.Context, closing *closers) (replay.Source, error) {
	cfg, err := config.Dev(config.DevOptions{}, f.environ)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"TIDEMARK_CATALOG_URL", "TIDEMARK_OBJECT_STORE_URL"} {
		if !cfg.Set[name] {
			return nil, usagef("--direct reads catalog and bucket: set %s as the brokers have it", name)
		}
	}
	if s := cfg.Stores.Catalog.Scheme(); s == "sqlite" {
		return nil, usagef("--direct needs a catalog in Postgres: an SQLite file is its one broker's, which has it open; replay through that broker")
	}
	store, err := openCatalogAs(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	closing.add(store.Close)
	objects, err := openObjects(ctx, cfg)
	if err != nil {
		return nil, err
	}
	closing.add(objects.Close)
	src, err := replay.FromStores(ctx, store, objects, f.source, slog.New(slog.NewTextHandler(f.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	switch {
	case errors.Is(err, replay.ErrNoTopic):
		return nil, fmt.Errorf("there is no topic %s; `tidemark topic list` shows those that there are", f.source)
	case errors.Is(err, replay.ErrNoBucket):
		return nil, explainObjects(cfg, err)
	case err != nil:
		return nil, err
	}
	closing.add(src.Close)
	return src, nil
}

// target opens what is copied to.
func (f *replayFlags) target(ctx context.Context, src replay.Source, plan replayPlan, closing *closers) (replay.Target, replay.Spec, error) {
	spec := replay.Spec{Source: f.source, SourceID: src.Topic().ID, Target: f.out}
	var t replay.Target
	var err error
	switch {
	case f.to != "":
		var topic replay.Topic
		t, topic, err = f.targetTopic(ctx, src.Topic(), plan, closing)
		spec.Target, spec.TargetID = f.to, topic.ID
	case f.out == "-":
		t = replay.ToStream(f.command.system.out, &plan.filter)
	case f.format == formatDump:
		t = replay.ToDump(f.out, f.source)
	default:
		t = replay.ToLines(f.out, &plan.filter)
	}
	if err != nil {
		return nil, spec, err
	}
	closing.add(t.Close)
	return t, spec, nil
}

func (f *replayFlags) targetTopic(ctx context.Context, source replay.Topic, plan replayPlan, closing *closers) (replay.Target, replay.Topic, error) {
	flag, bootstrap := "--bootstrap", f.bootstrap
	if f.toBootstrap != "" {
		flag, bootstrap = "--to-bootstrap", f.toBootstrap
	}
	c, client, err := f.cluster(ctx, flag, bootstrap, closing)
	if err != nil {
		return nil, replay.Topic{}, err
	}
	t, topic, err := replay.ToTopic(ctx, c, f.to, source, &plan.filter, f.byKey)
	if !errors.Is(err, replay.ErrNoTopic) {
		return t, topic, err
	}
	if !f.create {
		return nil, topic, fmt.Errorf("there is no topic %s; make it with `tidemark topic create`, or give --create", f.to)
	}
	r, err := kadm.NewClient(client).CreateTopic(ctx, source.Partitions, -1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, f.to)
	if r.Err != nil {
		return nil, topic, answer(f.to, r.Err, r.ErrMessage)
	}
	if err != nil {
		return nil, topic, err
	}
	for { // the client believes for a moment that it is not there
		t, topic, err = replay.ToTopic(ctx, c, f.to, source, &plan.filter, f.byKey)
		if !errors.Is(err, replay.ErrNoTopic) || ctx.Err() != nil {
			return t, topic, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
