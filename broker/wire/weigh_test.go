package wire

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/rawclient"
)

// swell gives each list of structs, strings or numbers in turn n empty entries and calls with.
func swell(v reflect.Value, n int, path string, with func(path string)) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() || f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		name := path + "." + v.Type().Field(i).Name
		f.Set(reflect.MakeSlice(f.Type(), n, n))
		with(name)
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		if f.Type().Elem().Kind() == reflect.Struct {
			swell(f.Index(0), n, name, with)
		}
		f.Set(reflect.Zero(f.Type()))
	}
}

// No request's lists cost more memory than they are weighed for, whatever their entries are.
func TestDecodingCostsNoMoreThanItsWeight(t *testing.T) {
	worst, where := 0.0, ""
	measure := func(name string, body kmsg.Request, fr []byte) {
		again := kmsg.RequestForKey(body.Key())
		again.SetVersion(body.GetVersion())
		if len(fr) < 1000 || checkProduceOf(again, fr) != nil {
			return // the version has no such list, or it is refused before
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = again.ReadFrom(fr)
		runtime.ReadMemStats(&after)
		if x := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(fr)); x > worst {
			worst, where = x, name
		}
		require.Less(t, float64(after.TotalAlloc-before.TotalAlloc), float64(decodeCost*len(fr)), name)
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := int16(0); version <= req.MaxVersion(); version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			swell(reflect.ValueOf(req).Elem(), 5000, kmsg.NameForKey(key), func(path string) {
				measure(path, req, req.AppendTo(nil))
			})
		}
		if req.SetVersion(req.MaxVersion()); req.IsFlexible() {
			fr := req.AppendTo(nil)
			measure(kmsg.NameForKey(key)+" tags", req, append(fr[:len(fr)-1], manyTags(5000)...))
		}
	}
	t.Logf("worst: %.1f bytes a byte, %s", worst, where)
}

func checkProduceOf(req kmsg.Request, body []byte) error {
	if req.Key() != keyProduce {
		return nil
	}
	return checkProduce(body, req.GetVersion())
}

func manyTags(n int) []byte {
	b := binary.AppendUvarint(nil, uint64(n))
	for i := range n {
		b = append(binary.AppendUvarint(b, uint64(1000+i)), 0)
	}
	return b
}

// bigProduce names n partitions of as many records bytes in topics of ten.
func bigProduce(version int16, n, records int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.TransactionID = kmsg.StringPtr("tx")
	for i := range n {
		if i%10 == 0 {
			req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "a-topic"})
		}
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(i), Records: make([]byte, records)})
	}
	return req
}

// Produces that bring records pass at any size, in every version; those that bring names only do not.
func TestProduceMayNameWhatItBringsRecordsFor(t *testing.T) {
	for version := int16(0); version <= kmsg.NewPtrProduceRequest().MaxVersion(); version++ {
		for _, n := range []int{0, 1, 200, 10_000} {
			require.NoError(t, checkProduce(bigProduce(version, n, 70).AppendTo(nil), version), "v%d, %d partitions", version, n)
		}
		hostile := bigProduce(version, 10_000, 0).AppendTo(nil)
		require.ErrorIs(t, checkProduce(hostile, version), ErrFrame, "v%d", version)
		for cut := range len(hostile) / 50 { // cut off anywhere: no panic
			_ = checkProduce(hostile[:50*cut], version)
		}
	}
	tagged := bigProduce(9, 1, 70).AppendTo(nil)
	require.ErrorIs(t, checkProduce(append(tagged[:len(tagged)-1], manyTags(5000)...), 9), ErrFrame)
	require.ErrorIs(t, checkProduce(bigProduce(9, maxEntries, 70).AppendTo(nil), 9), ErrFrame, "more than there are partitions")
}

// A frame of a million empty entries closes its connection or is decoded in its turn; others go on.
func TestR20_AMillionEmptyEntries(t *testing.T) {
	h := start(t, Options{OtherBytes: 8 << 20}, echo)
	produce := h.dial()
	_, err := produce.Send(bigProduce(9, 1_000_000, 0))
	require.NoError(t, err)
	requireClosed(t, produce)

	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	req.Topics = make([]kmsg.MetadataRequestTopic, 1_000_000)
	for i := range req.Topics {
		req.Topics[i].Topic = new(string)
	}
	clients := make([]*rawclient.Client, 8)
	for i := range clients {
		clients[i] = h.dial()
		_, err := clients[i].Send(req)
		require.NoError(t, err)
	}
	for _, c := range clients {
		_, err := h.dial().Do(metadata(9))
		require.NoError(t, err)
		_, err = c.Recv()
		require.NoError(t, err)
	}
}
