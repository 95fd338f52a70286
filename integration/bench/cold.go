package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// coldResult is the replay of a topic whose every byte is in an S3 server, beside what a bare S3 client gets from there.
type coldResult struct {
	Bytes   int64 // of the objects
	Objects int
	// Bare and Ours are MB/s by number of streams (objects read at once; partitions replayed at once), a run each.
	Bare, Ours map[int][]float64
	Gets       map[int][]float64 // per GiB that was replayed
	CPU        map[int][]float64 // of the broker, seconds per GB
}

const (
	coldPartitions = 8
	coldRuns       = 3
	coldLimit      = 3 * time.Minute
	coldTopic      = "cold"
	coldBucket     = "bench"
)

// cold fills a topic, waits until nothing of it is local, and replays it with empty caches, one partition and then all at
// once, in turn with the bare client. The object store's page cache is warm for both.
func (b *bench) cold(ctx context.Context) (err error) {
	gateway, err := b.gateway(ctx)
	if err != nil {
		return err
	}
	defer gateway.proc.end(syscall.SIGTERM)
	p, err := b.tiered(gateway)
	if err != nil {
		return err
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	defer func() { p.stop(syscall.SIGTERM) }()
	r := row{Kind: kindConsume, Client: "raw", Size: 1024, Partitions: coldPartitions, Codec: "none", Acks: "all"}
	j := job{row: r, peer: p, s: b.s, topic: coldTopic, values: payload(r.Size)}
	b.say("filling the cold topic")
	err = p.create(ctx, j.topic, r.Partitions, map[string]string{
		"local.retention.bytes": "1", "retention.ms": "-1", "remote.copy.max.delay.ms": "1000",
	})
	if err != nil {
		return err
	}
	if err := j.fill(ctx, b.s.Cold); err != nil {
		return err
	}
	ends, err := freed(ctx, p)
	if err != nil {
		return err
	}
	objects, err := gateway.list(ctx)
	if err != nil {
		return err
	}
	c := &coldResult{Bare: map[int][]float64{}, Ours: map[int][]float64{}, Gets: map[int][]float64{}, CPU: map[int][]float64{}}
	for _, o := range objects {
		c.Bytes += o.Size
		c.Objects++
	}
	b.report.Cold = c
	for range coldRuns {
		for _, streams := range []int{1, coldPartitions} {
			if err := b.coldRun(ctx, j, c, gateway.objectReader(objects), ends, streams); err != nil {
				return err
			}
		}
	}
	return nil
}

// coldRun reads once with the bare client and once through a broker that has just started with an empty cache.
func (b *bench) coldRun(ctx context.Context, j job, c *coldResult, bare func(context.Context, int) (int64, error), ends kadm.ListedOffsets, streams int) error {
	began := time.Now()
	n, err := bare(ctx, streams)
	if err != nil {
		return err
	}
	c.Bare[streams] = append(c.Bare[streams], float64(n)/1e6/time.Since(began).Seconds())
	p := j.peer
	p.stop(syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(b.s.Dir, "tiered", "cache")); err != nil {
		return err
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	if err := p.serves(ctx, j.topic, j.row.Partitions); err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	gets, err := p.metric(ctx, `tidemark_objstore_requests_total{op="get",result="ok"}`)
	if err != nil {
		return err
	}
	before, err := p.proc.cpu()
	if err != nil {
		return err
	}
	began = time.Now()
	size, err := j.replay(ctx, ends, streams)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	after, err := p.proc.cpu()
	if err != nil {
		return err
	}
	moreGets, err := p.metric(ctx, `tidemark_objstore_requests_total{op="get",result="ok"}`)
	if err != nil {
		return err
	}
	c.Ours[streams] = append(c.Ours[streams], float64(size)/1e6/took)
	c.Gets[streams] = append(c.Gets[streams], (moreGets-gets)/(float64(size)/(1<<30)))
	c.CPU[streams] = append(c.CPU[streams], (after-before).Seconds()/(float64(size)/1e9))
	b.say("cold replay, %d at once: bare S3 client %.0f MB/s, Tidemark %.0f MB/s, %.0f GETs/GiB, %.2f CPU s/GB", streams,
		c.Bare[streams][len(c.Bare[streams])-1], float64(size)/1e6/took, c.Gets[streams][len(c.Gets[streams])-1],
		(after-before).Seconds()/(float64(size)/1e9))
	return nil
}

// tiered describes a broker whose objects are in the gateway.
func (b *bench) tiered(g *gateway) (*peer, error) {
	dir := filepath.Join(b.s.Dir, "tiered")
	binary, err := tidemarkBinary(b.s, dir)
	if err != nil {
		return nil, err
	}
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	web, err := freePort()
	if err != nil {
		return nil, err
	}
	store := fmt.Sprintf("s3://%s/tide?region=us-east-1&path_style=true&endpoint=%s", coldBucket, url.QueryEscape("http://"+g.address))
	env := []string{
		"TIDEMARK_BROKER_ID=1", "TIDEMARK_DATA_DIR=" + dir, "TIDEMARK_LISTENERS=PLAINTEXT://" + address,
		"TIDEMARK_HTTP_LISTEN=" + web, "TIDEMARK_CATALOG_URL=sqlite://" + filepath.Join(b.s.Dir, "tiered.db"),
		"TIDEMARK_OBJECT_STORE_URL=" + store, "TIDEMARK_FREE_DELAY=1s", "TIDEMARK_GC_GRACE=10s",
		"AWS_ACCESS_KEY_ID=" + gatewayUser, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret,
	}
	return &peer{
		name: "tidemark", address: address, http: "http://" + web,
		launch: func(*peer) (*process, error) { return spawn(dir+".log", env, binary, "serve") },
	}, nil
}

// freed waits until no byte of the cold topic is on the broker's disk, and returns its ends.
func freed(ctx context.Context, p *peer) (ends kadm.ListedOffsets, err error) {
	ctx, cancel := context.WithTimeout(ctx, coldLimit)
	defer cancel()
	err = p.proc.until(ctx, func(ctx context.Context) bool {
		local, err1 := p.admin.ListLocalLogStartOffsets(ctx, coldTopic)
		all, err2 := p.admin.ListEndOffsets(ctx, coldTopic)
		if errors.Join(err1, err2) != nil {
			return false
		}
		ends = all
		for part, o := range local[coldTopic] {
			if o.Err != nil || o.Offset < all[coldTopic][part].Offset {
				return false
			}
		}
		return len(local[coldTopic]) > 0
	})
	return ends, err
}

// replay reads whole partitions from offset 0 to their ends, so many at once, each through a connection of its own.
func (j job) replay(ctx context.Context, ends kadm.ListedOffsets, streams int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, coldLimit)
	defer cancel()
	var size atomic.Int64
	var left atomic.Int32
	left.Store(int32(j.row.Partitions))
	err := connections(ctx, j.peer.address, streams, func(ctx context.Context, i int, c *conn) error {
		for part := int32(i); int(part) < j.row.Partitions; part += int32(streams) {
			end := ends[coldTopic][part].Offset
			for next := (map[int32]int64{part: 0}); next[part] < end; {
				_, n, err := j.fetch(c, next)
				if err != nil {
					return err
				}
				size.Add(n)
				if next[part] == 0 && n > 0 {
					break // fetch begins again at the end
				}
			}
			left.Add(-1)
		}
		if left.Load() > 0 { // the first to end stops the others
			<-ctx.Done()
		}
		return nil
	})
	return size.Load(), err
}

// metric is the value of one series.
func (p *peer) metric(ctx context.Context, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.http+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", series)
}
