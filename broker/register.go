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

// register wins the broker id: at once if nobody holds it or this directory's own incarnation does, else
// after the holder's lease has stood still; ErrIDTaken if it moves.
func (b *Broker) register(ctx context.Context) error {
	b.member = newMember(b.opts.Catalog, b.data.Probe, b.log)
	r := catalog.Registration{
		ID: b.id, Rack: b.opts.Config.Broker.Rack, Listeners: b.advertised(), Attempt: catalog.NewUUID().Hex(),
	}
	if inc, ok := b.data.MayKeepIncarnation(); ok {
		r.Keep = catalog.Incarnation(inc)
	}
	var got catalog.Registered
	try := func(ctx context.Context) (err error) {
		got, err = b.opts.Catalog.Register(ctx, r)
		return err
	}
	err := b.opts.Patience.Await(ctx, try)
	if errors.Is(err, catalog.ErrHeld) {
		r.Seen, err = b.watchHolder(ctx)
		if err == nil {
			b.log.Info("the last holder of this broker id is gone; taking it over", "broker", b.id)
			err = b.opts.Patience.Await(ctx, try)
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
	b.member.join(catalog.Member{Broker: b.id, Incarnation: got.Incarnation})
	b.log.Info("registered", "broker", b.id, "incarnation_kept", b.kept)
	return nil
}

// watchHolder waits until the lease of this broker's id has stood still for its length, at least until
// two lengths have passed while it is raised.
func (b *Broker) watchHolder(ctx context.Context) (catalog.SeenLease, error) {
	began := time.Now()
	moves := 0
	var last catalog.BrokerLease
	for {
		select {
		case <-ctx.Done():
			return catalog.SeenLease{}, ctx.Err()
		case <-b.member.seen:
		}
		h, free := b.member.holder(b.id)
		if free {
			return h.SeenLease, nil
		}
		if last != h {
			last = h
			moves++
		}
		if moves > 2 && time.Since(began) >= 2*leaseLength {
			return h.SeenLease, fmt.Errorf("%w: broker %d is alive at %s (lease %d); stop it, or give this one another TIDEMARK_BROKER_ID",
				ErrIDTaken, b.id, b.addressOf(ctx, b.id), h.Lease)
		}
	}
}

func (b *Broker) addressOf(ctx context.Context, id catalog.BrokerID) string {
	all, err := b.opts.Catalog.Brokers(ctx)
	if err == nil {
		for _, x := range all {
			if x.ID == id && len(x.Listeners) > 0 {
				return net.JoinHostPort(x.Listeners[0].Host, strconv.Itoa(int(x.Listeners[0].Port)))
			}
		}
	}
	return "an unknown address"
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
