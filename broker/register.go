package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"tidemark/catalog"
)

// A lease is a number that its holder raises every renewEvery; who has seen it stand still for
// leaseLength on the own clock, while the catalog answered, may take it over (R13).
const (
	leaseLength = 2500 * time.Millisecond
	renewEvery  = 500 * time.Millisecond
	watchEvery  = 250 * time.Millisecond
)

// register wins the broker id: at once if nobody holds it or this directory's own incarnation does, else
// after the holder's lease has stood still; ErrIDTaken if it moves.
func (b *Broker) register(ctx context.Context) error {
	if err := b.refuseOthers(ctx); err != nil {
		return err
	}
	r := catalog.Registration{ID: b.id, Rack: b.opts.Config.Broker.Rack, Listeners: b.advertised()}
	if inc, ok := b.data.MayKeepIncarnation(); ok {
		r.Keep = catalog.Incarnation(inc)
	}
	got, err := b.opts.Catalog.Register(ctx, r)
	if errors.Is(err, catalog.ErrHeld) {
		r.Seen, err = b.watchHolder(ctx, b.id)
		if err == nil {
			b.log.Info("the last holder of this broker id is gone; taking it over", "broker", b.id)
			got, err = b.opts.Catalog.Register(ctx, r)
		}
	}
	if errors.Is(err, catalog.ErrHeld) {
		err = fmt.Errorf("%w: broker %d registered again while this one waited", ErrIDTaken, b.id)
	}
	if err != nil {
		return fmt.Errorf("register broker %d: %w", b.id, err)
	}
	b.registered = got
	b.kept = r.Keep != 0 && got.Incarnation == r.Keep
	b.stored.Store(b.kept)
	b.log.Info("registered", "broker", b.id, "incarnation_kept", b.kept)
	return nil
}

// watchHolder waits until the lease of a broker has stood still for its length.
func (b *Broker) watchHolder(ctx context.Context, id catalog.BrokerID) (catalog.SeenLease, error) {
	var seen catalog.SeenLease
	var since, answered time.Time
	began := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		h, err := b.holder(ctx, id)
		now := time.Now()
		switch {
		case err != nil:
			return seen, err
		case !h.Live:
			return catalog.SeenLease{Incarnation: h.Incarnation, Lease: h.Lease}, nil
		case seen.Incarnation != h.Incarnation || seen.Lease != h.Lease || now.Sub(answered) > leaseLength/2:
			if seen.Incarnation != 0 && now.Sub(began) >= 2*leaseLength {
				return seen, fmt.Errorf("%w: broker %d is alive at %s (lease %d); stop it, or give this one another TIDEMARK_BROKER_ID", ErrIDTaken, id, listenerText(h), h.Lease)
			}
			seen, since = catalog.SeenLease{Incarnation: h.Incarnation, Lease: h.Lease}, now
		case now.Sub(since) >= leaseLength:
			return seen, nil
		}
		answered = now
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-tick.C:
		}
	}
}

func (b *Broker) holder(ctx context.Context, id catalog.BrokerID) (catalog.Broker, error) {
	all, err := b.opts.Catalog.Brokers(ctx)
	if err != nil {
		return catalog.Broker{}, err
	}
	for _, x := range all {
		if x.ID == id {
			return x, nil
		}
	}
	return catalog.Broker{}, fmt.Errorf("broker %d: %w", id, catalog.ErrNotFound)
}

// refuseOthers keeps a second broker out: there is no replication yet, and two brokers on one catalog
// would each lead what the other does not have (docs/limits.md).
func (b *Broker) refuseOthers(ctx context.Context) error {
	all, err := b.opts.Catalog.Brokers(ctx)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	for _, x := range all {
		if x.ID == b.id || !x.Live {
			continue
		}
		if _, err := b.watchHolder(ctx, x.ID); err != nil {
			return fmt.Errorf("broker %d may not start: a cluster has one broker in this release, and another is registered: %w", b.id, err)
		}
	}
	return nil
}

func listenerText(x catalog.Broker) string {
	if len(x.Listeners) == 0 {
		return "an unknown address"
	}
	return net.JoinHostPort(x.Listeners[0].Host, strconv.Itoa(int(x.Listeners[0].Port)))
}

// advertised is what clients are told: the advertised listeners, with the real port where 0 was asked.
func (b *Broker) advertised() []catalog.Listener {
	n := b.opts.Config.Network
	var out []catalog.Listener
	for _, l := range n.Listeners {
		host, port := l.Host, l.Port
		if a, ok := n.Advertised.Named(l.Name); ok {
			host, port = a.Host, a.Port
		}
		if port == 0 {
			if _, p, err := net.SplitHostPort(b.Addr(l.Name)); err == nil {
				port, _ = strconv.Atoi(p)
			}
		}
		out = append(out, catalog.Listener{Name: l.Name, Host: host, Port: int32(port)})
	}
	return out
}

// keepLease raises the lease until ctx ends, and only while a small synced write to the data directory
// completes (H28). A broker that is fenced stops.
func (b *Broker) keepLease(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		b.storeIncarnation()
		call, cancel := context.WithTimeout(ctx, leaseLength)
		err := b.data.Probe(call)
		if err == nil {
			_, err = b.opts.Catalog.Renew(call, b.id, b.registered.Incarnation)
		}
		cancel()
		switch {
		case errors.Is(err, catalog.ErrFenced):
			return fmt.Errorf("%w: %w", ErrFenced, err)
		case err != nil && ctx.Err() == nil:
			b.log.Debug("lease not renewed", "error", err)
		}
	}
}

// storeIncarnation writes a new incarnation into the data directory once every log agrees with the tier.
func (b *Broker) storeIncarnation() {
	if b.stored.Load() || len(b.parts.Offline()) > 0 {
		return
	}
	if err := b.data.SetIncarnation(int64(b.registered.Incarnation)); err != nil {
		b.log.Warn("store the incarnation", "error", err)
		return
	}
	b.stored.Store(true)
}
