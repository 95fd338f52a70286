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

// maxMirrored is how many entries a refusal names at most.
const maxMirrored = 10_000

// refused makes the response to req say code everywhere it can: for itself, and for
// each entry of the request that it has an entry for. False if it has no place for
// a code, or the request has too many entries. Reflection is fine here: refusals
// are rare, and a table of 90 responses would have to be kept.
func refused(req kmsg.Request, code int16) (kmsg.Response, bool) {
	resp := req.ResponseKind()
	m := mirror{code: int64(code)}
	m.fill(reflect.ValueOf(req).Elem(), reflect.ValueOf(resp).Elem())
	return resp, m.said && m.entries <= maxMirrored
}

// mirror goes through a request and its response.
type mirror struct {
	code    int64
	said    bool // there is a place for the code
	entries int
}

// fill sets out's code and, from the fields of in that have the same names, what
// out is about: its scalars and its lists.
func (m *mirror) fill(in, out reflect.Value) {
	if d, ok := out.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range out.NumField() {
		name, field := out.Type().Field(i).Name, out.Field(i)
		from := in.FieldByName(name)
		switch {
		case name == "ErrorCode" && field.Kind() == reflect.Int16:
			field.SetInt(m.code)
			m.said = true
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			m.list(from, field)
		case from.IsValid() && from.Type() == field.Type() && name != "Version" && name != "UnknownTags":
			field.Set(from)
		}
	}
}

// list gives out an entry for each of in's, which are structs, or numbers that name
// a partition.
func (m *mirror) list(in, out reflect.Value) {
	entry := out.Type().Elem()
	if !in.IsValid() || in.Kind() != reflect.Slice || in.Len() == 0 {
		m.fill(reflect.New(entry).Elem(), reflect.New(entry).Elem()) // is there a place at all?
		return
	}
	if m.entries += in.Len(); m.entries > maxMirrored {
		return
	}
	all := reflect.MakeSlice(out.Type(), in.Len(), in.Len())
	for i := range in.Len() {
		from, to := in.Index(i), all.Index(i)
		if from.Kind() == reflect.Struct {
			m.fill(from, to)
			continue
		}
		m.fill(reflect.New(entry).Elem(), to)
		if id := to.FieldByName("Partition"); id.IsValid() && id.Type() == from.Type() {
			id.Set(from)
		}
	}
	out.Set(all)
}
