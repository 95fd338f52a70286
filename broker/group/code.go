package group

import "fmt"

// Code is a Kafka error code as it goes over the wire.
type Code int16

// The codes that groups and their offsets are answered with.
const (
	OK                      Code  = 0
	UnknownTopicOrPartition Code  = 3
	RequestTimedOut         Code  = 7
	OffsetMetadataTooLarge  Code  = 12
	CoordinatorLoading      Code  = 14
	CoordinatorNotAvailable Code  = 15
	NotCoordinator          Code  = 16
	IllegalGeneration       Code  = 22
	InconsistentProtocol    Code  = 23
	InvalidGroupID          Code  = 24
	UnknownMemberID         Code  = 25
	InvalidSessionTimeout   Code  = 26
	RebalanceInProgress     Code  = 27
	NonEmptyGroup           Code  = 68
	GroupIDNotFound         Code  = 69
	FencedInstanceID        Code  = 82
	MemberIDRequired        Code  = 79
	GroupMaxSizeReached     Code  = 81
	GroupSubscribedToTopic  Code  = 86
	UnknownTopicID          Code  = 100
	noProtocol                    = ""
	noGeneration            int32 = -1
	protocolTypeConsumer          = "consumer"
)

var codeNames = map[Code]string{
	OK: "ok", UnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION", RequestTimedOut: "REQUEST_TIMED_OUT",
	OffsetMetadataTooLarge: "OFFSET_METADATA_TOO_LARGE", CoordinatorLoading: "COORDINATOR_LOAD_IN_PROGRESS",
	CoordinatorNotAvailable: "COORDINATOR_NOT_AVAILABLE", NotCoordinator: "NOT_COORDINATOR",
	IllegalGeneration: "ILLEGAL_GENERATION", InconsistentProtocol: "INCONSISTENT_GROUP_PROTOCOL",
	InvalidGroupID: "INVALID_GROUP_ID", UnknownMemberID: "UNKNOWN_MEMBER_ID",
	InvalidSessionTimeout: "INVALID_SESSION_TIMEOUT", RebalanceInProgress: "REBALANCE_IN_PROGRESS",
	NonEmptyGroup: "NON_EMPTY_GROUP", GroupIDNotFound: "GROUP_ID_NOT_FOUND", FencedInstanceID: "FENCED_INSTANCE_ID",
	MemberIDRequired: "MEMBER_ID_REQUIRED", GroupMaxSizeReached: "GROUP_MAX_SIZE_REACHED",
	GroupSubscribedToTopic: "GROUP_SUBSCRIBED_TO_TOPIC", UnknownTopicID: "UNKNOWN_TOPIC_ID",
}

// String is Kafka's name of the code.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("error %d", int16(c))
}
