package group

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// State is where a group stands, in Kafka's terms.
type State uint8

// The states of a classic group.
const (
	// Empty has no members; it may have committed offsets.
	Empty State = iota
	// PreparingRebalance waits for members to join.
	PreparingRebalance
	// CompletingRebalance waits for the leader's assignment.
	CompletingRebalance
	// Stable has an assignment.
	Stable
	// Dead is being removed; every call is sent elsewhere.
	Dead
)

// String is the name that DescribeGroups and ListGroups use.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Config bounds groups. Durations are on the monotonic clock.
type Config struct {
	// MinSessionTimeout and MaxSessionTimeout are Kafka's
	// group.min.session.timeout.ms (6 s) and group.max.session.timeout.ms (30 min).
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitialRebalanceDelay is how long the first join of an empty group waits
	// for others (group.initial.rebalance.delay.ms, 3 s). 0 waits for nobody.
	InitialRebalanceDelay time.Duration
	// NewMemberTimeout is how long a member that has never been answered may
	// wait for its first join to complete (5 min, as in Kafka).
	NewMemberTimeout time.Duration
	// MaxSize is group.max.size.
	MaxSize int
}

// DefaultConfig has Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
		InitialRebalanceDelay: 3 * time.Second, NewMemberTimeout: 5 * time.Minute, MaxSize: 1<<31 - 1,
	}
}

// member is one member of a group.
type member struct {
	id, instanceID       string
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol
	assignment           []byte
	// seq orders members by when they came.
	seq int
	// join and sync are the calls that wait, at most one of them at a time.
	join, sync Token
	// isNew holds until the first join is answered.
	isNew bool
	// deadline ends the session, or for a new member the wait. It does not
	// count while a member that is not new waits for us.
	deadline time.Duration
}

func (m *member) static() bool { return m.instanceID != "" }

func (m *member) expired(now time.Duration) bool {
	return m.deadline <= now && (m.isNew || m.join == 0 && m.sync == 0)
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// Group is one classic consumer group as a pure state machine. Its methods
// take the time on a monotonic clock and return the answers that have become
// due; nothing in it waits, reads a clock or does I/O. It is not safe for
// concurrent use.
type Group struct {
	id           string
	cfg          Config
	state        State
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      map[string]*member
	// instances maps instance ids to member ids.
	instances map[string]string
	// pending are ids that were given out (KIP-394) and have not joined, with
	// the end of their session.
	pending map[string]time.Duration
	nextSeq int

	// joinDeadline ends PreparingRebalance. While initial is set it ends only
	// one step of the initial delay, of which initialLeft may follow.
	joinDeadline time.Duration
	initial      bool
	initialLeft  time.Duration
	newcomer     bool
	// unsynced are members that were told a generation and have not synced;
	// syncDeadline removes them.
	unsynced     map[string]bool
	syncDeadline time.Duration

	// topics are the topic ids by the names under which this generation used
	// them (G9).
	topics     map[string][16]byte
	subscribed map[string]bool

	emptySince time.Duration
	// earliest is never later than the next deadline.
	earliest time.Duration
	out      []Answer
}

// NewGroup returns an empty group.
func NewGroup(id string, cfg Config, now time.Duration) *Group {
	return &Group{
		id: id, cfg: cfg, members: map[string]*member{}, instances: map[string]string{}, pending: map[string]time.Duration{},
		unsynced: map[string]bool{}, emptySince: now, earliest: never,
	}
}

// never is later than any deadline.
const never = time.Duration(1<<63 - 1)

// State is where the group stands.
func (g *Group) State() State { return g.state }

// EmptySince is when the last member left; it means something in an empty
// group only.
func (g *Group) EmptySince() time.Duration { return g.emptySince }

// Idle reports that nothing but committed offsets would be lost with the
// group: no members, and no ids that were promised.
func (g *Group) Idle() bool { return g.state == Empty && len(g.pending) == 0 }

// NextDeadline is when Tick has something to do, or earlier; ok is false if
// it never will.
func (g *Group) NextDeadline() (at time.Duration, ok bool) {
	return g.earliest, g.earliest != never
}

func (g *Group) arm(at time.Duration) { g.earliest = min(g.earliest, at) }

func (g *Group) flush() []Answer {
	out := g.out
	g.out = nil
	return out
}

// inOrder returns the members in the order in which they came.
func (g *Group) inOrder() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int { return cmp.Compare(a.seq, b.seq) })
}

func (g *Group) renew(m *member, now time.Duration) {
	m.deadline = now + m.session
	g.arm(m.deadline)
}

func (g *Group) maxRebalanceTimeout() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

func (g *Group) awaitingJoin() (n int) {
	for _, m := range g.members {
		if m.join != 0 {
			n++
		}
	}
	return n
}

// failJoin answers the join that m waits with, if there is one.
func (g *Group) failJoin(m *member, code Code) {
	if m.join != 0 {
		g.refuseJoin(m.join, m.id, code)
		m.join = 0
	}
}

func (g *Group) failSync(m *member, code Code) {
	if m.sync != 0 {
		g.out = append(g.out, Answer{Token: m.sync, Sync: &SyncResponse{Code: code}})
		m.sync = 0
	}
}

func (g *Group) refuseJoin(tok Token, memberID string, code Code) {
	g.out = append(g.out, Answer{Token: tok, Join: &JoinResponse{Code: code, Generation: noGeneration, MemberID: memberID}})
}

// remove takes m out and answers what it waits with; the caller lets the
// group settle after.
func (g *Group) remove(m *member) {
	// A client that is still there joins anew with UNKNOWN_MEMBER_ID.
	g.failJoin(m, UnknownMemberID)
	g.failSync(m, UnknownMemberID)
	delete(g.members, m.id)
	delete(g.unsynced, m.id)
	if m.static() && g.instances[m.instanceID] == m.id {
		delete(g.instances, m.instanceID)
	}
	if g.leader == m.id {
		g.leader = ""
		if rest := g.inOrder(); len(rest) > 0 {
			g.leader = rest[0].id
		}
	}
}

// settle follows a removal.
func (g *Group) settle(now time.Duration) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepareRebalance(now)
	case PreparingRebalance:
		g.maybeCompleteJoin(now)
	}
}

// validate finds the member that speaks. An instance id that another member
// holds fences the speaker (KIP-345).
func (g *Group) validate(memberID, instanceID string) (*member, Code) {
	if g.state == Dead {
		return nil, CoordinatorNotAvailable
	}
	if instanceID != "" {
		current, known := g.instances[instanceID]
		if !known {
			return nil, UnknownMemberID
		}
		if current != memberID {
			return nil, FencedInstanceID
		}
	}
	m := g.members[memberID]
	if m == nil {
		return nil, UnknownMemberID
	}
	return m, OK
}
