package wire

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// large is an answer of n bytes, more than sockets hold; built counts those that are in memory.
func large(req *Request, n int, built *atomic.Int32) Reply {
	built.Add(1)
	resp := req.Body.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = []kmsg.DescribeGroupsResponseGroup{{Members: []kmsg.DescribeGroupsResponseGroupMember{{MemberAssignment: make([]byte, n)}}}}
	return Respond(resp)
}

// R20: peers that ask for large answers and do not read hold no more than all answers may, and are given up when others
// wait for it; who reads is answered, and small and middling answers wait for none of it.
func TestR20_LargeAnswersHaveABoundOverAllConnections(t *testing.T) {
	const size = 12 << 20
	var built atomic.Int32
	h := startScripted(t, Options{AnswerBytes: 4 * size, WriteTimeout: 15 * time.Second}, scripted{
		handle: func(ctx context.Context, c *Conn, req *Request) Reply {
			if req.Key != 15 {
				return echo(ctx, c, req)
			}
			return large(req, size-1<<10, &built)
		},
		size: func(req *Request) int {
			switch req.Key {
			case 15:
				return size
			case 3:
				return size / 128
			}
			return 0
		},
	})
	groups := kmsg.NewPtrDescribeGroupsRequest()
	for range 20 {
		c := h.dial()
		require.NoError(t, c.Conn().(*net.TCPConn).SetReadBuffer(64<<10)) // the system's own may grow to hold an answer
		_, err := c.Send(groups)
		require.NoError(t, err)
	}
	answers := h.listeners[0].answers
	eventually(t, "three are built and others wait", func() bool { return built.Load() >= 3 && answers.large.contended() })
	require.Less(t, built.Load(), int32(20))
	for range 3 { // before those that do not read are given up, or after
		c := h.dial()
		c.Timeout = time.Minute
		_, err := c.Do(metadata(1))
		require.NoError(t, err)
		_, err = c.Do(kmsg.NewPtrHeartbeatRequest())
		require.NoError(t, err)
	}
	reader := h.dial()
	reader.Timeout = time.Minute
	for range 3 {
		resp, err := reader.Do(groups)
		require.NoError(t, err)
		require.Len(t, resp.(*kmsg.DescribeGroupsResponse).Groups[0].Members[0].MemberAssignment, size-1<<10)
	}
	h.stop()
	require.Zero(t, answers.large.used)
	require.Zero(t, answers.middling.used)
}

// A large answer is begun when those before it have left: behind a long poll it would be held for nothing.
func TestR20_ALargeAnswerIsBegunWhenThoseBeforeItHaveLeft(t *testing.T) {
	var built atomic.Int32
	poll, polled := NewPending(), make(chan struct{})
	h := startScripted(t, Options{}, scripted{
		handle: func(_ context.Context, _ *Conn, req *Request) Reply {
			if req.Key == keyFetch {
				close(polled)
				return Later(poll)
			}
			return large(req, 1<<20, &built)
		},
		size: func(*Request) int { return 1 << 20 },
	})
	c := h.dial()
	fetch := kmsg.NewPtrFetchRequest()
	for _, r := range []kmsg.Request{fetch, kmsg.NewPtrDescribeGroupsRequest()} {
		_, err := c.Send(r)
		require.NoError(t, err)
	}
	<-polled
	other := h.dial()
	_, err := other.Do(kmsg.NewPtrDescribeGroupsRequest())
	require.NoError(t, err)
	require.EqualValues(t, 1, built.Load(), "the other's only")
	poll.Resolve(Respond(fetch.ResponseKind()))
	for range 2 {
		_, _, err := c.RecvRaw()
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, built.Load())
}

// A panic, a refusal and a peer that goes give back what was taken.
func TestR20_WhatAnAnswerTookGoesBackHoweverItEnds(t *testing.T) {
	var late []*Pending
	var mu sync.Mutex
	h := startScripted(t, Options{}, scripted{
		handle: func(ctx context.Context, c *Conn, req *Request) Reply {
			switch req.Key {
			case 3:
				panic("in a handler")
			case 15:
				return CloseConn("a test")
			}
			mu.Lock()
			defer mu.Unlock()
			late = append(late, NewPending())
			return Later(late[len(late)-1])
		},
		size: func(*Request) int { return 2 << 20 },
	})
	for _, r := range []kmsg.Request{metadata(1), kmsg.NewPtrDescribeGroupsRequest()} {
		c := h.dial()
		_, err := c.Send(r)
		require.NoError(t, err)
		requireClosed(t, c)
	}
	c := h.dial()
	_, err := c.Send(kmsg.NewPtrHeartbeatRequest())
	require.NoError(t, err)
	used := func() int64 {
		b := h.listeners[0].answers.large
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used
	}
	eventually(t, "one is held", func() bool { return used() == 2<<20 })
	require.NoError(t, c.Close())
	eventually(t, "none is held", func() bool { return used() == 0 })
}

// An answer that does not fit has all there is, and is sent whole to a peer that reads slowly while nobody waits.
func TestR20_AnAnswerLargerThanAllThereIsIsAnswered(t *testing.T) {
	var built atomic.Int32
	h := startScripted(t, Options{AnswerBytes: 1 << 20, WriteTimeout: 3 * time.Second}, scripted{
		handle: func(_ context.Context, _ *Conn, req *Request) Reply { return large(req, 16<<20, &built) },
		size:   func(*Request) int { return 32 << 20 },
	})
	c := h.dial()
	_, err := c.Send(kmsg.NewPtrDescribeGroupsRequest())
	require.NoError(t, err)
	eventually(t, "it is built", func() bool { return built.Load() == 1 })
	timer := time.NewTimer(3 * 3 * time.Second / slowReads) // the peer takes nothing for more than one part of the time
	<-timer.C
	_, rest, err := c.RecvRaw()
	require.NoError(t, err)
	require.Greater(t, len(rest), 16<<20)
	require.False(t, bytes.Contains(rest[len(rest)-100:], []byte{1}))
}

func TestSmallerAnswersGoFirst(t *testing.T) {
	a := newAnswerBudget(400)
	holder, err := a.take(t.Context(), 300)
	require.NoError(t, err)
	order := make(chan int, 3)
	var all sync.WaitGroup
	for i, n := range []int{290, 30, 200} {
		all.Go(func() {
			h, err := a.take(t.Context(), n)
			if err != nil {
				t.Error(err)
			}
			order <- n
			h.release()
		})
		eventually(t, "it waits", func() bool {
			a.large.mu.Lock()
			defer a.large.mu.Unlock()
			return a.large.fresh.Len() == i+1
		})
	}
	holder.shrink(280)
	holder.shrink(270)
	require.Equal(t, 30, <-order)
	holder.release()
	all.Wait()
	require.ElementsMatch(t, []int{200, 290}, []int{<-order, <-order})
	require.Zero(t, a.large.used)
}
