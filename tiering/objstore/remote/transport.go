package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Transport is the HTTP transport that drivers hand to their clients. It keeps idle connections, speaks HTTP/1.1 only,
// so that a request that ran into its deadline takes its connection with it instead of leaving a late reply on a shared
// one, and notes of each reply what retries need to know.
type Transport struct {
	base *http.Transport
}

// NewTransport makes a Transport with up to conns connections to the service kept open; tlsConfig may be nil.
func NewTransport(conns int, tlsConfig *tls.Config) *Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Transport{base: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   5 * time.Second,
		MaxIdleConns:          conns,
		MaxIdleConnsPerHost:   conns,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true, // ranges are of the stored bytes
		WriteBufferSize:       64 << 10,
		Protocols:             protocols,
		ExpectContinueTimeout: time.Second,
	}}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if n, ok := req.Context().Value(noteKey{}).(*note); ok {
		if resp != nil {
			n.status = resp.StatusCode
			n.retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
		}
	}
	return resp, err
}

// CloseIdleConnections ends the connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// note is what the last reply of one attempt said. One attempt is one goroutine's business, so it needs no lock.
type note struct {
	status     int // 0: no reply came
	retryAfter time.Duration
}

type noteKey struct{}

func withNote(ctx context.Context) (context.Context, *note) {
	n := new(note)
	return context.WithValue(ctx, noteKey{}, n), n
}

// parseRetryAfter reads seconds or a date; what it cannot read is 0.
func parseRetryAfter(s string) time.Duration {
	if s == "" {
		return 0
	}
	if sec, err := strconv.Atoi(s); err == nil && sec > 0 && sec < 1<<20 {
		return time.Duration(sec) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
