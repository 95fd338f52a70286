package wire

import (
	"context"
	"math/bits"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Budget is a number of request bytes that may be held at once. Takers are
// served in the order in which they came, so a large request is not starved
// by small ones.
type Budget struct {
	size int64
	sem  *semaphore.Weighted
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, sem: semaphore.NewWeighted(size)}
}

func (b *Budget) take(ctx context.Context, n int) error { return b.sem.Acquire(ctx, int64(n)) }
func (b *Budget) give(n int)                            { b.sem.Release(int64(n)) }

// Buffers are pooled in powers of two from 1 KiB to 4 MiB; larger ones are
// rare and left to the collector.
const (
	minClass = 10
	maxClass = 22
)

var bufferPools [maxClass - minClass + 1]sync.Pool

// getBuffer returns a buffer of n bytes with unspecified content.
func getBuffer(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		b := make([]byte, n)
		return &b
	}
	if p, ok := bufferPools[class-minClass].Get().(*[]byte); ok {
		*p = (*p)[:n]
		return p
	}
	b := make([]byte, n, 1<<class)
	return &b
}

func putBuffer(p *[]byte) {
	c := cap(*p)
	class := bits.Len(uint(c)) - 1
	if c != 1<<class || class < minClass || class > maxClass {
		return
	}
	bufferPools[class-minClass].Put(p)
}
