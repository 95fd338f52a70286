package wire

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/rawclient"
)

// BenchmarkProduceEcho is the price of the wire alone for produces of 64 KiB:
// one at a time, and five in flight as an idempotent client has them.
func BenchmarkProduceEcho(b *testing.B) {
	for name, inFlight := range map[string]int{"1 in flight": 1, "5 in flight": 5} {
		b.Run(name, func(b *testing.B) {
			s, err := Listen(b.Context(), Options{Listeners: []ListenerOptions{{Name: "A", Address: "127.0.0.1:0"}}})
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx, scripted{handle: echo}) }()
			defer func() { cancel(); require.NoError(b, <-done) }()
			c, err := rawclient.Dial(b.Context(), s.Addr("A").String())
			require.NoError(b, err)
			defer c.Close()
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, produce(-1, make([]byte, 64<<10)), 1)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				if err := c.SendRaw(frame); err != nil {
					b.Fatal(err)
				}
				if sent++; sent >= inFlight {
					if _, _, err := c.RecvRaw(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
