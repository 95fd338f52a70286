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

	keyMetadata        = 3
	keyOffsetCommit    = 8
	keyOffsetFetch     = 9
	keyFindCoordinator = 10
	keyJoinGroup       = 11
	keyHeartbeat       = 12
	keyLeaveGroup      = 13
	keySyncGroup       = 14
	keyDescribeGroups  = 15
	keyListGroups      = 16
	keyDeleteGroups    = 42
	keyOffsetDelete    = 47

	keyCreateTopics            = 19
	keyDeleteTopics            = 20
	keyDescribeConfigs         = 32
	keyAlterConfigs            = 33
	keyDescribeLogDirs         = 35
	keyCreatePartitions        = 37
	keyElectLeaders            = 43
	keyIncrementalAlterConfigs = 44
	keyAlterReassignments      = 45
	keyListReassignments       = 46
	keyDescribeCluster         = 60
	keyDescribeProducers       = 61
	keyUnregisterBroker        = 64
	keyListConfigResources     = 74
	keyDescribeTopicPartitions = 75
)

// table names each API that Tidemark speaks.
var table = []api{
	{keyProduce, 3, 13, 0, beginProduce},
	{keyFetch, 4, 18, -1, beginFetch},
	{keyListOffsets, 1, 11, -1, beginListOffsets},
	{keyAPIVersions, 0, 4, -1, beginAPIVersions},
	{keyDeleteRecords, 0, 2, -1, beginDeleteRecords},
	{keyInitProducerID, 0, 5, -1, beginInitProducerID},
	{keyOffsetForLeaderEpoch, 0, 4, -1, beginOffsetForLeaderEpoch},

	{keyMetadata, 0, 13, -1, beginMetadata},
	{keyOffsetCommit, 2, 10, -1, beginOffsetCommit},
	{keyOffsetFetch, 1, 10, -1, beginOffsetFetch},
	{keyFindCoordinator, 0, 6, -1, beginFindCoordinator},
	{keyJoinGroup, 0, 9, -1, beginJoinGroup},
	{keyHeartbeat, 0, 4, -1, beginHeartbeat},
	{keyLeaveGroup, 0, 5, -1, beginLeaveGroup},
	{keySyncGroup, 0, 5, -1, beginSyncGroup},
	{keyDescribeGroups, 0, 6, -1, beginDescribeGroups},
	{keyListGroups, 0, 5, -1, beginListGroups},
	{keyDeleteGroups, 0, 3, -1, beginDeleteGroups},
	{keyOffsetDelete, 0, 0, -1, beginOffsetDelete},

	{keyCreateTopics, 0, 7, -1, beginCreateTopics},
	{keyDeleteTopics, 1, 6, -1, beginDeleteTopics},
	{keyCreatePartitions, 0, 3, -1, beginCreatePartitions},
	{keyDescribeConfigs, 1, 4, -1, beginDescribeConfigs},
	{keyAlterConfigs, 0, 2, -1, beginAlterConfigs},
	{keyIncrementalAlterConfigs, 0, 1, -1, beginIncrementalAlterConfigs},
	{keyElectLeaders, 0, 2, -1, beginElectLeaders},
	{keyAlterReassignments, 0, 1, -1, beginAlterPartitionAssignments},
	{keyListReassignments, 0, 0, -1, beginListPartitionReassignments},
	{keyDescribeLogDirs, 1, 4, -1, beginDescribeLogDirs},
	{keyDescribeCluster, 0, 2, -1, beginDescribeCluster},
	{keyDescribeProducers, 0, 0, -1, beginDescribeProducers},
	{keyUnregisterBroker, 0, 0, -1, beginUnregisterBroker},
	{keyListConfigResources, 0, 1, -1, beginListConfigResources},
	{keyDescribeTopicPartitions, 0, 0, -1, beginDescribeTopicPartitions},
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
