package partition

import "tidemark/record/producer"

// Producers lists the producers that the partition remembers, by id. Only its leader knows all of them:
// ErrNotLeader.
func (p *Partition) Producers() ([]producer.Active, error) {
	if _, err := p.leading(); err != nil {
		return nil, err
	}
	return p.log.Producers().Active(), nil
}
