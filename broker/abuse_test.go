package broker_test

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// H2, KIP-511: ApiVersions is answered in any version, at any place of a connection; one that nobody knows is answered
// in the form of version 0 with error 35 and the range of ApiVersions, and the connection goes on.
func TestH2_KIP511_ApiVersionsInAnyVersion(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	for range 2 {
		for _, version := range []int16{0, 1, 2, 3, 4, 5, 99, -1, 32767} {
			frame := binary.BigEndian.AppendUint16(nil, 18)
			frame = binary.BigEndian.AppendUint16(frame, uint16(version))
			frame = append(frame, 0, 0, 0, 9, 0, 1, 'x')
			if version >= 3 {
				frame = append(frame, 0, 2, 'a', 2, '1', 0) // header tags, software name and version, body tags
			}
			require.NoError(t, c.SendRaw(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)))
			id, raw, err := c.RecvRaw()
			require.NoError(t, err)
			require.EqualValues(t, 9, id)
			resp := kmsg.NewPtrApiVersionsResponse()
			if version >= 0 && version <= 4 {
				resp.SetVersion(version)
				require.NoError(t, resp.ReadFrom(raw))
				require.Zero(t, resp.ErrorCode)
				require.Greater(t, len(resp.ApiKeys), 20)
				continue
			}
			require.NoError(t, resp.ReadFrom(raw))
			require.EqualValues(t, 35, resp.ErrorCode)
			i := slices.IndexFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == 18 })
			require.Equal(t, []int16{0, 4}, []int16{resp.ApiKeys[i].MinVersion, resp.ApiKeys[i].MaxVersion})
		}
		require.Zero(t, ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Version: 9}).ErrorCode)
	}
}

// Connections that pour in acks=0 produces, good ones, refused ones and rubbish, disturb no other: each of its requests
// is answered, in order, and what it wrote stands where it was told.
func TestAcksZeroStreamsDisturbNobody(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{Env: []string{"TIDEMARK_LOG_LEVEL=error"}})
	quiet := dial(t, n)
	quiet.create("stream", 1, nil)
	quiet.create("quiet", 1, nil)
	bad := batchOf(1, record.CodecNone, "x")
	bad[len(bad)-1] ^= 1
	stop := make(chan struct{})
	var pouring sync.WaitGroup
	for i := range 6 {
		frame := [][]byte{
			quiet.Frame(produceRequest("stream", 0, 0, batchOf(10, record.CodecNone, "value"))),
			quiet.Frame(produceRequest("stream", 0, 0, bad)),
			quiet.Frame(produceRequest("nowhere", 7, 0, bad)),
		}[i%3]
		pouring.Go(func() {
			for {
				c := dial(t, n) // a refused acks=0 produce closes its connection
				for c.SendRaw(frame) == nil {
					select {
					case <-stop:
						_ = c.Close()
						return
					default:
					}
				}
				_ = c.Close()
			}
		})
	}
	for i := range 150 {
		p := quiet.produce("quiet", 0, batchOf(1, record.CodecNone, "mine"))
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.BaseOffset)
	}
	close(stop)
	pouring.Wait()
	require.Zero(t, panics(t, n))
}
