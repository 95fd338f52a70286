package storefaults

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/s3proxy"
	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/objstoretest"
	"tidemark/tiering/objstore/remote"
)

// fussy is what some S3-like stores answer to the SDKs' own checksums.
func fussy(r *http.Request) (int, string) {
	if r.Header.Get("X-Amz-Trailer") != "" || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") || r.Header.Get("X-Amz-Sdk-Checksum-Algorithm") != "" {
		return http.StatusBadRequest, "NotImplemented"
	}
	return 0, ""
}

// J1: no operation needs trailers, chunked signatures or the store's checksums, and a wrong one in a reply is nobody's
// concern.
func TestJ1_StoresThatRejectOrMangleChecksums(t *testing.T) {
	for name, rule := range map[string]s3proxy.Rule{
		"rejects": {Refuse: fussy},
		"mangles": {Edit: func(r *http.Response) { r.Header.Set("X-Amz-Checksum-Crc32", "AAAAAA==") }},
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(r *rig) {
				t := r.T
				r.proxy.Add(rule)
				for key, size := range map[string]int{"empty": 0, "one": mib, "parts": 11 * mib} {
					r.requireStored(key, r.mustPut(key, size))
				}
				all, err := r.List(t.Context(), "", "", 10)
				require.NoError(t, err)
				require.Len(t, all, 3)
				require.NoError(t, r.Delete(t.Context(), "parts"))
			})
		})
	}
}

// J2: nothing above the multipart size sends a trailer either.
func TestJ2_MultipartSendsNoTrailer(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.mustPut("parts", 11*mib)
		require.Equal(t, 3, r.proxy.Count(s3proxy.Match{Verb: "PUT", Query: "partNumber="}))
		for _, seen := range r.proxy.Requests(s3proxy.Match{}) {
			require.Empty(t, seen.Header.Values("X-Amz-Trailer"))
			require.Empty(t, seen.Header.Values("X-Amz-Sdk-Checksum-Algorithm"))
			require.NotContains(t, seen.Header.Get("X-Amz-Content-Sha256"), "STREAMING")
		}
	})
}

// J4: a bucket that demands an integrity header works with the switch on.
func TestJ4_BucketThatDemandsChecksums(t *testing.T) {
	demand := s3proxy.Rule{Match: s3proxy.Match{Verb: "PUT"}, Refuse: func(r *http.Request) (int, string) {
		if r.Header.Get("Content-Md5") == "" && r.Header.Get("X-Amz-Checksum-Crc32c") == "" {
			return http.StatusBadRequest, "InvalidRequest"
		}
		return fussy(r)
	}}
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(demand)
		require.ErrorIs(t, r.put("k", []byte("x")), objstore.ErrRefused)
	})
	eachDriverWith(t, small(), "&checksums=true", func(r *rig) {
		r.proxy.Add(demand)
		for key, size := range map[string]int{"empty": 0, "one": mib, "parts": 11 * mib} {
			r.requireStored(key, r.mustPut(key, size))
		}
	})
}

// J5: every attempt sends the whole body again, of a single put and of every part.
func TestJ5_RetriesSendAFreshBody(t *testing.T) {
	for name, rule := range map[string]s3proxy.Rule{
		"503 after half the body": {Status: 503, Code: "SlowDown", ReadBody: mib / 2},
		"reset after one byte":    {Drop: true, ReadBody: 1},
		"500 at the end":          {Status: 500, Code: "InternalError", ReadBody: -1},
		"lost reply":              {LoseReply: true},
		"damaged on the way":      {Status: 400, Code: "BadDigest", ReadBody: -1},
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(r *rig) {
				for key, size := range map[string]int{"single": 3 * mib, "parts": 12 * mib} {
					r.proxy.Clear()
					rule := rule
					rule.Match, rule.Times = s3proxy.Match{Verb: "PUT"}, 1
					if key == "parts" {
						rule.Skip, rule.Times = 1, 2 // the second part, twice
					}
					r.proxy.Add(rule)
					r.requireStored(key, r.mustPut(key, size))
				}
			})
		})
	}
}

// C11, J6: a body that ends early is resumed behind what came, with If-Match; what never fits is an error.
func TestC11_J6_CutAndWrongRanges(t *testing.T) {
	get := s3proxy.Match{Verb: "GET", Path: "/k$"}
	whole := func(r *http.Response) { // as a store that does not know ranges
		r.StatusCode = http.StatusOK
		r.Header.Del("Content-Range")
	}
	shorter := func(r *http.Response) { r.Header.Set("Content-Range", "bytes 1000-1999/3145728") }
	for _, c := range []struct {
		name  string
		rule  s3proxy.Rule
		times int
		want  error
	}{
		{"cut with full length", s3proxy.Rule{CutBody: mib / 2}, 1, nil},
		{"cut with full length, again and again", s3proxy.Rule{CutBody: mib / 2}, 3, nil},
		{"cut without length", s3proxy.Rule{CutChunked: mib / 2}, 1, nil},
		{"cut at the first byte", s3proxy.Rule{CutBody: 1}, 1, nil},
		{"always cut", s3proxy.Rule{CutBody: 1}, 0, errAny},
		{"500 once", s3proxy.Rule{Status: 500}, 1, nil},
		{"whole object once", s3proxy.Rule{Edit: whole}, 1, nil},
		{"whole object always", s3proxy.Rule{Edit: whole}, 0, objstore.ErrBadReply},
		{"another range once", s3proxy.Rule{Edit: shorter}, 1, nil},
		{"another range always", s3proxy.Rule{Edit: shorter}, 0, objstore.ErrBadReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDriver(t, func(r *rig) {
				t := r.T
				data := r.mustPut("k", 3*mib)
				rule := c.rule
				rule.Match, rule.Times = get, c.times
				r.proxy.Add(rule)
				got := make([]byte, mib)
				err := r.ReadRange(t.Context(), "k", 1000, got)
				switch {
				case c.want == nil:
					require.NoError(t, err)
					require.Equal(t, data[1000:1000+mib], got)
				case errors.Is(c.want, errAny):
					require.Error(t, err)
				default:
					require.ErrorIs(t, err, c.want)
				}
				require.LessOrEqual(t, r.proxy.Count(get), 4)
				if strings.HasPrefix(c.name, "cut with full length") {
					for _, seen := range r.proxy.Requests(get)[1:] {
						require.NotEmpty(t, seen.Header.Get("If-Match"))
						require.NotContains(t, seen.Header.Get("Range"), "bytes=1000-")
					}
				}
			})
		})
	}
}

var errAny = errors.New("any error")

// C11: an object that was replaced while a read was resumed gives an error, never a mixture.
func TestC11_ResumeNeverMixesTwoObjects(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.mustPut("k", mib)
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "GET"}, Times: 1, CutBody: 1000})
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "GET"}, Times: 1, Before: func() {
			_, err := r.direct().PutObject(t.Context(), r.srv.Bucket, "pre/k", strings.NewReader(strings.Repeat("x", mib)), mib, "", "", minioPut)
			require.NoError(t, err)
		}})
		require.ErrorIs(t, r.ReadRange(t.Context(), "k", 0, make([]byte, mib)), objstore.ErrRefused)
	})
}

// J7: a source that shrinks during the upload fails at once.
func TestJ7_ShrinkingSource(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		for key, size := range map[string]int64{"single": 3 * mib, "parts": 12 * mib} {
			path := filepath.Join(t.TempDir(), "segment")
			require.NoError(t, os.WriteFile(path, objstoretest.Random(int(size)), 0o644))
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			src := objstore.Source{ReaderAt: f, Size: size}
			opts := putOptions()
			if key == "single" {
				src.SHA256[0] = 1 // known beforehand, so that the source is read only while it is sent
				require.NoError(t, os.Truncate(path, size-1000))
			} else {
				opts.OnUpload = func(context.Context, string) error { return os.Truncate(path, size-1000) }
			}
			r.proxy.Forget()
			err = r.Put(t.Context(), key, src, opts)
			require.ErrorIs(t, err, objstore.ErrSource)
			require.LessOrEqual(t, r.proxy.Count(s3proxy.Match{Verb: "PUT"}), 3)
			_, err = r.Stat(t.Context(), key)
			require.ErrorIs(t, err, objstore.ErrNotFound)
			require.Empty(t, r.unfinished())
		}
	})
}

// J10: nothing is sent with a condition; a lost reply and a 409 are tried again.
func TestJ10_NoConditionalPut(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "PUT"}, Times: 1, LoseReply: true})
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "PUT"}, Times: 1, Status: 409, Code: "ConditionalRequestConflict", ReadBody: -1})
		r.requireStored("k", r.mustPut("k", mib))
		for _, seen := range r.proxy.Requests(s3proxy.Match{}) {
			require.Empty(t, seen.Header.Get("If-None-Match"))
		}
	})
}

// J13: whatever a key may hold is signed as it is sent.
func TestJ13_KeysAreSignedAsSent(t *testing.T) {
	eachDriver(t, func(r *rig) {
		for _, key := range []string{"a.b-c_d/0/x", "..x/y..", "-/_/.a", strings.Repeat("k", 200)} {
			r.requireStored(key, r.mustPut(key, 10))
		}
	})
}

// J15: an ETag is an opaque text.
func TestJ15_ETagsAreOpaque(t *testing.T) {
	var n atomic.Int64
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Query: "-"}, Edit: func(resp *http.Response) {
			if n.Add(1); resp.Header.Get("ETag") != "" {
				resp.Header.Set("ETag", `"not+a/hash:`+strings.Repeat("x", int(n.Load()%50))+`"`)
			}
		}})
		data := r.mustPut("k", 2*mib)
		r.requireStored("k", data)
		require.NoError(t, r.Delete(t.Context(), "k"))
	})
}

// L6, J10: throttling is told with what the store asked for, and not answered with more requests.
func TestL6_ThrottlingIsReportedAtOnce(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.mustPut("k", 10)
		r.proxy.Forget()
		r.proxy.Add(s3proxy.Rule{Status: 503, Code: "SlowDown", Header: http.Header{"Retry-After": {"5"}}})
		for op, call := range map[string]func() error{
			"put":    func() error { return r.Put(t.Context(), "l", objstore.Bytes([]byte("x")), objstore.PutOptions{}) },
			"get":    func() error { return r.ReadRange(t.Context(), "k", 0, make([]byte, 5)) },
			"stat":   func() error { _, err := r.Stat(t.Context(), "k"); return err },
			"delete": func() error { return r.Delete(t.Context(), "k") },
			"list":   func() error { _, err := r.List(t.Context(), "k", "", 1); return err },
		} {
			err := call()
			require.ErrorIs(t, err, objstore.ErrThrottled)
			require.Equal(t, 5*time.Second, objstore.RetryAfter(err))
			require.ErrorContains(t, err, op+" ")
		}
		require.Equal(t, 5, r.proxy.Count(s3proxy.Match{}))
	})
}

// L6: with a real token bucket in between, many uploads all arrive.
func TestL6_UploadsArriveThroughATokenBucket(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Rate: 100})
		const uploads = 150
		l := objstore.NewLimiter(objstore.LimiterOptions{})
		errs := make(chan error, uploads)
		for i := range uploads {
			go func() {
				errs <- l.For(objstore.Upload, r).Put(context.Background(), "k/"+strings.Repeat("x", i+1), objstore.Bytes([]byte("x")), objstore.PutOptions{})
			}()
		}
		for range uploads {
			require.NoError(t, <-errs)
		}
		r.proxy.Clear()
		all, err := r.List(t.Context(), "k/", "", 1000)
		require.NoError(t, err)
		require.Len(t, all, uploads)
	})
}

// B20: requests that run into their deadline are tried again on new connections; idle ones are kept otherwise.
func TestB20_TimedOutConnectionIsNotReused(t *testing.T) {
	eachDriver(t, func(r *rig) {
		data := r.mustPut("k", 1000)
		r.proxy.Forget()
		for range 20 {
			r.requireStored("k", data)
		}
		require.Zero(r, r.proxy.Conns(), "the first connection serves all")
	})
	opts := small()
	opts.Timeout = time.Second
	eachDriverWith(t, opts, "", func(r *rig) {
		t := r.T
		data := r.mustPut("k", 1000)
		r.proxy.Forget()
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "GET"}, Times: 1, Hang: true})
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "GET"}, Times: 1, Delay: 2 * opts.Timeout}) // a late reply
		r.requireStored("k", data)
		require.GreaterOrEqual(t, r.proxy.Conns(), 2)
	})
}

// Deadlines of its own bound each attempt, and the caller's context ends a call at once.
func TestR14_HangingStore(t *testing.T) {
	opts := small()
	opts.Timeout, opts.MinRate = 300*time.Millisecond, 1<<30
	eachDriverWith(t, opts, "", func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Hang: true})
		err := r.ReadRange(t.Context(), "k", 0, make([]byte, 10))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no end within")
		require.ErrorContains(t, err, "after 4 attempts")
		err = r.Put(t.Context(), "k", objstore.Bytes([]byte("x")), objstore.PutOptions{})
		require.True(t, objstore.Unclear(err))
	})
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Hang: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		require.ErrorIs(t, r.ReadRange(ctx, "k", 0, make([]byte, 10)), context.Canceled)
	})
}

// R9: what may be stored says so, what cannot be does not.
func TestR9_UnclearOutcomes(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		put := func() error {
			return r.Put(t.Context(), "k", objstore.Bytes([]byte("x")), objstore.PutOptions{})
		}
		for _, c := range []struct {
			name    string
			rules   []s3proxy.Rule
			unclear bool
		}{
			{"replies lost", []s3proxy.Rule{{LoseReply: true}}, true},
			{"500", []s3proxy.Rule{{Status: 500}}, true},
			{"denied", []s3proxy.Rule{{Status: 403, Code: "AccessDenied"}}, false},
			{"reply lost, then denied", []s3proxy.Rule{{Times: 1, LoseReply: true}, {Status: 403, Code: "AccessDenied"}}, true},
		} {
			r.proxy.Clear()
			for _, rule := range c.rules {
				r.proxy.Add(rule)
			}
			err := put()
			require.Error(t, err, c.name)
			require.Equal(t, c.unclear, objstore.Unclear(err), c.name)
		}
		r.proxy.Close()
		require.NoError(t, r.Close()) // an idle connection that turns out dead would be unclear
		require.False(t, objstore.Unclear(put()), "no connection")
	})
}

// A missing bucket or a wrong key is not a missing object.
func TestWrongBucketAndWrongCredentials(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Status: 404, Code: "NoSuchBucket"})
		err := r.ReadRange(t.Context(), "k", 0, make([]byte, 1))
		require.ErrorIs(t, err, objstore.ErrRefused)
		require.NotErrorIs(t, err, objstore.ErrNotFound)
		require.ErrorIs(t, r.Delete(t.Context(), "k"), objstore.ErrRefused)
	})
	srv := testenv.S3(t)
	srv.SecretKey = "wrong"
	for _, driver := range []string{"s3", "minio"} {
		s := openDriver(t, driver, strings.TrimPrefix(srv.Endpoint, "http://"), srv, "", remote.Options{})
		require.ErrorIs(t, s.Put(t.Context(), "k", objstore.Bytes([]byte("x")), objstore.PutOptions{}), objstore.ErrDenied)
		require.NoError(t, s.Close())
	}
}
