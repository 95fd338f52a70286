package handler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/wire"
)

// InitProducerId, key 22, versions 0–5, for idempotent producers: a new id with epoch 0. A request with
// a transactional id is answered UNSUPPORTED_VERSION, which clients take as final: there is no
// transaction coordinator yet.
func beginInitProducerID(h *Handlers, ctx context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.InitProducerIDRequest)
	resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if r.TransactionalID != nil {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return wire.Respond(resp)
	}
	ctx, cancel := context.WithTimeout(ctx, maxCatalogWait)
	defer cancel()
	id, err := h.ids.next(ctx, h)
	if err != nil {
		resp.ErrorCode = codeFor(err)
		return wire.Respond(resp)
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return wire.Respond(resp)
}

// idBlock is how many producer ids one call to the catalog brings.
const idBlock = 1000

// producerIDs holds the block in use and a spare one, so that producers start while the catalog is away
// (H7, H14).
type producerIDs struct {
	mu          sync.Mutex // guards the blocks; never held over a call
	from, end   int64
	spare, left int64 // the spare block and its size, 0 if there is none
	filling     bool
}

// take returns an id without asking anybody, false if there is none.
func (ids *producerIDs) take() (int64, bool) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.from == ids.end && ids.left > 0 {
		ids.from, ids.end = ids.spare, ids.spare+ids.left
		ids.left = 0
	}
	if ids.from == ids.end {
		return 0, false
	}
	ids.from++
	return ids.from - 1, true
}

// put keeps a block that the catalog gave.
func (ids *producerIDs) put(first int64) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.from == ids.end {
		ids.from, ids.end = first, first+idBlock
		return
	}
	ids.spare, ids.left = first, idBlock
}

// wants reports whether a block should be fetched, and claims the fetching of it.
func (ids *producerIDs) wants() bool {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.filling || ids.left > 0 {
		return false
	}
	ids.filling = true
	return true
}

func (ids *producerIDs) filled() {
	ids.mu.Lock()
	ids.filling = false
	ids.mu.Unlock()
}

// next returns an id, asking the catalog if neither block has one, and sees to the spare block.
func (ids *producerIDs) next(ctx context.Context, h *Handlers) (int64, error) {
	id, ok := ids.take()
	if !ok {
		first, err := h.Catalog.ProducerIDs(ctx, h.Broker, idBlock)
		if err != nil {
			return 0, fmt.Errorf("%w: no producer ids: %w", kerr.CoordinatorNotAvailable, err)
		}
		ids.put(first)
		if id, ok = ids.take(); !ok {
			return 0, fmt.Errorf("%w: no producer ids", kerr.CoordinatorNotAvailable)
		}
	}
	if ids.wants() {
		h.waits.Go(func() { ids.fill(h) })
	}
	return id, nil
}

// fill fetches the spare block; if the catalog is away the next request tries again.
func (ids *producerIDs) fill(h *Handlers) {
	defer ids.filled()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if first, err := h.Catalog.ProducerIDs(ctx, h.Broker, idBlock); err == nil {
		ids.put(first)
	}
}
