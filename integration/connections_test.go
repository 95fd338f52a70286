package integration

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
	"tidemark/integration/netproxy"
	"tidemark/integration/rawclient"
)

// dialFrom connects to the node from one of this machine's own addresses.
func dialFrom(t *testing.T, n *harness.Node, address string) *rawclient.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: time.Minute}
	conn, err := d.DialContext(t.Context(), "tcp", n.Kafka)
	require.NoError(t, err)
	c := rawclient.New(conn)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// served asks for the API versions; an error is a connection that was closed.
func served(c *rawclient.Client) error {
	_, err := c.Do(kmsg.NewPtrApiVersionsRequest())
	return err
}

// hungUp waits until the node has closed the connection.
func hungUp(t *testing.T, c *rawclient.Client) {
	t.Helper()
	require.NoError(t, c.Conn().SetReadDeadline(time.Now().Add(60*time.Second)))
	_, err := io.Copy(io.Discard, c.Conn())
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

// Connections beyond the limits, of one address and of all together, are closed at once, those that are open go on, and
// there is room again when one goes.
func TestR20_ConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const perAddress, total = 4, 10
	n := harness.Dev(t, harness.Options{Env: map[string]string{
		"TIDEMARK_MAX_CONNECTIONS": fmt.Sprint(total), "TIDEMARK_MAX_CONNECTIONS_PER_IP": fmt.Sprint(perAddress),
	}})
	var open []*rawclient.Client
	fill := func(address string, most int) {
		for range most {
			c := dialFrom(t, n, address)
			require.NoError(t, served(c), "%s, connection %d", address, len(open)+1)
			open = append(open, c)
		}
	}
	fill("127.0.0.2", perAddress)
	require.Error(t, served(dialFrom(t, n, "127.0.0.2")), "one address has no more")
	fill("127.0.0.3", perAddress)
	fill("127.0.0.4", total-2*perAddress)
	require.Error(t, served(dialFrom(t, n, "127.0.0.4")), "all together have no more")
	for _, c := range open {
		require.NoError(t, served(c), "those that were there are served")
	}
	require.NoError(t, open[0].Close())
	harness.Until(t, time.Minute, "there is room again", func() error { return served(dialFrom(t, n, "127.0.0.2")) })
	for _, reason := range []string{"too_many_of_address", "too_many_connections"} {
		require.Positive(t, n.Metric(`tidemark_kafka_connections_closed_total{reason="`+reason+`"}`), reason)
	}
}

// Who says nothing, after the first request, within a request or within an answer, is hung up on; who waits for an answer or
// asks now and then is not.
func TestIdlePeersAreHungUpOnAndWaitingOnesAreNot(t *testing.T) {
	const mayBeIdle = 2 * time.Second
	n := harness.Dev(t, harness.Options{Env: map[string]string{"TIDEMARK_CONNECTION_IDLE": mayBeIdle.String()}})
	n.CreateTopic(t, "t", 1)
	polling := n.Raw(t)
	polling.Timeout = 2 * time.Minute
	_, err := polling.Send(fetchAt("t", 0, 0, int32(6*mayBeIdle/time.Millisecond)))
	require.NoError(t, err)
	idle := n.Raw(t)
	require.NoError(t, served(idle))
	asking := n.Raw(t)
	since, last := time.Now(), time.Now()
	harness.Until(t, 2*time.Minute, "who asks is served, far longer than one may be idle", func() error {
		if err := served(asking); err != nil {
			// Only a machine without processor time for us lets that pass between two questions.
			require.Greater(t, time.Since(last), mayBeIdle, "who asks was hung up on: %v", err)
			asking, since = n.Raw(t), time.Now()
		}
		last = time.Now()
		if asked := last.Sub(since); asked < 3*mayBeIdle {
			return fmt.Errorf("for %v", asked)
		}
		return nil
	})
	hungUp(t, idle)
	resp, err := polling.Recv()
	require.NoError(t, err, "who waits for an answer is not idle")
	require.Zero(t, fetched(t, resp.(*kmsg.FetchResponse)).ErrorCode)
	hungUp(t, polling)
}

// Peers that vanish without a word, with nothing, half a request or an unread answer under way: the node finds out by
// itself, takes its connections back, and others are served meanwhile.
func TestHalfOpenPeersAreFoundOut(t *testing.T) {
	n := harness.Dev(t, harness.Options{Env: map[string]string{"TIDEMARK_CONNECTION_IDLE": "8s"}})
	n.CreateTopic(t, "t", 1)
	produceTens(t, n, "t", 0, 50)
	proxy := netproxy.Start(t, netproxy.Options{Upstream: n.Kafka})
	const peers = 20
	for i := range peers {
		conn, err := net.Dial("tcp", proxy.Addr())
		require.NoError(t, err)
		c := rawclient.New(conn)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, served(c))
		frame := c.Frame(fetchAt("t", 0, 0, 100))
		switch i % 3 {
		case 1:
			require.NoError(t, c.SendRaw(frame[:len(frame)/2]))
		case 2:
			require.NoError(t, c.SendRaw(frame))
		}
	}
	proxy.Set(netproxy.Everyone, netproxy.Rule{Hold: true}) // those that come last, at least, are not idle for long
	require.Greater(t, n.Metric("tidemark_kafka_connections"), 1.0)
	harness.Until(t, 2*time.Minute, "the connections are taken back", func() error {
		other := n.Raw(t)
		defer other.Close()
		if err := served(other); err != nil {
			return err
		}
		if got := n.Metric("tidemark_kafka_connections"); got > 1 {
			return fmt.Errorf("%v are open", got)
		}
		return nil
	})
	require.Zero(t, n.Term(), "and none holds up the end")
}
