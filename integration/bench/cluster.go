package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// clusterBrokers is the size of a cluster; its topics have a replica on each, of which two must be in sync.
const clusterBrokers = 3

// brokers is how many each peer has.
func (s settings) brokers() int {
	if s.Cluster {
		return clusterBrokers
	}
	return 1
}

// topic is what topics of both peers are told.
func (s settings) topic() map[string]string {
	if s.Cluster {
		return map[string]string{"min.insync.replicas": "2"}
	}
	return nil
}

// clusterRows are what is measured of clusters: acks=all, idempotent, five requests on their way.
func clusterRows() []row {
	var rows []row
	for _, client := range []string{"raw", "librdkafka", "franz-go"} {
		for _, size := range []int{100, 1024} {
			r := produceRow(client, size, "none")
			r.Idempotent = true
			rows = append(rows, r)
		}
	}
	r := produceRow("librdkafka", 1024, "none")
	r.Idempotent, r.Topic = true, map[string]string{"remote.storage.enable": "true"}
	r.Name = r.describe()
	rows = append(rows, r)
	for _, size := range []int{100, 1024} {
		r := produceRow("franz-go", size, "none")
		r.Kind, r.Of, r.Share, r.Idempotent = kindAcks, r.Name, 0.5, true
		r.Name = r.describe()
		rows = append(rows, r)
	}
	return rows
}

// newTidemarkCluster describes three brokers on the Postgres and the S3 server that scripts/with-services.sh names.
func newTidemarkCluster(s settings, dir string) (*peer, error) {
	binary, err := tidemarkBinary(s, dir)
	if err != nil {
		return nil, err
	}
	stores, err := clusterStores()
	if err != nil {
		return nil, err
	}
	addresses, err := freePorts(clusterBrokers)
	if err != nil {
		return nil, err
	}
	webs, err := freePorts(clusterBrokers)
	if err != nil {
		return nil, err
	}
	p := &peer{name: "tidemark", address: strings.Join(addresses, ","), brokers: clusterBrokers, topic: s.topic()}
	p.topic["remote.storage.enable"] = "false" // as Kafka's default
	for _, web := range webs {
		p.http = append(p.http, "http://"+web)
	}
	p.launch = func(*peer) (servers, error) {
		return start(clusterBrokers, func(i int) (*process, error) {
			env := append([]string{
				"TIDEMARK_BROKER_ID=" + strconv.Itoa(i+1), "TIDEMARK_DATA_DIR=" + filepath.Join(dir, strconv.Itoa(i+1)),
				"TIDEMARK_LISTENERS=PLAINTEXT://" + addresses[i], "TIDEMARK_HTTP_LISTEN=" + webs[i], "TIDEMARK_AUTO_CREATE_TOPICS=false",
			}, stores...)
			return spawn(fmt.Sprintf("%s-%d.log", dir, i+1), env, binary, "serve")
		})
	}
	return p, nil
}

// clusterStores makes a bucket and returns the variables that name the catalog and the bucket.
func clusterStores() ([]string, error) {
	dsn, endpoint := os.Getenv("TEST_PG_DSN"), os.Getenv("TEST_S3_ENDPOINT")
	if dsn == "" || endpoint == "" {
		return nil, errors.New("a cluster needs a Postgres and an S3 server: run it with scripts/with-services.sh, as make bench-cluster does")
	}
	key, secret := os.Getenv("TEST_S3_ACCESS_KEY"), os.Getenv("TEST_S3_SECRET_KEY")
	at, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("TEST_S3_ENDPOINT: %w", err)
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(key, secret, ""), Region: "us-east-1"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.MakeBucket(ctx, coldBucket, minio.MakeBucketOptions{}); err != nil {
		return nil, fmt.Errorf("make a bucket: %w", err)
	}
	return []string{
		"TIDEMARK_CATALOG_URL=" + dsn, "AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret,
		fmt.Sprintf("TIDEMARK_OBJECT_STORE_URL=s3://%s/cluster?region=us-east-1&path_style=true&endpoint=%s", coldBucket, url.QueryEscape(endpoint)),
	}, nil
}
