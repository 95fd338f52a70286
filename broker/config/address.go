package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Listener is one named address.
type Listener struct {
	Name string // upper case, e.g. PLAINTEXT
	Host string // empty: all interfaces
	Port int    // 0: a free one
}

// Address is host:port.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

func (l Listener) String() string { return l.Name + "://" + l.Address() }

// Listeners is a list of named addresses; names are unique.
type Listeners []Listener

// UnmarshalText reads NAME://host:port, separated by commas. An empty text is the empty list.
func (ls *Listeners) UnmarshalText(text []byte) error {
	*ls = nil
	seen := map[string]bool{}
	for _, item := range strings.Split(string(text), ",") {
		item = strings.TrimSpace(item)
		if item == "" && len(text) == 0 {
			continue
		}
		l, err := parseListener(item)
		if err != nil {
			return err
		}
		if seen[l.Name] {
			return fmt.Errorf("two listeners are named %s", l.Name)
		}
		seen[l.Name] = true
		*ls = append(*ls, l)
	}
	return nil
}

func parseListener(item string) (Listener, error) {
	name, address, ok := strings.Cut(item, "://")
	if !ok || name == "" {
		return Listener{}, fmt.Errorf("%q is not NAME://host:port", item)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Listener{}, fmt.Errorf("%q has no host:port", item)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("%q: the port is not a number from 0 to 65535", item)
	}
	l := Listener{Name: strings.ToUpper(name), Host: host, Port: int(n)}
	for _, secured := range []string{"SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
		if l.Name == secured {
			return Listener{}, fmt.Errorf("%s listeners do not exist yet (docs/limits.md)", secured)
		}
	}
	return l, nil
}

func (ls Listeners) String() string {
	texts := make([]string, len(ls))
	for i, l := range ls {
		texts[i] = l.String()
	}
	return strings.Join(texts, ",")
}

// Named finds a listener by its name.
func (ls Listeners) Named(name string) (Listener, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

// StoreURL is the URL of a catalog or an object store. Printing and logging it leaves the password out; Reveal gives all.
type StoreURL struct{ u *url.URL }

// UnmarshalText parses a URL with a scheme; the error does not repeat the text, which may hold a password.
func (s *StoreURL) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		s.u = nil
		return nil
	}
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return errors.New("not a URL")
	}
	s.u = u
	return nil
}

// IsZero says that no URL was given.
func (s StoreURL) IsZero() bool { return s.u == nil }

// Scheme is the part before "://", in lower case; "" for the zero value.
func (s StoreURL) Scheme() string {
	if s.u == nil {
		return ""
	}
	return strings.ToLower(s.u.Scheme)
}

// URL gives a copy of the parsed URL, password included; nil for the zero value.
func (s StoreURL) URL() *url.URL {
	if s.u == nil {
		return nil
	}
	c := *s.u
	return &c
}

// Reveal gives the whole text, password included, for the driver that opens it.
func (s StoreURL) Reveal() string {
	if s.u == nil {
		return ""
	}
	return s.u.String()
}

// String is the URL with the password and secret-looking parameters replaced.
func (s StoreURL) String() string {
	if s.u == nil {
		return ""
	}
	c := *s.u
	q := c.Query()
	for key := range q {
		lower := strings.ToLower(key)
		if strings.Contains(lower, "pass") || strings.Contains(lower, "secret") || strings.Contains(lower, "token") {
			q.Set(key, "xxxxx")
			c.RawQuery = q.Encode()
		}
	}
	return c.Redacted()
}

func (s StoreURL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// GoString keeps the password out of %#v.
func (s StoreURL) GoString() string { return strconv.Quote(s.String()) }
