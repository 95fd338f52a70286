package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// cleaner is a broker whose cleaner is measured.
type cleaner struct {
	*peer
	log   string                      // the file in which it tells of its passes
	tells func(log string) []cleaning // reads them there
	// sealed reports whether the record at that offset has made all before it cleanable.
	sealed func(ctx context.Context, topic string, offset int64) (bool, error)
}

// cleaners describe those of both.
func (b *bench) cleaners() ([]*cleaner, error) {
	var all []*cleaner
	for _, describe := range []func(*bench) (*cleaner, error){kafkaCleaner, tidemarkCleaner} {
		c, err := describe(b)
		if err != nil {
			return nil, err
		}
		if b.s.Peers.MatchString(c.name) {
			all = append(all, c)
		}
	}
	return all, nil
}

// kafkaCleanerProperties: one thread and its buffer of 128 MiB are the defaults; it looks for work more often than each 15 s.
const kafkaCleanerProperties = "log.cleaner.backoff.ms=100\n"

// kafkaCleanerLogging has the cleaner tell of its passes. Kafka's jars bring no logger; a broker of the other rows has none.
var kafkaCleanerLogging = []string{
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
	"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log=info",
}

const simpleLogger = "slf4j-simple-1.7.36"

// loggingJars makes a folder with Kafka's jars and a logger that writes to standard error, fetched by Maven on first use.
func loggingJars(s settings, dir string) (string, error) {
	kafka, err := jars(s)
	if err != nil {
		return "", err
	}
	logger := filepath.Join(s.Cache, simpleLogger)
	if _, err := os.Stat(filepath.Join(logger, simpleLogger+".jar")); err != nil {
		cmd := exec.Command("mvn", "-q", "-B", "dependency:copy", "-Dartifact=org.slf4j:slf4j-simple:1.7.36", "-Djars="+logger)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fetch %s: %w: %s", simpleLogger, err, out)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, from := range []string{kafka, logger} {
		found, err := filepath.Glob(filepath.Join(from, "*.jar"))
		if err != nil {
			return "", err
		}
		for _, jar := range found {
			if err := os.Symlink(jar, filepath.Join(dir, filepath.Base(jar))); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

func kafkaCleaner(b *bench) (*cleaner, error) {
	dir := filepath.Join(b.s.Dir, "cleaned-kafka")
	jars, err := loggingJars(b.s, dir+"-jars")
	if err != nil {
		return nil, err
	}
	p, err := kafkaPeer(b.s, dir, jars, kafkaCleanerProperties, kafkaCleanerLogging...)
	if err != nil {
		return nil, err
	}
	node := filepath.Join(dir, "1")
	return &cleaner{peer: p, log: filepath.Join(node, "log"), tells: kafkaCleanings,
		// The cleaner leaves the active segment alone: the record must have begun one.
		sealed: func(_ context.Context, topic string, offset int64) (bool, error) {
			_, err := os.Stat(filepath.Join(node, "data", topic+"-0", fmt.Sprintf("%020d.log", offset)))
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil, err
		},
	}, nil
}

func tidemarkCleaner(b *bench) (*cleaner, error) {
	dir := filepath.Join(b.s.Dir, "cleaned-tidemark")
	p, err := newTidemark(b.s, dir)
	if err != nil {
		return nil, err
	}
	p.topic = nil // only what is in the object tier is compacted
	return &cleaner{peer: p, log: dir + ".log", tells: tidemarkCleanings,
		sealed: func(ctx context.Context, topic string, offset int64) (bool, error) {
			tiered, err := p.admin.ListLatestRemoteOffsets(ctx, topic)
			return tiered[topic][0].Offset >= offset-1, err
		},
	}, nil
}
