package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ListenerOptions names one address to listen on.
type ListenerOptions struct {
	// Name is the listener's name in TIDEMARK_LISTENERS, e.g. PLAINTEXT. It
	// is unique within a Server.
	Name string
	// Address is host:port; port 0 takes a free one.
	Address string
	// ProduceBudget and OtherBudget are taken from instead of the server's
	// shared ones when set, so that brokers' traffic has bytes of its own.
	ProduceBudget, OtherBudget *Budget
}

// ReadGate is a bound on reads of files in flight. BeginRead waits for a place,
// EndRead gives it back; in between is one system call.
type ReadGate interface {
	BeginRead()
	EndRead()
}

// openGate is the gate that holds nobody up.
type openGate struct{}

func (openGate) BeginRead() {}
func (openGate) EndRead()   {}

// Options bound what clients can make a Server do. The zero value of a field
// means its default.
type Options struct {
	Listeners []ListenerOptions

	// MaxRequestBytes is the largest frame that is read (100 MiB, as Kafka's
	// socket.request.max.bytes). MaxOtherRequestBytes is the same for
	// everything but Produce (4 MiB): decoding lists costs many times their
	// bytes. (Kafka keeps a whole group's metadata in a record of 1 MiB.)
	MaxRequestBytes, MaxOtherRequestBytes int
	// ProduceBytes and OtherBytes are the budgets for request bytes that are
	// held at once by all connections (256 MiB and 64 MiB). Decoding large
	// frames takes from a second budget of OtherBytes.
	ProduceBytes, OtherBytes int64
	// AnswerBytes is what the answers of all connections to everything but
	// Produce and Fetch may hold, those of some KiB not counted (64 MiB). One
	// that is larger than three quarters of it is built alone.
	AnswerBytes int64

	// MaxConnections and MaxConnectionsPerAddress bound open sockets (10 000
	// and 10 000); more are closed as soon as they are accepted.
	MaxConnections, MaxConnectionsPerAddress int
	// MaxInFlight is how many requests of one connection may wait for their
	// answer before reading stops (64).
	MaxInFlight int

	// SendBuffer is the socket's send buffer in bytes (0: the kernel sizes it,
	// up to megabytes). What a large one holds is out of the processor's cache
	// before the peer reads it.
	SendBuffer int

	// Reads bounds the reads of files in flight, whichever way their bytes go to
	// a socket (nil: nothing does): each may hold a thread of the operating
	// system until the disk answers.
	Reads ReadGate

	// FirstRequestTimeout closes a connection that says nothing after it was
	// accepted (1 min); IdleTimeout one that is idle later (10 min, as
	// Kafka's connections.max.idle.ms). A connection that waits for an
	// answer is not idle.
	FirstRequestTimeout, IdleTimeout time.Duration
	// ReadTimeout is how long the first 4 KiB of a frame may take; each of the
	// further steps, which grow with what has arrived, has a third of it, plus
	// one second per MiB (30 s).
	ReadTimeout time.Duration
	// WriteTimeout is how long a peer may take none of the bytes that it
	// asked for (30 s).
	WriteTimeout time.Duration
	// ShutdownTimeout is how long answers may still leave after Run's context
	// has ended (5 s).
	ShutdownTimeout time.Duration

	// Log receives one line per connection that is closed for a fault.
	Log *slog.Logger
	// Metrics is counted into; nil counts nowhere.
	Metrics *Metrics
}

func (o Options) withDefaults() Options {
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	setTime := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	setInt(&o.MaxRequestBytes, 100<<20)
	setInt(&o.MaxOtherRequestBytes, min(4<<20, o.MaxRequestBytes))
	setInt(&o.MaxConnections, 10_000)
	setInt(&o.MaxConnectionsPerAddress, 10_000)
	setInt(&o.MaxInFlight, 64)
	if o.ProduceBytes == 0 {
		o.ProduceBytes = max(256<<20, int64(o.MaxRequestBytes))
	}
	if o.OtherBytes == 0 {
		o.OtherBytes = max(64<<20, int64(o.MaxOtherRequestBytes))
	}
	if o.AnswerBytes == 0 {
		o.AnswerBytes = 64 << 20
	}
	setTime(&o.FirstRequestTimeout, time.Minute)
	setTime(&o.IdleTimeout, 10*time.Minute)
	setTime(&o.ReadTimeout, 30*time.Second)
	setTime(&o.WriteTimeout, 30*time.Second)
	setTime(&o.ShutdownTimeout, 5*time.Second)
	if o.Reads == nil {
		o.Reads = openGate{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return o
}

// Validate reports every fault of o at once; zero fields have their defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(len(o.Listeners) == 0, "no listener is named")
	seen := map[string]bool{}
	for _, l := range o.Listeners {
		fault(l.Name == "", "a listener on %q has no name", l.Address)
		fault(seen[l.Name], "two listeners are named %q", l.Name)
		seen[l.Name] = true
		fault(l.ProduceBudget != nil && l.ProduceBudget.size < int64(o.MaxRequestBytes),
			"listener %q: the produce budget is below the largest request, %d bytes", l.Name, o.MaxRequestBytes)
		fault(l.OtherBudget != nil && l.OtherBudget.size < int64(o.MaxOtherRequestBytes),
			"listener %q: the budget is below the largest request, %d bytes", l.Name, o.MaxOtherRequestBytes)
	}
	fault(o.MaxRequestBytes < minFrame, "MaxRequestBytes %d is below a request header", o.MaxRequestBytes)
	fault(o.MaxOtherRequestBytes < minFrame, "MaxOtherRequestBytes %d is below a request header", o.MaxOtherRequestBytes)
	fault(o.ProduceBytes < int64(o.MaxRequestBytes), "ProduceBytes %d is below MaxRequestBytes %d", o.ProduceBytes, o.MaxRequestBytes)
	fault(o.OtherBytes < int64(o.MaxOtherRequestBytes), "OtherBytes %d is below MaxOtherRequestBytes %d", o.OtherBytes, o.MaxOtherRequestBytes)
	fault(o.AnswerBytes < freeAnswer, "AnswerBytes is %d", o.AnswerBytes)
	fault(o.MaxConnections < 1, "MaxConnections is %d", o.MaxConnections)
	fault(o.MaxConnectionsPerAddress < 1, "MaxConnectionsPerAddress is %d", o.MaxConnectionsPerAddress)
	fault(o.MaxInFlight < 1, "MaxInFlight is %d", o.MaxInFlight)
	for name, d := range map[string]time.Duration{
		"FirstRequestTimeout": o.FirstRequestTimeout, "IdleTimeout": o.IdleTimeout, "ReadTimeout": o.ReadTimeout,
		"WriteTimeout": o.WriteTimeout, "ShutdownTimeout": o.ShutdownTimeout,
	} {
		fault(d <= 0, "%s is %v", name, d)
	}
	return errors.Join(errs...)
}
