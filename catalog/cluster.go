package catalog

import (
	"context"
	"time"
)

// ClusterRow is the one row that says which cluster this catalog belongs to.
type ClusterRow struct {
	ID UUID
	// Generation rises when the catalog is known to have gone back in time or was rebuilt (H2).
	Generation int64
	// Level is the feature level that the data is written at (H35).
	Level int
}

// Clusters reads what holds for the whole cluster.
type Clusters interface {
	// Cluster returns the row; it is created, with a random id, by the first broker's migration.
	Cluster(ctx context.Context) (ClusterRow, error)
	// Time returns the database's wall clock; retention uses the smaller of it and the broker's (R13).
	Time(ctx context.Context) (time.Time, error)
	// ProducerIDs hands out a block of n producer ids that nobody was or will be given: it begins at
	// a random prefix, unique in the table (H14). Ids are non-negative int64.
	ProducerIDs(ctx context.Context, b BrokerID, n int) (first int64, err error)
}

// Listener is an address of a broker under the name of a listener (KIP-103).
type Listener struct {
	Name string
	Host string
	Port int32
}

// Broker is a registered broker.
type Broker struct {
	ID          BrokerID
	Incarnation Incarnation
	Rack        string // "" if it has none
	Listeners   []Listener
	// Live is false after a clean stop (Release) or once the controller has taken the broker out.
	Live bool
	// Leaving is set while a broker is being decommissioned: it gets no new replicas.
	Leaving bool
	// Lease is the number that the broker raises; who sees it stand still for its length on the own
	// clock may take the broker out (R13).
	Lease   int64
	Version Version
}

// Registration asks for a broker id.
type Registration struct {
	ID        BrokerID
	Rack      string
	Listeners []Listener
	// Keep is the incarnation that this data directory may keep (clean stop or same kernel boot,
	// no failed write); 0 asks for a new one (H4).
	Keep Incarnation
	// Seen is the holder that the caller has watched: if the row still holds exactly this
	// incarnation and lease, the caller has seen it dead and may replace it. Zero: not watched.
	Seen SeenLease
	// Attempt is chosen by the caller: a repeat of the same attempt after an unclear COMMIT is answered
	// with the incarnation that the first was given (K5). "" only where Keep makes a repeat natural.
	Attempt string
}

// SeenLease is a lease as its watcher last saw it.
type SeenLease struct {
	Incarnation Incarnation
	Lease       int64
}

// Registered is the answer to a registration.
type Registered struct {
	Incarnation Incarnation
	Lease       int64
}

// Brokers registers brokers and keeps their leases (DESIGN §6).
type Brokers interface {
	// Register gives the id to the caller. In the same transaction every leadership of the id ends
	// (leader := NoBroker), its slots are nobody's, and, if the incarnation is new, the broker leaves every ISR and ELR,
	// except an ISR whose last member it is: that stays with the old incarnation (H5).
	// ErrHeld if another incarnation holds the id, is live, and is not Seen.
	Register(ctx context.Context, r Registration) (Registered, error)
	// Renew raises the lease by one and returns it. ErrFenced if the incarnation is not current or the
	// broker is not live any more.
	Renew(ctx context.Context, id BrokerID, inc Incarnation) (lease int64, err error)
	// Release ends the lease at a clean stop: Live becomes false, slots and the controller's role are
	// given up, leaderships end, and decide says who has what was left. In one transaction.
	Release(ctx context.Context, id BrokerID, inc Incarnation, decide Departure) error
	// SetLeaving says whether a broker is being decommissioned; registering again does not change it. ErrNotFound if it
	// was never registered.
	SetLeaving(ctx context.Context, id BrokerID, leaving bool) error
	// Brokers lists all registered brokers, live or not.
	Brokers(ctx context.Context) ([]Broker, error)
}
