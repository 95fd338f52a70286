package admin

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes is everything that is served.
func routes(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", readyz(o.State))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	a := api{state: o.State}
	mux.HandleFunc("GET /api/v1/cluster", a.cluster)
	mux.HandleFunc("GET /api/v1/topics", a.topics)
	mux.HandleFunc("GET /api/v1/tier/{topic}", a.tier)
	mux.HandleFunc("GET /api/v1/tier/{topic}/segments", a.segments)
	(&auditAPI{audit: o.Audit}).routes(mux)
	mux.HandleFunc("GET /{$}", console(o.State))
	return guarded(mux, o.Token)
}

// guarded refuses whatever is not a read unless it bears the token, or came in on a loopback address and was asked for
// under this machine's own name by no page of another site: a browser would ask for whoever has made a page that is open in
// it, and resolve that page's name to a loopback address (DNS rebinding).
func guarded(next http.Handler, token string) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case read || bears(r, token):
		case !onLoopback(r):
			writeError(w, http.StatusForbidden, "changes are accepted on a loopback address, or with the token of TIDEMARK_HTTP_TOKEN as `Authorization: Bearer …`")
			return
		case !ownHost(r.Host) || origins.Check(r) != nil:
			writeError(w, http.StatusForbidden, "without the token of TIDEMARK_HTTP_TOKEN changes are accepted under a loopback address or localhost only, and from no other site's page")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onLoopback says whether the address that the request came in on is a loopback address.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ownHost says whether a Host header names a loopback address or localhost, with any port.
func ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

func bears(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// readyz is 200 with warnings, or 503 with one line per reason.
func readyz(s State) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons, warnings := s.Readiness()
		var b strings.Builder
		status := http.StatusServiceUnavailable
		if ready {
			status = http.StatusOK
			b.WriteString("ready\n")
		} else {
			for _, r := range reasons {
				b.WriteString(r + "\n")
			}
		}
		for _, warning := range warnings {
			fmt.Fprintf(&b, "warning: %s\n", warning)
		}
		writeText(w, status, b.String())
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
