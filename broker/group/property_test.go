package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// crowd drives a group at random and keeps the books on what it answers.
type crowd struct {
	t          *rapid.T
	g          *Group
	now        time.Duration
	token      Token
	waiting    map[Token]bool
	ids        []string
	generation int32
	// syncs are what members were told of generations, to be synced.
	told []Identity
}

func (c *crowd) take(answers []Answer) {
	leaders, members := 0, 0
	var first *JoinResponse
	for _, a := range answers {
		require.True(c.t, c.waiting[a.Token], "call %d is answered twice, or was never made", a.Token)
		delete(c.waiting, a.Token)
		require.True(c.t, (a.Join == nil) != (a.Sync == nil))
		if a.Join == nil {
			continue
		}
		c.ids = append(c.ids, a.Join.MemberID)
		if a.Join.Code != OK {
			continue
		}
		members++
		if first == nil {
			first = a.Join
		}
		require.Equal(c.t, first.Generation, a.Join.Generation)
		require.Equal(c.t, first.Protocol, a.Join.Protocol)
		require.Equal(c.t, c.g.generation, a.Join.Generation)
		if a.Join.LeaderID == a.Join.MemberID {
			leaders++
			require.Len(c.t, a.Join.Members, len(c.g.members))
		}
		c.told = append(c.told, Identity{MemberID: a.Join.MemberID, Generation: a.Join.Generation, InstanceID: c.instanceOf(a.Join.MemberID)})
	}
	require.LessOrEqual(c.t, leaders, 1)
	if members > 1 {
		require.Equal(c.t, 1, leaders, "a generation without a leader")
	}
}

func (c *crowd) instanceOf(id string) string {
	if m := c.g.members[id]; m != nil {
		return m.instanceID
	}
	return ""
}

func (c *crowd) someID() string {
	if len(c.ids) == 0 || rapid.IntRange(0, 3).Draw(c.t, "fresh") == 0 {
		return ""
	}
	return rapid.SampledFrom(c.ids).Draw(c.t, "id")
}

func (c *crowd) someone() Identity {
	if len(c.told) > 0 && rapid.IntRange(0, 4).Draw(c.t, "real") > 0 {
		return c.told[len(c.told)-1-rapid.IntRange(0, min(5, len(c.told)-1)).Draw(c.t, "who")]
	}
	return Identity{MemberID: c.someID(), Generation: int32(rapid.IntRange(-1, 4).Draw(c.t, "gen"))}
}

func (c *crowd) call() Token {
	c.token++
	c.waiting[c.token] = true
	return c.token
}

func (c *crowd) join(*rapid.T) {
	req := JoinRequest{
		MemberID: c.someID(), ProtocolType: "consumer",
		SessionTimeout:   time.Duration(rapid.IntRange(5, 20).Draw(c.t, "session")) * time.Second,
		RebalanceTimeout: time.Duration(rapid.IntRange(0, 20).Draw(c.t, "rebalance")) * time.Second,
		RequireMemberID:  rapid.Bool().Draw(c.t, "require"), CanSkipAssignment: rapid.Bool().Draw(c.t, "skip"),
	}
	req.InstanceID = rapid.SampledFrom([]string{"", "", "i1", "i2"}).Draw(c.t, "instance")
	if m := c.g.members[req.MemberID]; m != nil && rapid.Bool().Draw(c.t, "same") {
		req.InstanceID = m.instanceID
	}
	for _, p := range rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"b", "a"}, {"b"}}).Draw(c.t, "protocols") {
		req.Protocols = append(req.Protocols, Protocol{Name: p})
	}
	tok := c.call()
	c.take(c.g.Join(c.now, tok, req, fmt.Sprintf("m%d", tok)))
}

func (c *crowd) sync(*rapid.T) {
	who := c.someone()
	c.take(c.g.Sync(c.now, c.call(), SyncRequest{
		MemberID: who.MemberID, InstanceID: who.InstanceID, Generation: who.Generation,
		Assignments: []Assignment{{MemberID: who.MemberID, Bytes: []byte("x")}},
	}))
}

func (c *crowd) heartbeat(*rapid.T) { c.g.Heartbeat(c.now, c.someone()) }
func (c *crowd) commit(*rapid.T)    { c.g.CheckCommit(c.now, c.someone()) }

func (c *crowd) use(*rapid.T) {
	_, answers := c.g.UseTopic(c.now, "t", [16]byte{byte(rapid.IntRange(0, 1).Draw(c.t, "topic"))})
	c.take(answers)
}

func (c *crowd) leave(*rapid.T) {
	who := c.someone()
	_, answers := c.g.Leave(c.now, []LeaveMember{{who.MemberID, who.InstanceID}})
	c.take(answers)
}

func (c *crowd) wait(*rapid.T) {
	c.now += time.Duration(rapid.IntRange(0, 4000).Draw(c.t, "ms")) * time.Millisecond
	c.take(c.g.Tick(c.now))
}

// check holds after every step.
func (c *crowd) check(*rapid.T) {
	g := c.g
	held := map[Token]bool{}
	for _, m := range g.members {
		require.False(c.t, m.join != 0 && m.sync != 0)
		for _, tok := range []Token{m.join, m.sync} {
			if tok != 0 {
				require.False(c.t, held[tok], "call %d is held twice", tok)
				held[tok] = true
			}
		}
		require.True(c.t, m.sync == 0 || g.state == CompletingRebalance, "a sync waits in %v", g.state)
		require.True(c.t, m.join == 0 || g.state == PreparingRebalance, "a join waits in %v", g.state)
		if m.static() {
			require.Equal(c.t, m.id, g.instances[m.instanceID])
		}
	}
	require.Equal(c.t, c.waiting, held, "calls that wait are those that the group holds")
	require.GreaterOrEqual(c.t, g.generation, c.generation)
	c.generation = g.generation
	require.Equal(c.t, len(g.members) == 0, g.state == Empty)
	if len(g.members) > 0 {
		require.Contains(c.t, g.members, g.leader)
	}
	if g.state == CompletingRebalance || g.state == Stable {
		require.True(c.t, g.allKnow(g.protocol), "%q is not everybody's", g.protocol)
	}
	if len(g.members) > 0 {
		at, ok := g.NextDeadline()
		require.True(c.t, ok, "members and no timer")
		for _, m := range g.members {
			if m.isNew || m.join == 0 && m.sync == 0 {
				require.LessOrEqual(c.t, at, m.deadline)
			}
		}
	}
}

func TestEveryCallIsAnsweredOnceAndNobodyIsStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.InitialRebalanceDelay = time.Duration(rapid.IntRange(0, 1).Draw(t, "delay")) * 3 * time.Second
		cfg.MaxSize = rapid.IntRange(1, 6).Draw(t, "max")
		c := &crowd{t: t, g: NewGroup("g", cfg, 0), waiting: map[Token]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"join": c.join, "join2": c.join, "sync": c.sync, "sync2": c.sync, "heartbeat": c.heartbeat, "commit": c.commit,
			"use": c.use, "leave": c.leave, "wait": c.wait, "": c.check,
		})
		// Everybody falls silent: the timers alone empty the group.
		for range 1000 {
			at, ok := c.g.NextDeadline()
			if !ok {
				break
			}
			c.now = max(c.now, at)
			c.take(c.g.Tick(c.now))
			c.check(t)
			if next, ok := c.g.NextDeadline(); ok {
				require.Greater(t, next, c.now, "a timer that fires for ever")
			}
		}
		require.Equal(t, Empty, c.g.State())
		require.Empty(t, c.waiting)
	})
}
