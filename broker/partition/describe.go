package partition

import (
	"tidemark/catalog"
	"tidemark/record"
)

// Describe is one partition for people and tools.
type Describe struct {
	Topic     string
	ID        catalog.PartitionID
	Leads     bool
	Epoch     record.Epoch
	Offsets   Offsets
	LocalSize int64
	TierSize  int64
	Segments  int
	// Retention is what retention will remove next and why, "" if this broker does not lead: its leader decides.
	Retention string
	// LocalRetention is which local segment is freed next and why, or what it waits for; "" without tier.
	LocalRetention string
	Damage         error
}

// Describe reads what `tier status` shows of the partition.
func (p *Partition) Describe() Describe {
	d := Describe{Topic: p.Name, ID: p.ID, Leads: p.role.Load() != nil, Epoch: p.LeaderEpoch(), Offsets: p.Offsets(), Damage: p.Damage()}
	segs := p.log.Segments()
	for _, s := range segs {
		d.LocalSize += s.Bytes
		d.Segments++
	}
	d.LocalRetention = p.localOutlook(segs)
	p.mu.Lock()
	d.TierSize = p.tierBytes
	p.mu.Unlock()
	if d.Leads {
		d.Retention = p.outlook()
	}
	return d
}
