package s3proxy

import (
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Match selects requests; empty fields match all.
type Match struct {
	Verb  string // GET, PUT, …
	Path  string // regular expression on /bucket/key
	Query string // the raw query contains it: "uploadId=", "list-type=2"; "-" means that there is no query
}

func (m Match) fits(r *http.Request) bool {
	if m.Verb != "" && m.Verb != r.Method {
		return false
	}
	if m.Path != "" && !regexp.MustCompile(m.Path).MatchString(r.URL.Path) {
		return false
	}
	if m.Query == "-" {
		// The SDK names every operation in x-id, which selects nothing.
		return strings.TrimLeft(regexp.MustCompile(`x-id=\w*`).ReplaceAllString(r.URL.RawQuery, ""), "&") == ""
	}
	return strings.Contains(r.URL.RawQuery, m.Query)
}

// Rule is what happens to the requests that it matches. Delay comes first, then the first of the others that is set; a
// rule with none of them forwards.
type Rule struct {
	Match
	Skip  int // let the first so many pass to later rules
	Times int // act on so many; 0: on all

	Delay    time.Duration // before anything else
	ReadBody int64         // read so many bytes of the request's body before a Status, Drop or Hang; -1: all

	// The request does not reach the store:
	Status int         // answer it, with Code in S3's XML
	Code   string      // SlowDown, InternalError, …
	Header http.Header // with Status or Edit, added to the answer
	Drop   bool        // reset the connection
	Hang   bool        // say nothing until the client goes away or the proxy is closed
	// Refuse answers the request with its status and code, unless the status is 0.
	Refuse func(*http.Request) (status int, code string)

	// The store carries the request out:
	LoseReply  bool                 // then the connection is reset
	CutBody    int64                // only so many bytes of the answer's body come (at least 1), then a reset; Content-Length says all
	CutChunked int64                // only so many come (at least 1), without a length, as if that were all
	Edit       func(*http.Response) // changes the answer
	Before     func()               // runs before the request is forwarded

	// Rate lets so many requests pass in a second, and a burst of as many; the others get 503 SlowDown with Header.
	Rate float64
}

// armed is a rule with its state, guarded by Proxy.mu.
type armed struct {
	Rule
	seen, acted int
	tokens      float64
	filled      time.Time
}

// takes says whether the rule acts on the request and notes it.
func (a *armed) takes(r *http.Request, now time.Time) bool {
	if !a.fits(r) {
		return false
	}
	a.seen++
	if a.seen <= a.Skip || a.Times > 0 && a.acted >= a.Times {
		return false
	}
	if a.Rate > 0 {
		a.tokens = min(a.Rate, a.tokens+a.Rate*now.Sub(a.filled).Seconds())
		a.filled = now
		if a.tokens >= 1 {
			a.tokens--
			return false
		}
	}
	a.acted++
	return true
}
