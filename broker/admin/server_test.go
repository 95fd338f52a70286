package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/catalog"
	"tidemark/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeState is a broker with one topic of ten objects.
type fakeState struct {
	ready    bool
	reasons  []string
	warnings []string
	away     bool
}

func (f *fakeState) Readiness() (bool, []string, []string) { return f.ready, f.reasons, f.warnings }

func (f *fakeState) Overview() Overview {
	return Overview{Cluster: "c1", Broker: 1, Version: 7, Brokers: []Broker{{ID: 1, Listeners: []string{"PLAINTEXT://h:9092"}}}}
}

func (f *fakeState) Topics() []Topic {
	return []Topic{{Name: "events", ID: "id", Partitions: 1, Replicas: 1, Configs: map[string]string{"retention.ms": "-1"}}}
}

func (f *fakeState) Tier(_ context.Context, topic string) (TopicTier, error) {
	if topic != "events" {
		return TopicTier{}, fmt.Errorf("%w: %s", ErrUnknown, topic)
	}
	return TopicTier{Topic: topic, ID: "id", Remote: true, Partitions: []Partition{{
		Leader: 1, Here: true, LocalStart: 80, Tiered: 90, Stable: 100, HighWatermark: 100, LogEnd: 100,
		LocalBytes: 1 << 20, TierBytes: 5 << 20, Upload: &Upload{Stalled: "bucket <away>", Failures: 3},
	}}}, nil
}

func (f *fakeState) Segments(_ context.Context, topic string, partition int32, from record.Offset, limit int) ([]Segment, error) {
	if f.away {
		return nil, catalog.MarkUnavailable(errors.New("no connection"))
	}
	if topic != "events" || partition != 0 {
		return nil, fmt.Errorf("%w: %s-%d", ErrUnknown, topic, partition)
	}
	var out []Segment
	for base := record.Offset(0); base < 100 && len(out) < limit; base += 10 {
		if base+10 > from {
			out = append(out, Segment{Base: base, Next: base + 10})
		}
	}
	return out, nil
}

// serve runs a server over f until the test ends and returns its URL.
func serve(t *testing.T, f *fakeState, token string) string {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_test", Help: "x"}))
	s, err := Listen(t.Context(), Options{Listen: "127.0.0.1:0", Token: token, State: f, Gatherer: reg, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + s.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestReadyzNamesEachReasonAndWarning(t *testing.T) {
	f := &fakeState{reasons: []string{"not registered", "no state pulled"}}
	url := serve(t, f, "")
	status, body := get(t, url+"/readyz")
	require.Equal(t, 503, status)
	require.Equal(t, "not registered\nno state pulled\n", body)

	f.ready, f.reasons, f.warnings = true, nil, []string{"the bucket does not answer"}
	status, body = get(t, url+"/readyz")
	require.Equal(t, 200, status)
	require.Equal(t, "ready\nwarning: the bucket does not answer\n", body)

	status, _ = get(t, url+"/healthz")
	require.Equal(t, 200, status)
	_, body = get(t, url+"/metrics")
	require.Contains(t, body, "tidemark_test 0")
}

func TestSegmentsArePaged(t *testing.T) {
	f := &fakeState{}
	url := serve(t, f, "")
	var seen []record.Offset
	after := record.Offset(0)
	for range 5 {
		status, body := get(t, fmt.Sprintf("%s/api/v1/tier/events/segments?after=%d&limit=4", url, after))
		require.Equal(t, 200, status)
		var page SegmentPage
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		for _, s := range page.Segments {
			seen = append(seen, s.Base)
		}
		if page.After == nil {
			break
		}
		after = *page.After
	}
	require.Equal(t, []record.Offset{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, seen)

	for query, status := range map[string]int{"limit=0": 400, "limit=x": 400, "partition=-1": 400, "after=99999999999999999999": 400, "partition=3": 404} {
		got, body := get(t, url+"/api/v1/tier/events/segments?"+query)
		require.Equal(t, status, got, query)
		require.Contains(t, body, `"error"`)
	}
	f.away = true
	status, _ := get(t, url+"/api/v1/tier/events/segments")
	require.Equal(t, 503, status)
}

func TestTierOfATopic(t *testing.T) {
	url := serve(t, &fakeState{ready: true}, "")
	status, body := get(t, url+"/api/v1/tier/events")
	require.Equal(t, 200, status)
	var got TopicTier
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, record.Offset(80), got.Partitions[0].LocalStart)

	status, _ = get(t, url+"/api/v1/tier/nothing")
	require.Equal(t, 404, status)

	status, page := get(t, url+"/?topic=events")
	require.Equal(t, 200, status)
	require.Contains(t, page, "events")
	require.Contains(t, page, "bucket &lt;away&gt;")
	require.Contains(t, page, "5.0 MiB")
}

func TestU10_ChangesNeedLoopbackOrTheToken(t *testing.T) {
	h := guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}), "s3cret")
	ask := func(method, token string) int {
		r := httptest.NewRequest(method, "/api/v1/x", strings.NewReader("")) // no local address: not loopback
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 200, ask("GET", ""))
	require.Equal(t, 403, ask("POST", ""))
	require.Equal(t, 403, ask("POST", "wrong"))
	require.Equal(t, 200, ask("POST", "s3cret"))

	url := serve(t, &fakeState{}, "")
	resp, err := http.Post(url+"/api/v1/topics", "", nil) // loopback, but there is nothing to change
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 405, resp.StatusCode)
}

// A page of another site that is open on this machine makes no changes, under whatever name it reaches the listener.
func TestChangesOnLoopbackAreRefusedToOtherSites(t *testing.T) {
	f := &fakeState{}
	url := serve(t, f, "s3cret")
	own := strings.TrimPrefix(url, "http://")
	_, port, _ := net.SplitHostPort(own)
	ask := func(host string, headers ...string) int {
		r, err := http.NewRequest(http.MethodPost, url+"/api/v1/gc", nil)
		require.NoError(t, err)
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	const refused, done = http.StatusForbidden, http.StatusNotImplemented // there is no object tier behind this server
	require.Equal(t, done, ask(own), "a tool")
	require.Equal(t, done, ask("localhost:"+port))
	require.Equal(t, done, ask("[::1]:"+port))
	require.Equal(t, done, ask(own, "Origin", url, "Sec-Fetch-Site", "same-origin"), "the console")
	require.Equal(t, refused, ask(own, "Origin", "http://evil.example"))
	require.Equal(t, refused, ask(own, "Origin", "null"))
	require.Equal(t, refused, ask(own, "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, refused, ask("evil.example"), "a name that was made to mean 127.0.0.1")
	require.Equal(t, refused, ask("evil.example:"+port, "Origin", "http://evil.example:"+port, "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, refused, ask("127.0.0.1.evil.example:"+port))
	require.Equal(t, done, ask("evil.example", "Authorization", "Bearer s3cret"), "who has the token")
}

// A client that never finishes its request must not keep the server from stopping.
func TestStopsWithAHangingClient(t *testing.T) {
	f := &fakeState{}
	s, err := Listen(t.Context(), Options{Listen: "127.0.0.1:0", State: f, Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() {
		resp, err := http.Post("http://"+s.Addr().String()+"/debug/pprof/symbol", "", pr)
		if err == nil {
			resp.Body.Close()
		}
	}()
	_, _ = pw.Write([]byte("x"))
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the server did not stop")
	}
	pw.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestShare(t *testing.T) {
	require.Equal(t, 80.0, share(0, 100, 0, 80))
	require.Equal(t, 0.0, share(0, 100, 90, 80))
	require.Equal(t, 0.0, share(5, 5, 5, 5))
	require.Equal(t, "1.0 KiB", humanBytes(1024))
}
