package wire

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// frame is a request header with a client id and whatever follows.
func frame(key, version int16, rest ...byte) []byte {
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 77)
	b = append(b, rest...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestFramesThatCannotBeRead(t *testing.T) {
	h := start(t, Options{MaxRequestBytes: 1 << 20, MaxOtherRequestBytes: 1 << 10}, echo)
	for name, raw := range map[string][]byte{
		"negative size":               {0xff, 0xff, 0xff, 0xff},
		"zero size":                   {0, 0, 0, 0},
		"shorter than a header":       {0, 0, 0, 7, 0, 3, 0, 1, 0, 0, 0},
		"an HTTP request":             []byte("GET / HTTP/1.1\r\n\r\n"),
		"huge size":                   {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9},
		"large for a metadata":        {0, 0, 8, 0, 0, 3, 0, 1, 0, 0, 0, 1},
		"client id beyond the end":    frame(3, 1, 0x7f, 0xff, 'x'),
		"no client id":                frame(3, 1),
		"body cut off":                frame(3, 1, 0xff, 0xff, 0, 0),
		"list longer than the frame":  frame(3, 1, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff),
		"header tags beyond the end":  frame(3, 9, 0xff, 0xff, 1, 0, 0x7f),
		"more tags than bytes":        frame(3, 9, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"a version that nobody knows": frame(3, 99),
	} {
		t.Run(name, func(t *testing.T) {
			c := h.dial()
			require.NoError(t, c.SendRaw(raw))
			requireClosed(t, c)
		})
	}
	_, err := h.dial().Do(metadata(1))
	require.NoError(t, err)
}

func TestWhatCameBeforeABadFrameIsAnswered(t *testing.T) {
	h := start(t, Options{}, echo)
	c := h.dial()
	good := c.Frame(metadata(1))
	require.NoError(t, c.SendRaw(append(good, 0xff, 0xff, 0xff, 0xff)))
	_, _, err := c.RecvRaw()
	require.NoError(t, err)
	requireClosed(t, c)
}

func TestU6_UnknownKeysAreAnswered35(t *testing.T) {
	h := start(t, Options{}, echo)
	c := h.dial()
	require.NoError(t, c.SendRaw(frame(9999, 0, 1, 2, 3)))
	id, rest, err := c.RecvRaw()
	require.NoError(t, err)
	require.EqualValues(t, 77, id)
	require.Equal(t, []byte{0, 35}, rest)

	resp, err := c.Do(kmsg.NewPtrDescribeClusterRequest()) // kmsg knows it, the handler does not
	require.NoError(t, err)
	require.EqualValues(t, 35, resp.(*kmsg.DescribeClusterResponse).ErrorCode)
	_, err = c.Do(metadata(1))
	require.NoError(t, err, "the connection stays")
}

func TestKIP511_ApiVersionsOfTheFuture(t *testing.T) {
	h := start(t, Options{}, echo)
	c := h.dial()
	for _, version := range []int16{99, -1} {
		require.NoError(t, c.SendRaw(frame(18, version, 0xde, 0xad)))
		_, rest, err := c.RecvRaw()
		require.NoError(t, err)
		resp := kmsg.NewPtrApiVersionsResponse()
		require.NoError(t, resp.ReadFrom(rest))
		require.EqualValues(t, 35, resp.ErrorCode)
		require.Len(t, resp.ApiKeys, 1)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(3)
	_, err := c.Do(req)
	require.NoError(t, err, "flexible body, but the header of version 0")
}

func TestOptionsNameEveryFault(t *testing.T) {
	err := Options{MaxInFlight: -1, IdleTimeout: -1, ProduceBytes: 10, Listeners: []ListenerOptions{{Name: "A"}, {Name: "A"}, {}}}.Validate()
	for _, want := range []string{"MaxInFlight", "IdleTimeout", "ProduceBytes", "two listeners", "no name"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Options{Listeners: []ListenerOptions{{Name: "A"}}}.Validate())
}

func FuzzFrame(f *testing.F) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if req := kmsg.RequestForKey(key); req != nil {
			for _, v := range []int16{0, req.MaxVersion()} {
				req.SetVersion(v)
				f.Add(format.AppendRequest(nil, req, 1)[4:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		req, ok, err := parseRequest(frame, "fuzz", func(int16, int16) bool { return true })
		if err != nil {
			require.True(t, errors.Is(err, ErrFrame) && req == nil && !ok)
			return
		}
		require.Equal(t, ok, req.Body != nil)
		if ok {
			req.Body.ResponseKind().AppendTo(nil)
		}
		Unsupported(req)
	})
}

func BenchmarkParseProduce(b *testing.B) {
	fr := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, produce(-1, make([]byte, 64<<10)), 1)[4:]
	b.ReportAllocs()
	b.SetBytes(int64(len(fr)))
	for b.Loop() {
		if _, _, err := parseRequest(fr, "bench", func(int16, int16) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}
