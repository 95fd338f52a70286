package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/tiering/objstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckRange(t *testing.T) {
	for header, want := range map[string]error{
		"bytes 100-199/1000":  nil,
		"bytes 100-199/*":     nil,
		"":                    objstore.ErrBadReply,
		"bytes 100-198/1000":  objstore.ErrBadReply,
		"bytes 99-198/1000":   objstore.ErrBadReply,
		"bytes 100-149/150":   objstore.ErrRange,
		"bytes */50":          objstore.ErrBadReply,
		"items 100-199/1000":  objstore.ErrBadReply,
		"bytes 100-199":       objstore.ErrBadReply,
		"bytes 100-1x99/1000": objstore.ErrBadReply,
	} {
		err := checkRange(header, 100, 100)
		if want == nil {
			require.NoError(t, err, header)
		} else {
			require.ErrorIs(t, err, want, header)
		}
	}
}

func FuzzParseContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-6/*", "bytes -1--2/3", "", "bytes", "bytes 1-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, total, ok := parseContentRange(s)
		if !ok {
			return
		}
		again := fmt.Sprintf("bytes %d-%d/%d", first, last, total)
		if total == -1 {
			again = fmt.Sprintf("bytes %d-%d/*", first, last)
		}
		f2, l2, t2, ok2 := parseContentRange(again)
		if total >= -1 && first >= 0 && last >= 0 && (!ok2 || f2 != first || l2 != last || t2 != total) {
			t.Fatalf("%q gave %d %d %d, again %d %d %d %v", s, first, last, total, f2, l2, t2, ok2)
		}
	})
}

// An HTTP client that still reads after the attempt is over gets nothing of a source that the caller has back.
func TestDetachedBodyReadsNothing(t *testing.T) {
	b := newBody(objstore.Bytes([]byte("0123456789")), 2, 5)
	p := make([]byte, 3)
	_, err := io.ReadFull(b, p)
	require.NoError(t, err)
	require.Equal(t, "234", string(p))
	require.NoError(t, b.detach())
	_, err = b.Read(p)
	require.ErrorIs(t, err, errDetached)
}

func TestBodySeeksAndEnds(t *testing.T) {
	b := newBody(objstore.Bytes([]byte("0123456789")), 2, 5)
	end, err := b.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, 5, end)
	_, err = b.Seek(1, io.SeekStart)
	require.NoError(t, err)
	rest, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "3456", string(rest))
	_, err = b.Seek(6, io.SeekStart)
	require.Error(t, err)
	short := newBody(objstore.Source{ReaderAt: strings.NewReader("01"), Size: 5}, 0, 5)
	_, err = io.ReadAll(short)
	require.ErrorIs(t, err, objstore.ErrSource)
	require.ErrorIs(t, short.detach(), objstore.ErrSource)
}

func TestRetryAfter(t *testing.T) {
	require.Equal(t, 7*time.Second, parseRetryAfter("7"))
	require.Greater(t, parseRetryAfter(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)), 30*time.Second)
	for _, s := range []string{"", "-1", "soon", "99999999999"} {
		require.Zero(t, parseRetryAfter(s), s)
	}
}

// Which failures are worth another attempt, and after which the operation may have been done.
func TestFailuresAreSorted(t *testing.T) {
	for _, c := range []struct {
		status       int
		code         string
		again, mayBe bool
		want         error
	}{
		{0, "", true, true, nil},
		{200, "InternalError", true, true, nil},
		{500, "InternalError", true, true, nil},
		{503, "", false, true, objstore.ErrThrottled},
		{429, "", false, false, objstore.ErrThrottled},
		{400, "SlowDown", false, false, objstore.ErrThrottled},
		{400, "RequestTimeout", true, false, nil},
		{409, "OperationAborted", true, false, nil},
		{403, "AccessDenied", false, false, objstore.ErrDenied},
		{404, "NoSuchKey", false, false, objstore.ErrNotFound},
		{404, "", false, false, objstore.ErrNotFound},
		{404, "NoSuchBucket", false, false, objstore.ErrRefused},
		{404, "NoSuchBucket", false, false, objstore.ErrNoBucket},
		{301, "PermanentRedirect", false, false, objstore.ErrRefused},
		{416, "InvalidRange", false, false, objstore.ErrRange},
		{400, "InvalidArgument", false, false, objstore.ErrRefused},
	} {
		s := New(nil, nil, nil, Options{Code: func(error) string { return c.code }})
		cause := errors.New("cause")
		f := s.sort(t.Context(), cause, note{status: c.status})
		require.Equal(t, c.again, f.again, "%+v", c)
		require.Equal(t, c.mayBe, f.mayBeDone, "%+v", c)
		require.ErrorIs(t, f.err, cause)
		if c.want != nil {
			require.ErrorIs(t, f.err, c.want, "%+v", c)
		}
	}
}
