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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/twmb/franz-go/pkg/kadm"
)

// coldResult is the replay of a topic whose every byte is in an S3 server, beside what a bare S3 client gets from there.
type coldResult struct {
	Bytes   int64 // of the objects
	Objects int
	Rows    []*coldRow
}

// coldRow is one way to read it: so many streams (objects read at once; partitions replayed at once), over the link or not.
type coldRow struct {
	Link    bool
	Streams int
	// MB/s of the bare client and of Tidemark, GETs per GiB that was replayed, and CPU seconds of the broker per GB, a run
	// each.
	Bare, Ours, Gets, CPU []float64
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
func (b *bench) cold(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := b.gateway(ctx)
	if err != nil {
		return err
	}
	defer g.proc.end(syscall.SIGTERM)
	p, err := b.tiered(g)
	if err != nil {
		return err
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	r := row{Kind: kindConsume, Client: "raw", Size: 1024, Partitions: coldPartitions, Codec: "none", Acks: "all"}
	c := &coldRun{job: job{row: r, peer: p, s: b.s, topic: coldTopic, values: payload(r.Size)}, gateway: g}
	defer func() { c.peer.stop(syscall.SIGTERM) }()
	b.say("filling the cold topic")
	if err := c.fill(ctx); err != nil {
		return err
	}
	result := &coldResult{Objects: len(c.objects)}
	for _, o := range c.objects {
		result.Bytes += o.Size
	}
	b.report.Cold = result
	for _, way := range []coldRow{{Streams: 1}, {Streams: coldPartitions}, {Streams: 1, Link: true}, {Streams: coldPartitions, Link: true}} {
		result.Rows = append(result.Rows, &way)
	}
	for range min(coldRuns, b.s.Runs) {
		for _, way := range result.Rows {
			if err := c.measure(ctx, way); err != nil {
				return err
			}
			b.say("cold replay, %d at once, link %v: bare S3 client %.0f MB/s, Tidemark %.0f MB/s, %.0f GETs/GiB, %.2f CPU s/GB",
				way.Streams, way.Link, last(way.Bare), last(way.Ours), last(way.Gets), last(way.CPU))
		}
	}
	c.peer.stop(syscall.SIGTERM)
	return b.beside(ctx, c)
}

func last(all []float64) float64 { return all[len(all)-1] }

// coldRun is the topic and where its bytes are.
type coldRun struct {
	job
	gateway *gateway
	ends    kadm.ListedOffsets
	objects []minio.ObjectInfo
}

// fill makes the topic and waits until all of it is in the bucket, and nothing on the broker's disk.
func (c *coldRun) fill(ctx context.Context) error {
	err := c.peer.create(ctx, c.topic, c.row.Partitions, map[string]string{
		"local.retention.bytes": "1", "retention.ms": "-1", "remote.copy.max.delay.ms": "1000",
	})
	if err != nil {
		return err
	}
	if err := c.job.fill(ctx, c.s.Cold); err != nil {
		return err
	}
	if c.ends, err = freed(ctx, c.peer); err != nil {
		return err
	}
	c.objects, err = c.gateway.list(ctx)
	return err
}

// measure reads once with the bare client and once through a broker that has just started with an empty cache.
func (c *coldRun) measure(ctx context.Context, way *coldRow) error {
	if err := c.gateway.through(ctx, way.Link); err != nil {
		return err
	}
	began := time.Now()
	n, err := c.gateway.read(ctx, c.objects, way.Streams)
	if err != nil {
		return err
	}
	way.Bare = append(way.Bare, float64(n)/1e6/time.Since(began).Seconds())
	if err := c.restart(ctx); err != nil {
		return err
	}
	const gets = `tidemark_objstore_requests_total{op="get",result="ok"}`
	getsBefore, err := c.peer.metric(ctx, gets)
	if err != nil {
		return err
	}
	cpuBefore, err := c.peer.procs.cpu()
	if err != nil {
		return err
	}
	began = time.Now()
	size, err := c.replay(ctx, c.ends, way.Streams)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	cpuAfter, err := c.peer.procs.cpu()
	if err != nil {
		return err
	}
	getsAfter, err := c.peer.metric(ctx, gets)
	if err != nil {
		return err
	}
	way.Ours = append(way.Ours, float64(size)/1e6/took)
	way.Gets = append(way.Gets, (getsAfter-getsBefore)/(float64(size)/(1<<30)))
	way.CPU = append(way.CPU, (cpuAfter-cpuBefore).Seconds()/(float64(size)/1e9))
	return nil
}

// restart gives the broker an empty cache.
func (c *coldRun) restart(ctx context.Context) error {
	c.peer.stop(syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(c.s.Dir, "tiered", "cache")); err != nil {
		return err
	}
	if _, err := c.peer.start(ctx); err != nil {
		return err
	}
	if err := c.peer.serves(ctx, c.topic, c.row.Partitions); err != nil {
		return err
	}
	return c.peer.settle(ctx)
}

// tiered describes a broker whose objects are in the gateway; more are variables of its own.
func (b *bench) tiered(g *gateway, more ...string) (*peer, error) {
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
	env := []string{
		"TIDEMARK_BROKER_ID=1", "TIDEMARK_DATA_DIR=" + dir, "TIDEMARK_LISTENERS=PLAINTEXT://" + address,
		"TIDEMARK_HTTP_LISTEN=" + web, "TIDEMARK_CATALOG_URL=sqlite://" + filepath.Join(b.s.Dir, "tiered.db"),
		"TIDEMARK_FREE_DELAY=1s", "TIDEMARK_GC_GRACE=10s",
		"AWS_ACCESS_KEY_ID=" + gatewayUser, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret,
	}
	return &peer{
		name: "tidemark", address: address, http: []string{"http://" + web},
		launch: func(*peer) (servers, error) {
			store := fmt.Sprintf("s3://%s/tide?region=us-east-1&path_style=true&endpoint=%s", coldBucket, url.QueryEscape("http://"+g.front))
			return start(1, func(int) (*process, error) {
				return spawn(dir+".log", append(append(env, more...), "TIDEMARK_OBJECT_STORE_URL="+store), binary, "serve")
			})
		},
	}, nil
}

// freed waits until no byte of the cold topic is on the broker's disk, and returns its ends.
func freed(ctx context.Context, p *peer) (ends kadm.ListedOffsets, err error) {
	ctx, cancel := context.WithTimeout(ctx, coldLimit)
	defer cancel()
	err = p.procs.until(ctx, func(ctx context.Context) bool {
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
	err := connections(ctx, slices.Repeat(j.peer.seeds(), streams), func(ctx context.Context, i int, c *conn) error {
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.http[0]+"/metrics", nil)
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
