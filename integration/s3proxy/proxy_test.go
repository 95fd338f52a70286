package s3proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream answers "0123456789" and counts.
func upstream(t *testing.T) (addr string, count *atomic.Int64) {
	count = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Host", r.Host)
		_, _ = io.WriteString(w, "0123456789")
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), count
}

func TestEachFaultDoesWhatItSays(t *testing.T) {
	addr, reached := upstream(t)
	p := Start(t, addr)
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	call := func(c *http.Client) (status int, body string, err error) {
		req, err := http.NewRequest("PUT", p.URL()+"/bucket/a/key?x=1", strings.NewReader("body"))
		require.NoError(t, err)
		resp, err := c.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	for _, c := range []struct {
		name    string
		rule    Rule
		status  int
		body    string
		fails   bool
		reaches int64
	}{
		{"nothing", Rule{Match: Match{Verb: "GET"}, Status: 500}, 200, "0123456789", false, 1},
		{"another path", Rule{Match: Match{Path: "other"}, Status: 500}, 200, "0123456789", false, 1},
		{"status", Rule{Match: Match{Path: "/a/", Query: "x="}, Status: 503, Code: "SlowDown"}, 503, "SlowDown", false, 0},
		{"delay", Rule{Delay: time.Millisecond}, 200, "0123456789", false, 1},
		{"drop", Rule{Drop: true, ReadBody: 1}, 0, "", true, 0},
		{"lost reply", Rule{LoseReply: true}, 0, "", true, 1},
		{"cut", Rule{CutBody: 4}, 200, "0123", true, 1},
		{"cut without length", Rule{CutChunked: 4}, 200, "0123", false, 1},
		{"refused", Rule{Refuse: func(*http.Request) (int, string) { return 400, "No" }}, 400, "No", false, 0},
		{"let pass", Rule{Refuse: func(*http.Request) (int, string) { return 0, "" }}, 200, "0123456789", false, 1},
		{"no more tokens", Rule{Rate: 0.0001}, 503, "SlowDown", false, 0},
		{"skipped", Rule{Skip: 1, Status: 500}, 200, "0123456789", false, 1},
		{"edited", Rule{Edit: func(r *http.Response) { r.StatusCode = 201 }}, 201, "0123456789", false, 1},
	} {
		p.Clear()
		p.Add(c.rule)
		before := reached.Load()
		status, body, err := call(client)
		require.Equal(t, c.fails, err != nil, "%s: %v", c.name, err)
		require.Equal(t, c.status, status, c.name)
		require.Contains(t, body, c.body, c.name)
		require.Equal(t, c.reaches, reached.Load()-before, c.name)
	}
	p.Clear()
	p.Add(Rule{Hang: true, Times: 1})
	_, _, err := call(&http.Client{Transport: client.Transport, Timeout: 20 * time.Millisecond})
	require.Error(t, err)
	status, _, err := call(client)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, 15, p.Count(Match{Verb: "PUT", Path: "^/bucket/a/key$"}))
	require.Zero(t, p.Count(Match{Verb: "PUT", Query: "-"}))
	p.Forget()
	require.Zero(t, p.Count(Match{}))
}

func TestHostPassesUnchanged(t *testing.T) {
	addr, _ := upstream(t)
	p := Start(t, addr)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(p.URL() + "/x")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, p.Addr(), resp.Header.Get("X-Host"))
	require.Equal(t, 1, p.Conns())
}
