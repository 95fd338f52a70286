package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
	"tidemark/integration/netproxy"
	"tidemark/integration/pgproxy"
	"tidemark/internal/testenv"
)

// brokers is the size of the cluster.
const brokers = 3

// member is one broker and the ways to and from it.
type member struct {
	*harness.Node
	id      int
	clients *netproxy.Proxy // clients to it
	peers   *netproxy.Proxy // other brokers to it
	catalog *pgproxy.Proxy  // it to Postgres
	bucket  *netproxy.Proxy // it to the bucket

	down     bool // the test wants it down, or frozen
	restarts int  // times that tend started it again
}

// cluster is three brokers with stores of their own.
type cluster struct {
	t        *testing.T
	members  []*member
	postgres *testenv.PostgresServer
	dsn      string
	seeds    []string
	adm      *kadm.Client

	bucketURL string                  // past the proxies
	second    *testenv.PostgresServer // what Postgres is failed over to
}

// options of a cluster.
type options struct {
	env  map[string]string // variables of all brokers
	dirs map[int]string    // data folders of some brokers, by their numbers
	down bool              // the brokers are not started
}

// standing bounds how many clusters there are at a time, whatever -parallel says: two keep two cores busy.
var standing = make(chan struct{}, 2)

func startCluster(t *testing.T, o options) *cluster {
	t.Helper()
	standing <- struct{}{}
	t.Cleanup(func() { <-standing })
	c := &cluster{t: t, postgres: testenv.StartPostgres(t)}
	c.dsn = c.postgres.DSN(t)
	srv := testenv.S3(t)
	c.bucketURL = srv.URL("chaos")
	srv.Setenv(t)
	endpoint, err := url.Parse(srv.Endpoint)
	require.NoError(t, err)
	for id := 1; id <= brokers; id++ {
		c.add(id, srv, endpoint.Host, o)
	}
	t.Cleanup(c.heal)
	for _, m := range c.members {
		m.down = o.down
		if !o.down {
			m.Launch()
		}
	}
	if !o.down {
		for _, m := range c.members {
			m.AwaitReady()
		}
	}
	c.adm = kadm.NewClient(c.client())
	return c
}

// add makes one member, not started.
func (c *cluster) add(id int, srv testenv.S3Server, s3addr string, o options) {
	m := &member{id: id}
	m.catalog = pgproxy.Start(c.t, c.postgres.Addr())
	m.bucket = netproxy.Start(c.t, netproxy.Options{Upstream: s3addr})
	stores := harness.Stores{
		CatalogURL: m.catalog.Through(c.t, c.dsn),
		ObjectsURL: fmt.Sprintf("s3://%s/chaos?region=%s&path_style=true&endpoint=%s", srv.Bucket, srv.Region, url.QueryEscape("http://"+m.bucket.Addr())),
	}
	own := map[string]string{
		"TIDEMARK_BROKER_ID": strconv.Itoa(id), "TIDEMARK_RACK": fmt.Sprintf("rack-%d", id), "TIDEMARK_LOG_LEVEL": "info",
		"TIDEMARK_BALANCE_DELAY": "3s", "TIDEMARK_AUTO_CREATE_TOPICS": "false",
	}
	for k, v := range o.env {
		own[k] = v
	}
	m.Node = harness.Serve(c.t, stores, harness.Options{Down: true, Env: own, Dir: o.dirs[id]})
	internal := "127.0.0.1:" + strconv.Itoa(harness.FreePort(c.t))
	m.clients = netproxy.Start(c.t, netproxy.Options{Upstream: m.Kafka})
	m.peers = netproxy.Start(c.t, netproxy.Options{Upstream: internal, Name: replicaName})
	m.Setenv("TIDEMARK_LISTENERS", fmt.Sprintf("PLAINTEXT://%s,REPLICATION://%s", m.Kafka, internal))
	m.Setenv("TIDEMARK_ADVERTISED_LISTENERS", fmt.Sprintf("PLAINTEXT://%s,REPLICATION://%s", m.clients.Addr(), m.peers.Addr()))
	m.Setenv("TIDEMARK_INTER_BROKER_LISTENER", "REPLICATION")
	c.members = append(c.members, m)
	c.seeds = append(c.seeds, m.clients.Addr())
}

// replicaName is the number of the broker that opens a replication connection, by its client id.
func replicaName(first []byte) string {
	const header = 4 + 2 + 2 + 4 + 2 // length, key, version, correlation id, length of the client id
	if len(first) < header {
		return ""
	}
	n := int(binary.BigEndian.Uint16(first[header-2:]))
	if n > len(first)-header {
		return ""
	}
	id, isReplica := strings.CutPrefix(string(first[header:header+n]), "tidemark-replica-")
	if !isReplica {
		return ""
	}
	return id
}

// client is a client of the cluster by the proxies, with a metadata back-off of 250 ms or less.
func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.RetryTimeout(60 * time.Second),
		kgo.UnknownTopicRetries(-1), // a new topic reaches every broker within its next pull
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(time.Duration(tries)*50*time.Millisecond, 250*time.Millisecond)
		}),
	}, opts...)...)
	require.NoError(c.t, err)
	c.t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// member is a broker by its number.
func (c *cluster) member(id int) *member { return c.members[id-1] }

// create makes a topic with three replicas of which two must be in sync; configs are name, value, name, value.
func (c *cluster) create(topic string, partitions int32, configs ...string) {
	c.t.Helper()
	two := "2"
	set := map[string]*string{"min.insync.replicas": &two}
	for i := 0; i+1 < len(configs); i += 2 {
		set[configs[i]] = &configs[i+1]
	}
	c.make(topic, partitions, brokers, set)
}

// make makes a topic.
func (c *cluster) make(topic string, partitions int32, replicas int16, configs map[string]*string) {
	c.t.Helper()
	harness.Change(c.t, "create "+topic, kerr.TopicAlreadyExists, func() error {
		r, err := c.adm.CreateTopic(c.t.Context(), partitions, replicas, configs, topic)
		return errors.Join(err, r.Err)
	})
}

// tend starts what has ended by itself.
func (c *cluster) tend() {
	for _, m := range c.members {
		if !m.down && !m.Alive() {
			m.restarts++
			m.Launch()
		}
	}
}

// during tends the cluster for so long.
func (c *cluster) during(d time.Duration) {
	c.t.Helper()
	harness.Holds(c.t, d, "the test goes on", func() error { c.tend(); return nil })
}

// until waits for check to be nil and tends the cluster meanwhile; it returns how long that took.
func (c *cluster) until(limit time.Duration, what string, check func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	harness.Until(c.t, limit, what, func() error { c.tend(); return check() })
	return time.Since(began)
}

// kill ends a broker with SIGKILL; it stays down until revive.
func (m *member) kill() { m.down = true; m.Kill() }

// freeze stops a broker with SIGSTOP until thaw.
func (m *member) freeze() { m.down = true; m.Stop() }

func (m *member) thaw() { m.Cont(); m.down = false }

// revive starts a broker that is down.
func (m *member) revive() { m.Launch(); m.down = false }

// sever sets the rule for the ways between two brokers, in both directions.
func (c *cluster) sever(a, b int, r netproxy.Rule) {
	c.member(a).peers.Set(strconv.Itoa(b), r)
	c.member(b).peers.Set(strconv.Itoa(a), r)
}

// isolate sets the rule for the ways between a broker and all others.
func (c *cluster) isolate(id int, r netproxy.Rule) {
	for _, m := range c.members {
		if m.id != id {
			c.sever(id, m.id, r)
		}
	}
}

// heal frees all ways.
func (c *cluster) heal() {
	for _, m := range c.members {
		m.clients.Heal()
		m.peers.Heal()
		m.bucket.Heal()
		m.catalog.Thaw()
	}
}

// topic asks for a topic's partitions.
func (c *cluster) topic(topic string) (kadm.PartitionDetails, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	all, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	d := all[topic]
	return d.Partitions, d.Err
}

// described waits until a topic's partitions are told.
func (c *cluster) described(topic string) (ps kadm.PartitionDetails) {
	c.t.Helper()
	c.until(recovery, "the topic is described", func() (err error) {
		ps, err = c.topic(topic)
		return err
	})
	return ps
}

// leader waits for a partition's leader.
func (c *cluster) leader(topic string, partition int32) *member {
	c.t.Helper()
	var id int32
	c.until(recovery, "a leader", func() error {
		ps, err := c.topic(topic)
		if err != nil {
			return err
		}
		if id = ps[partition].Leader; id < 1 {
			return errors.New("nobody leads")
		}
		return nil
	})
	return c.member(int(id))
}

// full says whether every replica of a topic is in sync.
func (c *cluster) full(topic string) error {
	ps, err := c.topic(topic)
	if err != nil {
		return err
	}
	for _, p := range ps.Sorted() {
		if p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
			return fmt.Errorf("%s/%d: leader %d, in sync %v of %v", topic, p.Partition, p.Leader, p.ISR, p.Replicas)
		}
	}
	return nil
}

// spread waits until every replica of a topic is in sync and leaders are where the balancer leaves them: with the first
// replica of each partition.
func (c *cluster) spread(topic string) {
	c.t.Helper()
	c.until(recovery, "all replicas are in sync and leaders are spread", func() error {
		if err := c.full(topic); err != nil {
			return err
		}
		ps, err := c.topic(topic)
		for _, p := range ps.Sorted() {
			if err == nil && p.Leader != p.Replicas[0] {
				err = fmt.Errorf("%s/%d: leader %d of %v", topic, p.Partition, p.Leader, p.Replicas)
			}
		}
		return err
	})
}

// inSync says whether a broker is in sync wherever it is a replica.
func (c *cluster) inSync(topic string, id int) error {
	ps, err := c.topic(topic)
	if err != nil {
		return err
	}
	for _, p := range ps.Sorted() {
		if !slices.Contains(p.ISR, int32(id)) {
			return fmt.Errorf("%s/%d: in sync %v", topic, p.Partition, p.ISR)
		}
	}
	return nil
}
