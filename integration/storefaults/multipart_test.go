package storefaults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"

	"tidemark/integration/s3proxy"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/objstoretest"
	"tidemark/tiering/objstore/remote"
)

var (
	minioPut = minio.PutObjectOptions{DisableContentSha256: true}
	complete = s3proxy.Match{Verb: "POST", Query: "uploadId="}
	parts    = s3proxy.Match{Verb: "PUT", Query: "partNumber="}
)

// J9: after a lost reply of Complete the object decides: ours (size and attempt id) is success, whatever the retry says.
func TestJ9_LostReplyOfComplete(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Match: complete, Times: 1, LoseReply: true})
		r.requireStored("k", r.mustPut("k", 6*mib))
		require.Empty(t, r.unfinished())
	})
}

// J9: an upload that somebody aborted is a failure, also where an older object of the same size stands under the key.
func TestJ9_AbortedBehindOurBack(t *testing.T) {
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older object %v", older), func(t *testing.T) {
			eachDriver(t, func(r *rig) {
				t := r.T
				if older {
					old := bytes.Repeat([]byte("o"), 6*mib)
					_, err := r.direct().PutObject(t.Context(), r.srv.Bucket, "pre/k", bytes.NewReader(old), 6*mib, "", "", minioPut)
					require.NoError(t, err)
				}
				var id string
				opts := putOptions()
				opts.OnUpload = func(_ context.Context, upload string) error { id = upload; return nil }
				r.proxy.Add(s3proxy.Rule{Match: complete, Before: func() {
					_ = r.direct().AbortMultipartUpload(t.Context(), r.srv.Bucket, "pre/k", id)
				}})
				err := r.Put(t.Context(), "k", objstore.Bytes(objstoretest.Random(6*mib)), opts)
				require.ErrorIs(t, err, objstore.ErrRefused)
				require.False(t, objstore.Unclear(err), "start again under a new key")
				require.Empty(t, r.unfinished())
			})
		})
	}
}

// J9: replies that stay lost, and an object that cannot be asked for, are unclear.
func TestJ9_UnclearCompleteSaysSo(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Match: complete, LoseReply: true})
		r.proxy.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: "HEAD"}, Drop: true})
		err := r.Put(t.Context(), "k", objstore.Bytes(objstoretest.Random(6*mib)), putOptions())
		require.Error(t, err)
		require.True(t, objstore.Unclear(err))
	})
}

// J11: parts of one size, the last not larger.
func TestJ11_EqualParts(t *testing.T) {
	opts := small()
	opts.SinglePutMax = 1
	const part = 5 * mib
	eachDriverWith(t, opts, "", func(r *rig) {
		t := r.T
		for _, size := range []int{0, 1, part, part + 1, 10 * part} {
			r.proxy.Forget()
			key := fmt.Sprintf("k%d", size)
			r.requireStored(key, r.mustPut(key, size))
			sent := r.proxy.Requests(parts)
			if size <= 1 {
				require.Empty(t, sent)
				continue
			}
			require.Len(t, sent, (size+part-1)/part)
			for _, s := range sent[:len(sent)-1] {
				require.EqualValues(t, part, s.Length)
			}
			require.LessOrEqual(t, sent[len(sent)-1].Length, int64(part))
		}
	})
}

// J14: whatever ends an upload, nothing is left of it: a cancelled context in the middle of a part, a refused part, a
// caller that could not record the id.
func TestJ14_NoUploadIsLeft(t *testing.T) {
	for name, run := range map[string]func(*rig) error{
		"cancelled in a part": func(r *rig) error {
			ctx, cancel := context.WithCancel(r.Context())
			r.proxy.Add(s3proxy.Rule{Match: parts, Skip: 1, Before: cancel})
			return r.Put(ctx, "k", objstore.Bytes(objstoretest.Random(16*mib)), putOptions())
		},
		"part refused": func(r *rig) error {
			r.proxy.Add(s3proxy.Rule{Match: parts, Skip: 1, Status: 400, Code: "InvalidPart"})
			return r.Put(r.Context(), "k", objstore.Bytes(objstoretest.Random(16*mib)), putOptions())
		},
		"complete refused": func(r *rig) error {
			r.proxy.Add(s3proxy.Rule{Match: complete, Status: 400, Code: "InvalidPart"})
			return r.Put(r.Context(), "k", objstore.Bytes(objstoretest.Random(6*mib)), putOptions())
		},
		"id not recorded": func(r *rig) error {
			opts := putOptions()
			opts.OnUpload = func(context.Context, string) error { return errors.New("catalog is away") }
			err := r.Put(r.Context(), "k", objstore.Bytes(objstoretest.Random(6*mib)), opts)
			require.ErrorContains(r, err, "catalog is away")
			require.Zero(r, r.proxy.Count(parts), "the id is recorded before any part is sent")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(r *rig) {
				t := r.T
				require.Error(t, run(r))
				require.Empty(t, r.unfinished())
				require.Equal(t, 2, r.proxy.Count(s3proxy.Match{Verb: "DELETE", Query: "uploadId="}), "aborted twice")
			})
		})
	}
}

// J14: what a killed process left is ended by the id that it recorded, twenty times over; unknown ids are a success.
func TestJ14_RecordedUploadsAreEndedByDelete(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		var ids []string
		for range 20 {
			id, err := r.direct().NewMultipartUpload(t.Context(), r.srv.Bucket, "pre/k", minio.PutObjectOptions{})
			require.NoError(t, err)
			_, err = r.direct().PutObjectPart(t.Context(), r.srv.Bucket, "pre/k", id, 1, strings.NewReader("part"), 4,
				minio.PutObjectPartOptions{DisableContentSha256: true})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		require.Len(t, r.unfinished(), 20)
		require.NoError(t, r.Delete(t.Context(), "k", ids...))
		require.Empty(t, r.unfinished())
		require.NoError(t, r.Delete(t.Context(), "k", ids[0]))
	})
}

// A large source needs what makes its upload findable.
func TestLargePutNeedsAttemptAndOnUpload(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		src := objstore.Bytes(make([]byte, 5*mib))
		require.ErrorIs(t, r.Put(t.Context(), "k", src, objstore.PutOptions{Attempt: "a"}), objstore.ErrRefused)
		require.Zero(t, r.proxy.Count(s3proxy.Match{}))
	})
}

// Throttled parts are waited for: the ones that were sent are worth it.
func TestThrottledPartIsSentAgain(t *testing.T) {
	eachDriver(t, func(r *rig) {
		t := r.T
		r.proxy.Add(s3proxy.Rule{Match: parts, Skip: 1, Times: 2, Status: 503, Code: "SlowDown", Header: http.Header{"Retry-After": {"0"}}})
		r.requireStored("k", r.mustPut("k", 11*mib))
		require.Equal(t, 1, r.proxy.Count(s3proxy.Match{Verb: "POST", Query: "uploads"}))
	})
}

// strangeETags gives each part another opaque ETag and demands it back.
type strangeETags struct {
	mu    sync.Mutex
	etags []string
}

func (u *strangeETags) Create(context.Context, string, string, bool) (string, error) {
	return "id", nil
}

func (u *strangeETags) Part(_ context.Context, _ string, n int, _ remote.PutRequest) (remote.Part, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.etags = append(u.etags, fmt.Sprintf(`"%d:%x not/a+hash"`, n, objstoretest.Random(8)))
	return remote.Part{Number: n, ETag: u.etags[n-1]}, nil
}

func (u *strangeETags) Complete(_ context.Context, _, _ string, parts []remote.Part) error {
	for i, p := range parts {
		if p.Number != i+1 || p.ETag != u.etags[i] {
			return fmt.Errorf("part %d: %s", i, p.ETag)
		}
	}
	return nil
}

func (u *strangeETags) Abort(context.Context, string, string) error { return errors.New("aborted") }

// J15: Complete names the parts by the ETags that the store gave, whatever they are.
func TestJ15_PartETagsAreEchoed(t *testing.T) {
	opts := small()
	opts.PartSize = 10
	opts.SinglePutMax = 1
	opts.Code = func(error) string { return "" }
	s := remote.New(ours{size: 101}, &strangeETags{}, remote.NewTransport(1, nil), opts)
	require.NoError(t, s.Put(t.Context(), "k", objstore.Bytes(objstoretest.Random(101)), putOptions()))
}

// ours has the object that was uploaded.
type ours struct {
	remote.Objects
	size int64
}

func (o ours) Head(context.Context, string) (remote.Head, error) {
	return remote.Head{Info: objstore.Info{Size: o.size}, Attempt: "attempt-1"}, nil
}
