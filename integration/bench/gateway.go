package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
)

const gatewayUser, gatewaySecret = "benchkey", "benchsecret1"

// gateway is an S3 server (versitygw) over a folder, and a client of it.
type gateway struct {
	proc    *process
	address string
	link    *link
	// front is the address by which it is reached now, directly or over the link; client uses it.
	front  string
	client *minio.Client
}

// gateway starts the S3 server and makes the bucket.
func (b *bench) gateway(ctx context.Context) (*gateway, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.s.Dir, "bucket")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	proc, err := spawn(filepath.Join(b.s.Dir, "gateway.log"),
		[]string{"ROOT_ACCESS_KEY=" + gatewayUser, "ROOT_SECRET_KEY=" + gatewaySecret},
		filepath.Join(b.s.Cache, "bin", "versitygw"), "--port", address, "--keep-alive", "--quiet", "posix", dir)
	if err != nil {
		return nil, fmt.Errorf("%w (tools/install.sh builds it)", err)
	}
	g := &gateway{proc: proc, address: address}
	if err := g.through(ctx, false); err != nil {
		return nil, err
	}
	return g, proc.until(ctx, func(ctx context.Context) bool {
		return g.client.MakeBucket(ctx, coldBucket, minio.MakeBucketOptions{}) == nil
	})
}

// through says how the server is reached from now on.
func (g *gateway) through(ctx context.Context, over bool) (err error) {
	g.front = g.address
	if over {
		if g.link == nil {
			if g.link, err = newLink(ctx, g.address); err != nil {
				return err
			}
		}
		g.front = g.link.address()
	}
	g.client, err = minio.New(g.front, &minio.Options{Creds: credentials.NewStaticV4(gatewayUser, gatewaySecret, ""), Region: "us-east-1"})
	return err
}

// list names all segments in the bucket.
func (g *gateway) list(ctx context.Context) ([]minio.ObjectInfo, error) {
	var all []minio.ObjectInfo
	for o := range g.client.ListObjects(ctx, coldBucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		if strings.Contains(o.Key, "/segments/") {
			all = append(all, o)
		}
	}
	return all, nil
}

// read reads every object whole, one GET each, so many at once, and discards the bytes.
func (g *gateway) read(ctx context.Context, objects []minio.ObjectInfo, streams int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, coldLimit)
	defer cancel()
	sizes := make([]int64, len(objects))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(streams)
	for i, o := range objects {
		work.Go(func() error {
			body, _, _, err := minio.Core{Client: g.client}.GetObject(ctx, coldBucket, o.Key, minio.GetObjectOptions{})
			if err != nil {
				return err
			}
			defer body.Close()
			sizes[i], err = io.Copy(io.Discard, body)
			return err
		})
	}
	err := work.Wait()
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	return total, err
}

// replay is the table of cold replay.
func (r *report) replay(b *strings.Builder) {
	c := r.Cold
	if c == nil {
		if r.ColdFault != "" {
			fmt.Fprintf(b, "## Cold replay\n\nNot measured: %s\n\n", r.ColdFault)
		}
		return
	}
	fmt.Fprintf(b, `## Cold replay

A topic of %d partitions, %d objects and %.2f GB, all of it in an S3 server (versitygw on this machine) and nothing on the broker's
disk, read by a raw fetcher with empty caches, beside a bare S3 client (minio-go) that reads the same objects whole. Client, broker and
store share the cores, which the bare client alone can fill; "over a link" puts %.0f Gbit/s and %v of round trip between the store
and its client. Medians of up to %d runs.

| streams | bare client MB/s | Tidemark MB/s | ratio (goal) | GETs per GiB (goal) | Tidemark CPU s/GB |
|---|---|---|---|---|---|
`, coldPartitions, c.Objects, float64(c.Bytes)/1e9, linkRate*8/1e9, 2*linkDelay, coldRuns)
	for _, way := range c.Rows {
		name := fmt.Sprint(way.Streams)
		if way.Link {
			name += ", over a link"
		}
		bare, ours := median(way.Bare), median(way.Ours)
		fmt.Fprintf(b, "| %s | %.0f | %.0f | %s | %.0f (≤ 256) | %.2f |\n", name, bare, ours, against(ours/max(bare, 1), 0.9, true),
			median(way.Gets), median(way.CPU))
	}
	b.WriteString("\n")
	r.Beside.write(b, r.s)
}
