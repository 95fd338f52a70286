package remote

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tidemark/tiering/objstore"
)

// URL is an object-store URL, taken apart with every fault named.
type URL struct {
	Host, Bucket, Prefix string
	query                url.Values
	text                 string
}

// bucketName is what every store allows, and what old buckets have: upper case and underscores.
var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

// ParseURL reads scheme://bucket/prefix or, where hostFirst, scheme://host/bucket/prefix. known are the query's
// parameters. Its errors are *objstore.URLError.
func ParseURL(u *url.URL, hostFirst bool, known ...string) (URL, error) {
	bad := func(format string, args ...any) (URL, error) {
		return URL{}, &objstore.URLError{URL: u.Redacted(), Problem: fmt.Sprintf(format, args...)}
	}
	out := URL{Host: u.Host, query: u.Query(), text: u.Redacted()}
	path := strings.Trim(u.Path, "/")
	if hostFirst {
		out.Bucket, out.Prefix, _ = strings.Cut(path, "/")
	} else {
		out.Host, out.Bucket, out.Prefix = "", u.Host, path
	}
	if hostFirst && out.Host == "" {
		return bad("no host; write %s://host:port/bucket/prefix", u.Scheme)
	}
	if out.Bucket == "" {
		return bad("no bucket; write %s", map[bool]string{true: u.Scheme + "://host:port/bucket/prefix", false: u.Scheme + "://bucket/prefix"}[hostFirst])
	}
	if !bucketName.MatchString(out.Bucket) {
		return bad("%q cannot name a bucket; a name has 3 to 63 of A-Z a-z 0-9 . _ -, and begins and ends with a letter or digit", out.Bucket)
	}
	if out.Prefix != "" {
		if err := objstore.ValidateKey(out.Prefix); err != nil {
			return bad("prefix: %v", err)
		}
	}
	if u.User != nil {
		return bad("credentials do not belong into the URL; set the environment variables")
	}
	for name := range out.query {
		if !slices.Contains(known, name) {
			return bad("unknown parameter %q; known are %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// Text is a parameter's value, or def if it is absent.
func (u URL) Text(name, def string) string {
	if v := u.query.Get(name); v != "" {
		return v
	}
	return def
}

// Bool is a parameter's value, or def if it is absent; errors are *objstore.URLError.
func (u URL) Bool(name string, def bool) (bool, error) {
	v := u.query.Get(name)
	if v == "" {
		return def, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, &objstore.URLError{URL: u.text, Problem: fmt.Sprintf("%s=%q; write true or false", name, v)}
	}
	return b, nil
}
