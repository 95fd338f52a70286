package handler

import (
	"context"

	"tidemark/broker/wire"
)

// begin starts one request; see wire.Handler.Handle.
type begin func(h *Handlers, ctx context.Context, c *wire.Conn, req *wire.Request) wire.Reply

// api is one row of the table: versions min to max are served. shown, if it is not -1, is the lowest
// version that ApiVersions names although it is refused (Produce, U1).
type api struct {
	key, min, max int16
	shown         int16
	begin         begin
}

const (
	keyProduce              = 0
	keyFetch                = 1
	keyListOffsets          = 2
	keyDeleteRecords        = 21
	keyInitProducerID       = 22
	keyOffsetForLeaderEpoch = 23
	keyAPIVersions          = 18
)

// table names each API that Tidemark speaks.
var table = []api{
	{keyProduce, 3, 12, 0, beginProduce},
	{keyFetch, 4, 17, -1, beginFetch},
	{keyListOffsets, 1, 10, -1, beginListOffsets},
	{keyAPIVersions, 0, 4, -1, beginAPIVersions},
	{keyDeleteRecords, 0, 2, -1, beginDeleteRecords},
	{keyInitProducerID, 0, 5, -1, beginInitProducerID},
	{keyOffsetForLeaderEpoch, 0, 4, -1, beginOffsetForLeaderEpoch},
}

var byKey [128]*api

func init() {
	for i := range table {
		byKey[table[i].key] = &table[i]
	}
}

// lookup finds the row of a key, or nil.
func lookup(key int16) *api {
	if key < 0 || int(key) >= len(byKey) {
		return nil
	}
	return byKey[key]
}
