package hotlog

import (
	"errors"
	"fmt"

	"tidemark/hotlog/disk"
)

// dynamic-config, sealed: the settings that tools have changed while the broker ran, in the broker's own form.
const dynamicName = "dynamic-config"

var dynamicKind = disk.Kind{Magic: "TMDC", Version: 1}

// StoreDynamicConfig replaces what DynamicConfig will return, durably.
func (d *DataDir) StoreDynamicConfig(b []byte) error {
	if err := disk.WriteSealed(d.fs, d.file(dynamicName), dynamicKind, b); err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	return nil
}

// DynamicConfig is what was stored, nil if there is none or it is damaged.
func (d *DataDir) DynamicConfig() []byte {
	b, err := disk.ReadSealed(d.file(dynamicName), dynamicKind)
	if errors.Is(err, disk.ErrDamaged) {
		d.logger.Warn("the stored dynamic settings are damaged; going on without", "dir", d.path, "err", err)
	}
	if err != nil {
		return nil
	}
	return b
}
