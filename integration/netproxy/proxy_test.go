package netproxy

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve gives the address of a server that talks to each who calls, and then hangs up.
func serve(t *testing.T, talk func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				talk(c)
			}()
		}
	}()
	return l.Addr().String()
}

// echo answers every line with itself.
func echo(t *testing.T) string {
	return serve(t, func(c net.Conn) {
		for s := bufio.NewScanner(c); s.Scan(); {
			_, _ = fmt.Fprintln(c, s.Text())
		}
	})
}

type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// call connects and says who it is.
func call(t *testing.T, p *Proxy, who string) *caller {
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	in := &caller{t, c, bufio.NewReader(c)}
	in.say(who)
	return in
}

func (c *caller) say(line string) {
	_, err := fmt.Fprintln(c.conn, line)
	require.NoError(c.t, err)
}

// hears reads a line within so long; "" if there is none, an error if the connection is gone.
func (c *caller) hears(limit time.Duration) (string, error) {
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(limit)))
	line, err := c.in.ReadString('\n')
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return "", nil
	}
	return strings.TrimSpace(line), err
}

func start(t *testing.T) *Proxy {
	return Start(t, Options{Upstream: echo(t), Name: func(first []byte) string { return strings.TrimSpace(string(first)) }})
}

// One client is held, the other is not; what was held comes when the way is free.
func TestHoldOneClient(t *testing.T) {
	p := start(t)
	a, b := call(t, p, "a"), call(t, p, "b")
	for _, c := range []*caller{a, b} {
		_, err := c.hears(time.Minute)
		require.NoError(t, err)
	}
	p.Set("a", Rule{Hold: true})
	a.say("late")
	b.say("now")
	line, err := b.hears(time.Minute)
	require.NoError(t, err)
	require.Equal(t, "now", line)
	line, err = a.hears(50 * time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, line)
	again := call(t, p, "a")
	line, err = again.hears(50 * time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, line, "a new connection of the same client is held too")
	p.Heal()
	for c, want := range map[*caller]string{a: "late", again: "a"} {
		line, err = c.hears(time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
}

// A cut ends connections, old and new, of the one client; Everyone means the others.
func TestCutAndSlow(t *testing.T) {
	p := start(t)
	a, b := call(t, p, "a"), call(t, p, "b")
	for _, c := range []*caller{a, b} {
		_, err := c.hears(time.Minute)
		require.NoError(t, err)
	}
	p.Set("a", Rule{Cut: true})
	_, err := a.hears(time.Minute)
	require.Error(t, err)
	_, err = call(t, p, "a").hears(time.Minute)
	require.Error(t, err)
	p.Set(Everyone, Rule{Delay: 30 * time.Millisecond})
	sent := time.Now()
	b.say("slow")
	line, err := b.hears(time.Minute)
	require.NoError(t, err)
	require.Equal(t, "slow", line)
	require.GreaterOrEqual(t, time.Since(sent), 60*time.Millisecond, "there and back")
}

// A server that dies before its first answer resets the connection: clients take an orderly end for another protocol, and give
// up.
func TestAnEndBeforeTheFirstAnswerIsAReset(t *testing.T) {
	upstream := serve(t, func(c net.Conn) { _, _ = bufio.NewReader(c).ReadString('\n') })
	_, err := call(t, Start(t, Options{Upstream: upstream}), "a").hears(time.Minute)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
