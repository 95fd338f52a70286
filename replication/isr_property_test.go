package replication_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

// cluster is three brokers, one partition and a catalog, each step atomic, as in shared/model/isr.pml: any
// compare-and-set may be executed late or its answer be lost, any lease may run out, brokers lose power.
type cluster struct {
	*rapid.T
	row   catalog.Partition
	nodes [3]*node
	inc   [3]catalog.Incarnation
	sent  []sentChange
	acked []int // value at each acknowledged offset
	value int
	now   time.Duration
	loss  int // the broker whose disk lost something and that is not in the ISR again, -1
}

type entry struct {
	epoch record.Epoch
	value int
}

type node struct {
	id     int
	log    []entry
	hw     int
	up     bool
	leads  record.Epoch // -1: it does not
	truncs record.Epoch // the epoch that its log was last truncated for
	view   *replication.Followers
}

type sentChange struct {
	from  int
	epoch record.Epoch
	c     replication.Change
}

const minISR = 2

func newCluster(t *rapid.T) *cluster {
	c := &cluster{T: t, loss: -1}
	for i := range 3 {
		c.inc[i] = catalog.Incarnation(i + 1)
		c.nodes[i] = &node{id: i, up: true, leads: -1, truncs: -1}
		c.row.Replicas = append(c.row.Replicas, catalog.BrokerID(i))
		c.row.ISR = append(c.row.ISR, c.member(i))
	}
	c.row.Version = 1
	return c
}

func (c *cluster) member(i int) catalog.Member {
	return catalog.Member{Broker: catalog.BrokerID(i), Incarnation: c.inc[i]}
}

func (c *cluster) any() *node { return c.nodes[rapid.IntRange(0, 2).Draw(c.T, "node")] }

// set changes the in-sync set as the catalog does: who leaves one that becomes too small is remembered, one
// that is large enough forgets (KIP-966; model, finding 5).
func (c *cluster) set(isr []catalog.Member, out ...catalog.Member) {
	if len(isr) == 0 {
		c.Fatalf("the ISR is emptied")
	}
	if len(isr) >= minISR {
		c.row.ELR = nil
	} else {
		c.row.ELR = append(c.row.ELR, out...)
	}
	c.row.ELR = slices.DeleteFunc(slices.Clone(c.row.ELR), func(m catalog.Member) bool { return slices.Contains(isr, m) })
	c.row.ISR = isr
	c.row.Version++
}

func without(ms []catalog.Member, m catalog.Member) []catalog.Member {
	return slices.DeleteFunc(slices.Clone(ms), func(x catalog.Member) bool { return x == m })
}

// elect takes the leader's lease away and chooses another, from the ISR, else from the ELR.
func (c *cluster) elect() {
	old := int(c.row.Leader)
	var can []int
	from := c.row.ISR
	for pass := 0; pass < 2 && len(can) == 0; pass++ {
		for _, m := range from {
			if i := int(m.Broker); c.nodes[i].up && i != old && m == c.member(i) {
				can = append(can, i)
			}
		}
		if pass == 0 && len(can) == 0 && len(c.row.ISR) != 1 {
			for _, m := range c.row.ISR { // somebody of it may still lead
				if c.nodes[m.Broker].up {
					return
				}
			}
		}
		from = c.row.ELR
	}
	if len(can) == 0 {
		return
	}
	lead := rapid.SampledFrom(can).Draw(c.T, "leader")
	if !slices.Contains(c.row.ISR, c.member(lead)) {
		rest := without(append(slices.Clone(c.row.ELR), c.row.ISR...), c.member(lead))
		c.row.ISR, c.row.ELR = []catalog.Member{c.member(lead)}, rest
		c.row.Version++
	} else if old >= 0 && slices.Contains(c.row.ISR, c.member(old)) && rapid.Bool().Draw(c.T, "lease of the old one ran out") {
		c.set(without(c.row.ISR, c.member(old)), c.member(old))
	} else {
		c.row.Version++
	}
	c.row.Leader = catalog.BrokerID(lead)
	c.row.LeaderEpoch++
}

// begin: the elected broker reads the row.
func (c *cluster) begin(n *node) {
	if !n.up || int(c.row.Leader) != n.id || n.leads == c.row.LeaderEpoch {
		return
	}
	for o, v := range c.acked {
		if o >= len(n.log) || n.log[o].value != v {
			c.Fatalf("broker %d leads epoch %d without acknowledged offset %d; row %+v", n.id, c.row.LeaderEpoch, o, c.row)
		}
	}
	n.leads, n.truncs = c.row.LeaderEpoch, c.row.LeaderEpoch
	n.view = replication.NewFollowers(replication.FollowersOptions{
		Self: c.member(n.id), Row: c.row, Began: record.Offset(len(n.log)), MinISR: minISR, LagMax: time.Second, Now: c.now,
	})
	c.advance(n)
}

func (c *cluster) advance(n *node) {
	reach := min(n.view.Reach(), record.Offset(len(n.log)))
	for ; n.hw < int(reach); n.hw++ {
		v := n.log[n.hw].value
		switch {
		case n.hw < len(c.acked) && c.acked[n.hw] != v:
			c.Fatalf("two acknowledged values at %d", n.hw)
		case n.hw == len(c.acked):
			c.acked = append(c.acked, v)
		}
	}
}

// follow is one round of a follower: truncation for a new epoch, else a fetch whose answer may be lost.
func (c *cluster) follow(n *node) {
	if c.row.Leader == catalog.NoBroker {
		return
	}
	l := c.nodes[c.row.Leader]
	if !n.up || l == n || !l.up || l.leads != c.row.LeaderEpoch {
		return
	}
	if n.truncs != l.leads {
		n.leads, n.view, n.truncs = -1, nil, l.leads
		to, _ := truncate(c.T, n.history(), record.Offset(len(n.log)), l.history(), record.Offset(len(l.log)))
		n.log = n.log[:to]
		n.hw = min(n.hw, int(to))
		return
	}
	l.view.Fetched(c.member(n.id), record.Offset(len(n.log)), record.Offset(len(l.log)), c.now)
	c.advance(l)
	if len(n.log) < len(l.log) && rapid.Bool().Draw(c.T, "answer arrives") {
		n.log = append(slices.Clip(n.log), l.log[len(n.log)])
	}
	n.hw = max(n.hw, min(l.hw, len(n.log)))
}

func (n *node) history() record.EpochHistory {
	var h record.EpochHistory
	for o, e := range n.log {
		h.Assign(e.epoch, record.Offset(o))
	}
	if n.leads >= 0 {
		h.Assign(n.leads, record.Offset(len(n.log)))
	}
	return h
}

func (c *cluster) plan(n *node) {
	if n.leads < 0 || !n.up {
		return
	}
	ch, ok := n.view.Plan(record.Offset(n.hw), record.Offset(len(n.log)), c.now, true)
	if !ok {
		return
	}
	s := sentChange{n.id, n.leads, ch}
	switch rapid.IntRange(0, 2).Draw(c.T, "outcome") {
	case 0:
		c.execute(s)
		if c.row.LeaderEpoch == n.leads {
			n.view.Answered(c.row, c.now)
		}
	case 1: // the answer is lost
		c.execute(s)
		n.view.Unknown(c.now + time.Hour)
	case 2: // it is executed later, or never
		c.sent = append(c.sent, s)
		n.view.Unknown(c.now + time.Hour)
	}
}

func (c *cluster) execute(s sentChange) {
	ok := c.row.Version == s.c.IfVersion && int(c.row.Leader) == s.from && c.row.LeaderEpoch == s.epoch
	for _, m := range s.c.ISR {
		ok = ok && (m == c.member(int(m.Broker)) || slices.Contains(c.row.ISR, m))
	}
	if !ok {
		return
	}
	var out []catalog.Member
	for _, m := range c.row.ISR {
		if !slices.Contains(s.c.ISR, m) && m == c.member(int(m.Broker)) {
			out = append(out, m)
		}
	}
	c.set(s.c.ISR, out...)
	if c.loss >= 0 && slices.Contains(c.row.ISR, c.member(c.loss)) {
		c.loss = -1
	}
}

// down ends a process; lose says that its disk keeps only a prefix (power, H4).
func (c *cluster) down(n *node, lose bool) {
	if !n.up || lose && c.loss >= 0 {
		return
	}
	n.up, n.leads, n.view, n.hw, n.truncs = false, -1, nil, 0, -1
	if lose {
		c.loss = n.id
		n.log = n.log[:rapid.IntRange(0, len(n.log)).Draw(c.T, "kept")]
		c.inc[n.id] = -c.inc[n.id] // until it registers
	}
}

func (c *cluster) register(n *node) {
	if n.up {
		return
	}
	n.up = true
	if c.inc[n.id] < 0 {
		old := catalog.Member{Broker: catalog.BrokerID(n.id), Incarnation: -c.inc[n.id]}
		c.inc[n.id] = -c.inc[n.id] + 10
		c.row.ELR = without(c.row.ELR, old)
		if slices.Contains(c.row.ISR, old) && len(c.row.ISR) > 1 {
			c.set(without(c.row.ISR, old))
		}
	}
	if int(c.row.Leader) == n.id { // its leaderships end: the next one has a higher epoch
		c.row.Version++
		c.row.Leader = catalog.NoBroker
	}
}

// steps of the property test; what stands more often happens more often.
var steps = strings.Fields(strings.Repeat("append follow follow follow follow begin begin plan read ", 4) +
	"lag plan late late elect kill power register register register")

func (c *cluster) step(n *node) {
	switch rapid.SampledFrom(steps).Draw(c.T, "step") {
	case "append":
		if l := c.row.Leader; l >= 0 && rapid.Bool().Draw(c.T, "at the leader") {
			n = c.nodes[l]
		}
		if n.leads >= 0 && n.up && len(n.log) < 12 {
			c.value++
			n.log = append(slices.Clip(n.log), entry{n.leads, c.value})
			c.advance(n)
		}
	case "follow":
		c.follow(n)
	case "plan":
		c.plan(n)
	case "read":
		if n.leads == c.row.LeaderEpoch && n.up {
			n.view.Row(c.row, c.now)
			c.advance(n)
		}
	case "late":
		if len(c.sent) > 0 {
			c.execute(c.sent[0])
			c.sent = c.sent[1:]
		}
	case "elect":
		c.elect()
	case "begin":
		c.begin(n)
	case "lag":
		c.now += 2 * time.Second
	case "kill":
		c.down(n, false)
	case "power":
		c.down(n, true)
	case "register":
		c.register(n)
		if c.row.Leader == catalog.NoBroker {
			c.elect()
		}
	}
}

// TestR17_AckedRecordsSurviveAnySingleFault: whoever begins to lead has every acknowledged record, no offset
// has two values, the in-sync set is never empty.
func TestR17_AckedRecordsSurviveAnySingleFault(t *testing.T) {
	for range 15 { // rapid's own number of checks finds too little here
		rapid.Check(t, func(rt *rapid.T) {
			c := newCluster(rt)
			c.begin(c.nodes[0])
			for range 150 {
				c.step(c.any())
				c.agree()
			}
		})
	}
}

// agree: one (epoch, offset) has one value on every disk.
func (c *cluster) agree() {
	seen := map[string]int{}
	for _, n := range c.nodes {
		for o, e := range n.log {
			k := fmt.Sprint(e.epoch, "@", o)
			if v, ok := seen[k]; ok && v != e.value {
				c.Fatalf("two values at epoch and offset %s", k)
			}
			seen[k] = e.value
		}
	}
}
