package broker

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"tidemark/broker/admin"
	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
	"tidemark/tiering/objstore"
)

// catalogAway is after how long without an answer the catalog counts as away.
const catalogAway = 5 * time.Second

// state is the broker as its HTTP side sees it; an admin.State.
type state struct{ b *Broker }

// Readiness implements admin.State (DESIGN §9).
func (s state) Readiness() (ready bool, reasons, warnings []string) {
	b := s.b
	if !b.serving.Load() {
		return false, []string{"the broker does not serve its listeners"}, nil
	}
	if self, ok := b.follower.Image().Broker(b.id); !ok || !self.Live || self.Incarnation != b.registered.Incarnation {
		reasons = append(reasons, fmt.Sprintf("the cluster state that was pulled does not contain broker %d, or not this life of it", b.id))
	}
	if b.follower.Age() < leaseLength && !b.member.keeps() {
		reasons = append(reasons, "the broker's lease has run out although the catalog answers: its data folder is too slow, or it has been taken out")
	}
	name := func(id catalog.PartitionID) string {
		if t, ok := b.follower.Image().TopicByID(id.Topic); ok {
			return t.Name + "-" + strconv.Itoa(int(id.Partition))
		}
		return id.String()
	}
	for id, err := range b.parts.Offline() {
		reasons = append(reasons, fmt.Sprintf("partition %s is offline: %v", name(id), err))
	}
	for _, id := range b.aloneCanLead() {
		reasons = append(reasons, fmt.Sprintf("partition %s has no leader yet, and no other broker can lead it", name(id)))
	}
	for _, id := range b.parts.Failed() {
		reasons = append(reasons, fmt.Sprintf("partition %s is not served: its local log has failed; look at the disk and start the broker again", name(id)))
	}
	slices.Sort(reasons)
	if len(reasons) > 20 {
		reasons = append(reasons[:20], fmt.Sprintf("… and %d more", len(reasons)-20))
	}
	if err := b.tier.Trouble(); err != nil {
		warnings = append(warnings, fmt.Sprintf("the bucket cannot be used: nothing is uploaded, cold reads fail; %s: %v", objstore.Remedy(err), err))
	}
	if age := b.follower.Age(); age > catalogAway {
		warnings = append(warnings, fmt.Sprintf("the catalog has not answered for %s: uploads, topic changes and commits wait", age.Round(time.Second)))
	}
	warnings = append(warnings, b.stores.warnings()...)
	warnings = append(warnings, b.custody.warnings()...)
	return len(reasons) == 0, reasons, warnings
}

// aloneCanLead lists the partitions without a leader that this broker can be elected for and no other live one.
func (b *Broker) aloneCanLead() (ids []catalog.PartitionID) {
	im := b.follower.Image()
	all := replication.ByID(im.Registered())
	self := replication.Brokers{b.id: all[b.id]}
	others := maps.Clone(all)
	delete(others, b.id)
	for _, t := range im.Topics() {
		for _, p := range t.Partitions {
			if p.Leader != catalog.NoBroker {
				continue
			}
			_, _, here := replication.Elect(p, self, settingsOf(t), nil)
			_, _, elsewhere := replication.Elect(p, others, settingsOf(t), nil)
			if here && !elsewhere {
				ids = append(ids, p.ID)
			}
		}
	}
	return ids
}

// Overview implements admin.State.
func (s state) Overview() admin.Overview {
	im := s.b.follower.Image()
	o := admin.Overview{Cluster: s.b.cluster.ID.String(), Broker: int32(s.b.id), Version: int64(im.Position.Version)}
	for _, x := range im.Brokers() {
		ab := admin.Broker{ID: int32(x.ID), Rack: x.Rack}
		for _, l := range x.Listeners {
			ab.Listeners = append(ab.Listeners, l.Name+"://"+net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		}
		o.Brokers = append(o.Brokers, ab)
	}
	return o
}

// Topics implements admin.State.
func (s state) Topics() []admin.Topic {
	var out []admin.Topic
	for _, t := range s.b.follower.Image().Topics() {
		at := admin.Topic{Name: t.Name, ID: t.ID.String(), Partitions: len(t.Partitions), Configs: t.Configs}
		if len(t.Partitions) > 0 {
			at.Replicas = len(t.Partitions[0].Replicas)
		}
		out = append(out, at)
	}
	return out
}

// Tier implements admin.State.
func (s state) Tier(_ context.Context, topic string) (admin.TopicTier, error) {
	t, ok := s.b.follower.Image().Topic(topic)
	if !ok {
		return admin.TopicTier{}, fmt.Errorf("%w: topic %q", admin.ErrUnknown, topic)
	}
	out := admin.TopicTier{Topic: t.Name, ID: t.ID.String(), Remote: t.Effective.RemoteStorageEnable}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, s.partition(p))
	}
	return out, nil
}

func (s state) partition(row catalog.Partition) admin.Partition {
	ap := admin.Partition{Partition: row.ID.Partition, Leader: int32(row.Leader), LeaderEpoch: int32(row.LeaderEpoch)}
	for _, r := range row.Replicas {
		ap.Replicas = append(ap.Replicas, int32(r))
	}
	for _, m := range row.ISR {
		ap.ISR = append(ap.ISR, int32(m.Broker))
	}
	p, err := s.b.parts.Get(row.ID)
	if err != nil {
		return ap
	}
	d := p.Describe()
	ap.Here = true
	ap.Start, ap.LocalStart, ap.Tiered = d.Offsets.Start, d.Offsets.LocalStart, d.Offsets.Tiered
	ap.Stable, ap.HighWatermark, ap.LogEnd = d.Offsets.Stable, d.Offsets.HW, d.Offsets.End
	ap.LocalBytes, ap.TierBytes = d.LocalSize, d.TierSize
	ap.Retention, ap.LocalRetention = d.Retention, d.LocalRetention
	if !d.Leads {
		ap.Retention = s.elsewhere(row.Leader)
	}
	if st, ok := s.b.tier.Status(row.ID); ok {
		up := &admin.Upload{Stalled: st.Stalled, Failures: st.Failures, Objects: st.Uploaded, Bytes: st.UploadedBytes}
		if !st.StalledSince.IsZero() {
			up.StalledSince = &st.StalledSince
		}
		ap.Upload = up
	}
	return ap
}

// elsewhere says who decides what retention removes of a partition that this broker does not lead.
func (s state) elsewhere(leader catalog.BrokerID) string {
	if leader == catalog.NoBroker {
		return "nobody leads it, so retention removes nothing"
	}
	at := ""
	if b, ok := s.b.follower.Image().Broker(leader); ok && len(b.Listeners) > 0 {
		at = ", on " + b.Listeners[0].Host
	}
	return fmt.Sprintf("broker %d leads it and says what retention removes next: ask its HTTP address (--http)%s", leader, at)
}

// Segments implements admin.State.
func (s state) Segments(ctx context.Context, topic string, part int32, from record.Offset, limit int) ([]admin.Segment, error) {
	t, ok := s.b.follower.Image().Topic(topic)
	if !ok || part < 0 || int(part) >= len(t.Partitions) {
		return nil, fmt.Errorf("%w: topic %q, partition %d", admin.ErrUnknown, topic, part)
	}
	rows, err := s.b.opts.Catalog.ListSegments(ctx, catalog.PartitionID{Topic: t.ID, Partition: part}, from, limit)
	if err != nil {
		return nil, err
	}
	out := make([]admin.Segment, len(rows))
	for i, r := range rows {
		out[i] = admin.Segment{
			Base: r.Base, Next: r.Next, Bytes: r.Bytes, Records: r.Records,
			MinTimestamp: r.MinTimestamp, MaxTimestamp: r.MaxTimestamp, AppendTime: r.AppendTime,
			LeaderEpoch: r.LeaderEpoch, Generation: r.Generation, Key: r.Key, SHA256: hex.EncodeToString(r.SHA256[:]),
		}
	}
	return out, nil
}
