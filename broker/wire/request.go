package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce            = 0
	keyFetch              = 1
	keyControlledShutdown = 7
	keyAPIVersions        = 18

	// minFrame is api key, version and correlation id.
	minFrame = 8

	codeUnsupportedVersion = 35
)

// ErrFrame is wrapped by every fault of a frame after which the connection
// has to be closed, because what follows cannot be trusted.
var ErrFrame = errors.New("malformed request frame")

// Request is one request of a connection. Byte slices in Body (a produce's
// records, a join's metadata) alias the frame's buffer; strings do not.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	// Body is the decoded request. It is nil only in Handler.Refuse, for a
	// key or version that kmsg cannot decode.
	Body kmsg.Request

	flexible bool
	retained bool
	released bool
	buf      *[]byte
	held     *hold
}

// Size is the length in bytes of the request's frame.
func (r *Request) Size() int {
	if r.buf == nil {
		return 0
	}
	return len(*r.buf)
}

// Retain keeps the request's buffer beyond Handle; the handler then calls
// Release, once, from any goroutine. It may only be called within Handle.
func (r *Request) Retain() { r.retained = true }

// Release gives the buffer back. Nothing that aliases it may be used after.
// Within Handle it may be called early and is then idempotent.
func (r *Request) Release() {
	if r.released || r.buf == nil {
		return
	}
	r.released = true
	putBuffer(r.buf)
	r.buf = nil
	r.held.release()
}

// header is the fixed first part of a frame.
type header struct {
	key, version  int16
	correlationID int32
}

func readHeader(b []byte) header {
	return header{
		key:           int16(binary.BigEndian.Uint16(b)),
		version:       int16(binary.BigEndian.Uint16(b[2:])),
		correlationID: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// parseRequest reads one whole frame (without its length). supported says
// whether the handler serves the key and version; when it returns ok = false
// the request goes to Handler.Refuse, with a Body if kmsg could read one.
// lastClientID is returned again, without an allocation, when it is the same.
func parseRequest(frame []byte, lastClientID string, supports func(key, version int16) bool) (req *Request, ok bool, err error) {
	if len(frame) < minFrame {
		return nil, false, fmt.Errorf("%w: %d bytes are no request header", ErrFrame, len(frame))
	}
	h := readHeader(frame)
	req = &Request{Key: h.key, Version: h.version, CorrelationID: h.correlationID}
	ok = supports(h.key, h.version)
	body := kmsg.RequestForKey(h.key)
	if body == nil || h.version < 0 || h.version > body.MaxVersion() {
		// A later version than kmsg's: its header may have any shape, so only
		// the fixed part is used. KIP-511 answers ApiVersions like that.
		req.flexible = false
		return req, false, nil
	}
	body.SetVersion(h.version)
	req.flexible = body.IsFlexible() && h.key != keyAPIVersions
	rest := frame[minFrame:]
	if h.key != keyControlledShutdown || h.version > 0 {
		if rest, err = readClientID(rest, lastClientID, &req.ClientID); err != nil {
			return nil, false, err
		}
	}
	if body.IsFlexible() {
		if rest, err = skipTags(rest); err != nil {
			return nil, false, err
		}
	}
	if h.key == keyProduce {
		if err := checkProduce(rest, h.version); err != nil {
			return nil, false, err
		}
	}
	if err := body.ReadFrom(rest); err != nil {
		if !ok {
			return req, false, nil
		}
		return nil, false, fmt.Errorf("%w: %s v%d: %w", ErrFrame, kmsg.NameForKey(h.key), h.version, err)
	}
	req.Body = body
	return req, ok, nil
}

func readClientID(b []byte, last string, into *string) (rest []byte, err error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: no client id", ErrFrame)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n < 0:
		return b, nil
	case n > len(b):
		return nil, fmt.Errorf("%w: a client id of %d bytes in %d", ErrFrame, n, len(b))
	case string(b[:n]) == last:
		*into = last
	default:
		*into = string(b[:n])
	}
	return b[n:], nil
}

func skipTags(b []byte) ([]byte, error) {
	bad := fmt.Errorf("%w: header tags", ErrFrame)
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, bad
	}
	b = b[n:]
	for ; count > 0; count-- {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, bad
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, bad
		}
		b = b[n+int(size):]
	}
	return b, nil
}
