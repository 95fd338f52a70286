package replay

import (
	"bytes"
	"regexp"

	"tidemark/record"
)

// Filter says which records are copied; the zero value takes all. What is set must all hold.
type Filter struct {
	Keys      [][]byte       // the key is one of them
	KeyPrefix []byte         // the key begins so
	KeyRegexp *regexp.Regexp // it matches somewhere in the key
	Headers   []HeaderMatch  // there is such a header, for each
	// FromMs and UntilMs bound the timestamp, [FromMs, UntilMs); 0 does not.
	FromMs, UntilMs int64
}

// HeaderMatch wants a header with the name and, unless Value is nil, the value.
type HeaderMatch struct {
	Name  string
	Value *string
}

// Everything reports whether the filter takes all records.
func (f *Filter) Everything() bool {
	return f.Keys == nil && f.KeyPrefix == nil && f.KeyRegexp == nil && f.Headers == nil && f.FromMs == 0 && f.UntilMs == 0
}

// Match reports whether a record is copied. A record without a key has none of the keys.
func (f *Filter) Match(r record.Record) bool {
	if f.FromMs != 0 && r.Timestamp < f.FromMs || f.UntilMs != 0 && r.Timestamp >= f.UntilMs {
		return false
	}
	return f.matchKey(r.Key) && f.matchHeaders(r.Headers)
}

func (f *Filter) matchKey(key []byte) bool {
	if key == nil {
		return f.Keys == nil && f.KeyPrefix == nil && f.KeyRegexp == nil
	}
	if f.KeyPrefix != nil && !bytes.HasPrefix(key, f.KeyPrefix) || f.KeyRegexp != nil && !f.KeyRegexp.Match(key) {
		return false
	}
	for _, k := range f.Keys {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return f.Keys == nil
}

func (f *Filter) matchHeaders(hs record.Headers) bool {
	for _, want := range f.Headers {
		found := false
		for h := range hs.All() {
			if string(h.Key) == want.Name && (want.Value == nil || string(h.Value) == *want.Value) {
				found = true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}
