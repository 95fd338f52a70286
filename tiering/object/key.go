package object

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"tidemark/record"
)

// ID is a 128-bit id: of the cluster or of a topic.
type ID [16]byte

// NewAttempt returns a random attempt id: 32 characters of [0-9a-f].
func NewAttempt() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("object: the system's random source failed: %v", err))
	}
	return hex.EncodeToString(b[:])
}

// Key is the object's name (R3): cluster, topic, partition, base offset in 20 digits, attempt. The
// attempt is the last element, so that no key is another's folder.
func Key(cluster, topic ID, partition int32, base record.Offset, attempt string) string {
	return fmt.Sprintf("segments/%x/%x/%d/%020d/%s", cluster[:], topic[:], partition, base, attempt)
}
