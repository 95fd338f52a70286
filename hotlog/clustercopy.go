package hotlog

import (
	"errors"
	"fmt"

	"tidemark/hotlog/disk"
)

// cluster-copy, sealed: the cluster as the broker last knew it, in the broker's own form (H2).
const copyName = "cluster-copy"

var copyKind = disk.Kind{Magic: "TMCC", Version: 1}

// StoreClusterCopy replaces what ClusterCopy will return, durably.
func (d *DataDir) StoreClusterCopy(b []byte) error {
	if err := disk.WriteSealed(d.fs, d.file(copyName), copyKind, b); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	return nil
}

// ClusterCopy is the stored copy, nil if there is none or it is damaged.
func (d *DataDir) ClusterCopy() []byte {
	b, err := disk.ReadSealed(d.file(copyName), copyKind)
	if errors.Is(err, disk.ErrDamaged) {
		d.logger.Warn("the stored copy of the cluster's state is damaged; going on without", "dir", d.path, "err", err)
	}
	if err != nil {
		return nil
	}
	return b
}
