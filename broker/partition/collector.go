package partition

import (
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
	"tidemark/record"
)

// collector reads, when somebody asks for metrics, what nobody has to keep count of.
type collector struct {
	s                               *Set
	under, underMin, atMin, waiting *prometheus.Desc
}

func newCollector(s *Set) *collector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &collector{
		s:        s,
		under:    desc("tidemark_partition_under_replicated", "Partitions that this broker leads and of which not every replica is in sync."),
		underMin: desc("tidemark_partition_under_min_isr", "Partitions that this broker leads with fewer replicas in sync than min.insync.replicas: acks=all is refused."),
		atMin:    desc("tidemark_partition_at_min_isr", "Partitions that this broker leads with exactly min.insync.replicas in sync, fewer than their replicas: the loss of one more refuses acks=all."),
		waiting:  desc("tidemark_partition_upload_waiting_bytes", "Bytes of sealed local segments of partitions that this broker leads that the object tier does not have yet."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.under, c.underMin, c.atMin, c.waiting} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	var under, underMin, atMin int
	var waiting int64
	for _, p := range c.s.All() {
		l := p.role.Load()
		if l == nil {
			continue
		}
		isr, minISR, replicas := l.sizes()
		if isr < replicas {
			under++
		}
		switch {
		case isr < minISR:
			underMin++
		case isr == minISR && isr < replicas:
			atMin++
		}
		if p.cfg.Load().RemoteStorageEnable {
			waiting += p.uploadWaits()
		}
	}
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(c.under, float64(under))
	gauge(c.underMin, float64(underMin))
	gauge(c.atMin, float64(atMin))
	gauge(c.waiting, float64(waiting))
}

// sizes are how many replicas are in sync, how many have to be for acks=all, and how many there are.
func (l *leadership) sizes() (isr, minISR, replicas int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.followers.ISR()), l.followers.MinISR(), l.followers.Replicas()
}

// uploadWaits is how many bytes of sealed segments the tier does not have yet.
func (p *Partition) uploadWaits() int64 {
	_, sealed := p.localAbove(record.Offset(p.tiered.Load()))
	var n int64
	for _, x := range sealed {
		n += x.Bytes
	}
	return n
}

// inSyncChanged counts members that left and members that came while this broker leads.
func (m *metrics) inSyncChanged(before, after []catalog.Member) {
	has := func(set []catalog.Member, b catalog.BrokerID) bool {
		for _, x := range set {
			if x.Broker == b {
				return true
			}
		}
		return false
	}
	for _, x := range before {
		if !has(after, x.Broker) {
			m.shrinks.Inc()
			break
		}
	}
	for _, x := range after {
		if !has(before, x.Broker) {
			m.expands.Inc()
			break
		}
	}
}
