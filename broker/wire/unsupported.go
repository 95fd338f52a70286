package wire

import (
	"encoding/binary"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bareCode is the answer to a request of which only the fixed header can be
// read: two bytes of error code, which is how nearly every response begins
// for a client that asks for an API that does not exist.
type bareCode int16

func (b bareCode) Size() int { return 2 }

func (b bareCode) WriteTo(w *Writer) error {
	_, err := w.Write(binary.BigEndian.AppendUint16(nil, uint16(b)))
	return err
}

func (bareCode) Release() {}

// setErrorCode sets the response's own error code. Reflection is fine here:
// refusals are rare, and a table of 90 responses would have to be kept.
func setErrorCode(resp kmsg.Response, code int16) bool {
	f := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode")
	if !f.IsValid() || f.Kind() != reflect.Int16 {
		return false
	}
	f.SetInt(int64(code))
	return true
}
