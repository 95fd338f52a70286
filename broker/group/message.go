package group

import "time"

// Protocol is one assignment strategy that a member offers, with its opaque
// subscription.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest is JoinGroup. An empty InstanceID means a dynamic member.
type JoinRequest struct {
	Group, MemberID, InstanceID string
	ClientID, ClientHost        string
	// RebalanceTimeout 0 (version 0 has none) means SessionTimeout.
	SessionTimeout, RebalanceTimeout time.Duration
	ProtocolType                     string
	// Protocols stand in order of preference. Their bytes are kept.
	Protocols []Protocol
	// RequireMemberID is set from version 4 on (KIP-394): a dynamic member
	// without an id is told one first and has to come back with it.
	RequireMemberID bool
	// CanSkipAssignment is set from version 9 on (KIP-814).
	CanSkipAssignment bool
}

// JoinMember is what the leader learns of each member.
type JoinMember struct {
	MemberID, InstanceID string
	Metadata             []byte
}

// JoinResponse answers a JoinRequest. Protocol is "" when there is none.
// Members is filled for the leader only.
type JoinResponse struct {
	Code                             Code
	Generation                       int32
	ProtocolType, Protocol, LeaderID string
	SkipAssignment                   bool
	MemberID                         string
	Members                          []JoinMember
}

// Assignment is what the leader gives to one member.
type Assignment struct {
	MemberID string
	Bytes    []byte
}

// SyncRequest is SyncGroup. ProtocolType and Protocol are compared when they
// are not empty (version 5, KIP-559).
type SyncRequest struct {
	Group, MemberID, InstanceID string
	Generation                  int32
	ProtocolType, Protocol      string
	// Assignments are the leader's. Their bytes are kept.
	Assignments []Assignment
}

// SyncResponse answers a SyncRequest.
type SyncResponse struct {
	Code                   Code
	ProtocolType, Protocol string
	Assignment             []byte
}

// Identity is who says something within a generation: the fields that
// Heartbeat, OffsetCommit and others share. Generation -1 and no MemberID is
// an administrator or a consumer that assigns its partitions itself.
type Identity struct {
	Group, MemberID, InstanceID string
	Generation                  int32
}

// LeaveMember names one member that leaves, by id, instance id, or both.
type LeaveMember struct {
	MemberID, InstanceID string
}

// LeaveResult answers one LeaveMember.
type LeaveResult struct {
	LeaveMember
	Code Code
}

// MemberDescription is one member as DescribeGroups shows it.
type MemberDescription struct {
	MemberID, InstanceID, ClientID, ClientHost string
	// Metadata and Assignment are set in a stable group only.
	Metadata, Assignment []byte
}

// Description is a group as DescribeGroups shows it.
type Description struct {
	Code                   Code
	Group                  string
	State                  State
	ProtocolType, Protocol string
	Members                []MemberDescription
}

// Listing is a group as ListGroups shows it.
type Listing struct {
	Group, ProtocolType string
	State               State
}

// Token names one call that waits for its answer. 0 is none.
type Token uint64

// Answer is what a waiting call gets: exactly one of Join and Sync is set.
type Answer struct {
	Token Token
	Join  *JoinResponse
	Sync  *SyncResponse
}
