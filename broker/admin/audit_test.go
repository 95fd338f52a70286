package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/tiering/audit"
)

// fakeAudit finds one problem in a topic of two objects.
type fakeAudit struct {
	entered chan struct{} // if set, Verify says that it has begun and waits for its context
	fails   error
	census  audit.Census
}

func (f *fakeAudit) Verify(ctx context.Context, topic string, deep bool, report func(audit.Problem, audit.Progress)) (audit.Progress, error) {
	if topic == "nothing" {
		return audit.Progress{}, fmt.Errorf("%w: topic %q", ErrUnknown, topic)
	}
	if f.entered != nil {
		report(audit.Problem{}, audit.Progress{Objects: 1})
		close(f.entered)
		<-ctx.Done()
		return audit.Progress{}, ctx.Err()
	}
	p := audit.Progress{OfParts: 1, Objects: 2, Problems: 1}
	report(audit.Problem{}, audit.Progress{Objects: 1})
	if deep {
		report(audit.Problem{Kind: audit.Checksum, Topic: topic, Base: 10, Next: 20, Key: "k", Detail: "d"}, p)
	}
	return p, f.fails
}

func (f *fakeAudit) Strays(_ context.Context, each func(audit.Stray)) (audit.Census, error) {
	each(audit.Stray{Key: "stray", Old: true})
	return f.census, nil
}

func (f *fakeAudit) Discard(_ context.Context, percent float64) (int64, audit.Census, error) {
	if err := f.census.Judge(percent); err != nil {
		return 0, f.census, err
	}
	return f.census.Old, f.census, nil
}

func (f *fakeAudit) AgreeRewound(context.Context) (int64, error) { return 5, f.fails }

func auditServer(t *testing.T, f Audit) string {
	s := httptest.NewServer(routes(Options{State: &fakeState{}, Audit: f, Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s.URL
}

func post(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "", nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestAVerificationIsStreamed(t *testing.T) {
	url := auditServer(t, &fakeAudit{})
	status, body := get(t, url+"/api/v1/verify?topic=events")
	require.Equal(t, 200, status)
	var lines []VerifyLine
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		var l VerifyLine
		require.NoError(t, json.Unmarshal(s.Bytes(), &l))
		lines = append(lines, l)
	}
	require.Len(t, lines, 3)
	require.EqualValues(t, 1, lines[0].Progress.Objects)
	require.Equal(t, "checksum: events-0 [10, 20) k – d", lines[1].Problem.String())
	require.EqualValues(t, 1, lines[2].Done.Problems)
	require.Empty(t, lines[2].Done.Error)

	_, body = get(t, url+"/api/v1/verify?topic=events&deep=false")
	require.NotContains(t, body, "checksum")
	status, _ = get(t, url+"/api/v1/verify?topic=nothing")
	require.Equal(t, 404, status)
	status, _ = get(t, url+"/api/v1/verify?deep=perhaps")
	require.Equal(t, 400, status)
}

func TestAVerificationThatBreaksOffSaysSo(t *testing.T) {
	url := auditServer(t, &fakeAudit{fails: errors.New("the bucket went away")})
	_, body := get(t, url+"/api/v1/verify")
	require.Contains(t, body, `"error":"the bucket went away"`)
}

func TestOneVerificationAtATimeAndItEndsWithItsClient(t *testing.T) {
	f := &fakeAudit{entered: make(chan struct{})}
	url := auditServer(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/verify", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	<-f.entered
	status, body := get(t, url+"/api/v1/strays")
	require.Equal(t, 409, status)
	require.Contains(t, body, "is running")
	cancel()
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	for status == 409 {
		status, _ = get(t, url+"/api/v1/strays")
	}
	require.Equal(t, 200, status)
}

func TestGarbageIsMadeByPOSTAndRefusedWithASentence(t *testing.T) {
	f := &fakeAudit{census: audit.Census{Objects: 1000, Live: 995, Unknown: 5, Old: 3}}
	url := auditServer(t, f)
	status, body := get(t, url+"/api/v1/strays")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"key":"stray"`)
	require.NotContains(t, body, "refusal")
	status, body = post(t, url+"/api/v1/gc")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"discarded":3`)
	status, _ = get(t, url+"/api/v1/gc")
	require.NotEqual(t, 200, status)

	f.census.Unknown, f.census.Live = 50, 950
	_, body = get(t, url+"/api/v1/strays")
	require.Contains(t, body, `"refusal":"refused: nothing names 50 of the 1000 objects`)
	status, body = post(t, url+"/api/v1/gc")
	require.Equal(t, 409, status)
	require.Contains(t, body, "50 of the 1000")
	status, _ = post(t, url+"/api/v1/gc?percent=5")
	require.Equal(t, 200, status)
	status, _ = post(t, url+"/api/v1/gc?percent=many")
	require.Equal(t, 400, status)

	status, body = post(t, url+"/api/v1/gc/agree")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"generation":5`)
}

func TestABrokerWithoutATierSaysSo(t *testing.T) {
	status, _ := get(t, auditServer(t, nil)+"/api/v1/verify")
	require.Equal(t, 501, status)
}
