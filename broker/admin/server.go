package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of a Server. All but Token and Audit are required.
type Options struct {
	// Listen is host:port; port 0 takes a free one.
	Listen string
	// Token lets requests that bear it make changes from anywhere; "" leaves that to loopback.
	Token    string
	State    State
	Audit    Audit // nil: there is no object tier to look at
	Gatherer prometheus.Gatherer
	Log      *slog.Logger
}

// Time-outs of the server. A CPU profile of a minute must fit into writeTimeout.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 2 * time.Second
)

// Server serves the broker's HTTP side.
type Server struct {
	ln   net.Listener
	http *http.Server
}

// ErrListen says that the HTTP address cannot be bound.
var ErrListen = errors.New("listen for HTTP")

// Listen binds the address, or fails with ErrListen. Requests wait until Run.
func Listen(ctx context.Context, o Options) (*Server, error) {
	if o.State == nil || o.Gatherer == nil || o.Log == nil {
		return nil, errors.New("admin: State, Gatherer and Log are required")
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, o.Listen, err)
	}
	return &Server{ln: ln, http: &http.Server{
		Handler:           routes(o),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr is the address that it listens on.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Close stops listening and drops all connections. It is for a server that is not run.
func (s *Server) Close() error { return errors.Join(s.ln.Close(), s.http.Close()) }

// Run serves until ctx ends, then lets requests finish for at most two seconds. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		// Somebody reads a long profile: it is cut off.
		_ = s.http.Close()
	}
	<-served
	return nil
}
