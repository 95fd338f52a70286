package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Kind names what a sealed file holds: four bytes of magic and the version that
// is written. Older versions are the reader's business.
type Kind struct {
	Magic   string
	Version uint16
}

// A sealed file, big-endian:
//
//	 0  4 bytes  magic
//	 4  uint16   version
//	 6  uint16   0
//	 8  uint32   payload length
//	12  uint32   CRC-32C of the payload
//	16  payload
const sealedHeader = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged: a sealed file that is not wholly what somebody wrote.
var ErrDamaged = errors.New("disk: damaged state file")

// Seal puts magic, version, length and checksum before payload.
func Seal(kind Kind, payload []byte) []byte {
	b := make([]byte, 0, sealedHeader+len(payload))
	b = append(b, kind.Magic[:4]...)
	b = binary.BigEndian.AppendUint16(b, kind.Version)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// Unseal checks what Seal wrote and returns the payload. Error: ErrDamaged.
func Unseal(kind Kind, b []byte) ([]byte, error) {
	switch {
	case len(b) < sealedHeader:
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(b))
	case string(b[:4]) != kind.Magic:
		return nil, fmt.Errorf("%w: magic %q, want %q", ErrDamaged, b[:4], kind.Magic)
	case binary.BigEndian.Uint16(b[4:]) != kind.Version:
		return nil, fmt.Errorf("%w: version %d, known is %d", ErrDamaged, binary.BigEndian.Uint16(b[4:]), kind.Version)
	case int64(binary.BigEndian.Uint32(b[8:])) != int64(len(b)-sealedHeader):
		return nil, fmt.Errorf("%w: %d bytes of payload, header says %d",
			ErrDamaged, len(b)-sealedHeader, binary.BigEndian.Uint32(b[8:]))
	case crc32.Checksum(b[sealedHeader:], castagnoli) != binary.BigEndian.Uint32(b[12:]):
		return nil, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	return b[sealedHeader:], nil
}

// ReadSealed returns the payload of a sealed file. Errors: fs.ErrNotExist,
// ErrDamaged, or what the system says.
func ReadSealed(name string, kind Kind) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	payload, err := Unseal(kind, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return payload, nil
}

// tempSuffix marks a file that is being written; whoever lists a directory may
// remove what a crash left of them.
const tempSuffix = ".tmp"

// IsTemp reports a name that Replace uses before it renames.
func IsTemp(name string) bool { return filepath.Ext(name) == tempSuffix }

// Replace writes and syncs a new file beside name and renames it over name. After
// a crash the old or the new content is there, whole. The name itself is durable
// after SyncDir.
func Replace(to FS, name string, content []byte) error {
	temp := name + tempSuffix
	f, err := to.Open(temp, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = to.Rename(temp, name)
	}
	if err != nil {
		// What is left of a failed try must not hold space on a full disk.
		_ = to.Remove(temp)
		return fmt.Errorf("replace %s: %w", filepath.Base(name), err)
	}
	return nil
}

// Overwrite writes content over what name holds, without a sync. A crash may leave anything: for content whose
// reader can tell, and that may be missing.
func Overwrite(in FS, name string, content []byte) error {
	f, err := in.Open(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Truncate(int64(len(content)))
	}
	return errors.Join(err, f.Close())
}

// WriteSealed replaces name by a sealed file and makes the name durable.
func WriteSealed(to FS, name string, kind Kind, payload []byte) error {
	if err := Replace(to, name, Seal(kind, payload)); err != nil {
		return err
	}
	return to.SyncDir(filepath.Dir(name))
}

// RemoveIfThere unlinks name; an absent one is no error.
func RemoveIfThere(from FS, name string) error {
	if err := from.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// IsFull reports that the system had no space (or quota) left.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
