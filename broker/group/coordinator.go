package group

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/catalog"
)

// errClosed ends what a closed Coordinator still had to do.
var errClosed = errors.New("the group coordinator is closed")

// Coordinator owns all groups that this broker coordinates. Its methods may
// be called from any goroutine and do not wait: answers that take time are
// handed to done, which is called once, perhaps before the method returns, and
// must not block. Byte slices in requests are copied.
type Coordinator struct {
	opts    Options
	began   time.Time
	timers  timers
	batcher batcher
	// ctx ends when the Coordinator closes; tasks are its short-lived
	// goroutines, of which at most MaxLoads work at a time.
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}

	// held is the memory of all groups, what is being admitted included.
	held atomic.Int64

	mu     sync.Mutex
	groups map[string]*entry
	closed bool
	tasks  sync.WaitGroup
}

// entry is one group with everything that hangs on it.
type entry struct {
	id string

	mu        sync.Mutex
	group     *Group
	nextToken Token
	joins     map[Token]func(JoinResponse)
	syncs     map[Token]func(SyncResponse)
	// scheduled is the earliest time for which timers will look at the group.
	scheduled time.Duration
	// touched is when the group was last used.
	touched time.Duration
	// kept is set by the first commit; the catalog may not have seen the last.
	kept bool
	// counted is the group's part of the Coordinator's held.
	counted int64
	// gone is set when the entry has left the map; whoever finds it looks again.
	gone  bool
	cache cache
}

// New returns a Coordinator that answers calls; Run makes it work.
func New(opts Options) (*Coordinator, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	c := &Coordinator{opts: opts, began: time.Now(), groups: map[string]*entry{}, slots: make(chan struct{}, opts.MaxLoads)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.timers.wake = make(chan struct{}, 1)
	c.batcher = batcher{opts: &c.opts, queued: map[commitKey]*queuedCommit{}, wake: make(chan struct{}, 1)}
	return c, nil
}

// Run drives timers, commits and the expiry of offsets until ctx ends; then
// every call that waits is answered COORDINATOR_NOT_AVAILABLE and Run returns.
func (c *Coordinator) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { c.timers.run(c.ctx, c.clock, c.fire) })
	loops.Go(func() { c.batcher.run(c.ctx, c.committed) })
	loops.Go(func() { c.sweepLoop(c.ctx) })
	<-c.ctx.Done()
	loops.Wait()
	c.Close()
	return nil
}

// Close answers every call that waits and waits for work in flight. It is
// idempotent; a Coordinator whose Run has returned is closed.
func (c *Coordinator) Close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.drop(CoordinatorNotAvailable, func(string) bool { return true })
	c.batcher.close(c.committed)
	c.tasks.Wait()
}

// DropSlots ends the groups of slots that this broker does not hold any more:
// waiting calls are answered NOT_COORDINATOR and nothing is remembered.
func (c *Coordinator) DropSlots(slots []int32) {
	lost := map[int32]bool{}
	for _, s := range slots {
		lost[s] = true
	}
	c.drop(NotCoordinator, func(group string) bool { return lost[SlotOf(group)] })
}

func (c *Coordinator) drop(code Code, which func(group string) bool) {
	c.mu.Lock()
	var dropped []*entry
	for id, e := range c.groups {
		if which(id) {
			dropped = append(dropped, e)
			delete(c.groups, id)
		}
	}
	c.opts.Metrics.groups.Set(float64(len(c.groups)))
	c.mu.Unlock()
	for _, e := range dropped {
		e.mu.Lock()
		e.gone = true
		c.uncount(e)
		answers := e.take(e.group.Close(code))
		waiters := e.cache.fail()
		e.mu.Unlock()
		answers.send()
		for _, w := range waiters {
			w(code)
		}
	}
}

func (c *Coordinator) clock() time.Duration { return time.Since(c.began) }

// find returns the locked entry of a group; with create it makes one. A code
// that is not OK says why there is none; GroupIDNotFound only without create.
func (c *Coordinator) find(group string, create bool) (*entry, catalog.SlotGuard, Code) {
	guard, ok := c.opts.Guard(group)
	if !ok {
		return nil, guard, NotCoordinator
	}
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, guard, CoordinatorNotAvailable
		}
		e := c.groups[group]
		if e == nil && create {
			size := entrySize(group)
			if !c.reserve(size) {
				c.mu.Unlock()
				c.full(group)
				return nil, guard, CoordinatorLoading
			}
			e = &entry{
				id: group, group: NewGroup(group, c.opts.Group, c.clock()), scheduled: never,
				joins: map[Token]func(JoinResponse){}, syncs: map[Token]func(SyncResponse){}, counted: size,
			}
			c.groups[group] = e
			c.opts.Metrics.groups.Set(float64(len(c.groups)))
		}
		c.mu.Unlock()
		if e == nil {
			return nil, guard, GroupIDNotFound
		}
		e.mu.Lock()
		if !e.gone {
			e.touched = c.clock()
			return e, guard, OK
		}
		e.mu.Unlock()
	}
}

// finish unlocks e after a step of its group and sends the answers.
func (c *Coordinator) finish(e *entry, generation int32, answers []Answer) {
	if e.group.generation != generation {
		c.opts.Metrics.rebalances.Inc()
	}
	out := e.take(answers)
	c.timers.schedule(e)
	e.mu.Unlock()
	out.send()
}

// outbox is answers with the functions that wait for them.
type outbox []func()

// take is called under e.mu; send is not.
func (e *entry) take(answers []Answer) outbox {
	var out outbox
	for _, a := range answers {
		if a.Join != nil {
			done := e.joins[a.Token]
			delete(e.joins, a.Token)
			out = append(out, func() { done(*a.Join) })
			continue
		}
		done := e.syncs[a.Token]
		delete(e.syncs, a.Token)
		out = append(out, func() { done(*a.Sync) })
	}
	return out
}

func (o outbox) send() {
	for _, f := range o {
		f()
	}
}

func (c *Coordinator) fire(d dueAt) {
	e := d.e
	e.mu.Lock()
	if e.gone || e.scheduled != d.at {
		e.mu.Unlock()
		return
	}
	e.scheduled = never
	generation := e.group.generation
	answers := e.group.Tick(c.clock())
	c.recount(e, 0)
	c.finish(e, generation, answers)
}

// Join takes a JoinGroup.
func (c *Coordinator) Join(req JoinRequest, done func(JoinResponse)) {
	refuse := func(code Code) { done(JoinResponse{Code: code, Generation: noGeneration, MemberID: req.MemberID}) }
	if req.Group == "" {
		refuse(InvalidGroupID)
		return
	}
	// A member id that nobody gave out belongs to no group of ours.
	e, _, code := c.find(req.Group, req.MemberID == "")
	if code == GroupIDNotFound {
		code = UnknownMemberID
	}
	if code != OK {
		refuse(code)
		return
	}
	growth := e.group.growth(req)
	if !c.reserve(growth) {
		e.mu.Unlock()
		c.full(req.Group)
		refuse(CoordinatorLoading)
		return
	}
	req.Protocols = cloneProtocols(req.Protocols)
	e.nextToken++
	e.joins[e.nextToken] = done
	generation := e.group.generation
	answers := e.group.Join(c.clock(), e.nextToken, req, newMemberID(req))
	c.recount(e, growth)
	c.finish(e, generation, answers)
}

// newMemberID is "client-<random>", or "instance-<random>" for a static
// member, as Kafka's are; the random part is what fences.
func newMemberID(req JoinRequest) string {
	name := req.ClientID
	if req.InstanceID != "" {
		name = req.InstanceID
	}
	return name + "-" + catalog.NewUUID().String()
}

func cloneProtocols(ps []Protocol) []Protocol {
	out := make([]Protocol, len(ps))
	for i, p := range ps {
		out[i] = Protocol{p.Name, bytes.Clone(p.Metadata)}
	}
	return out
}

// Sync takes a SyncGroup.
func (c *Coordinator) Sync(req SyncRequest, done func(SyncResponse)) {
	e, code := c.member(req.Group)
	if code != OK {
		done(SyncResponse{Code: code})
		return
	}
	var growth int64
	for _, a := range req.Assignments {
		growth += int64(len(a.Bytes))
	}
	if !c.reserve(growth) {
		e.mu.Unlock()
		c.full(req.Group)
		// Unlike COORDINATOR_LOAD_IN_PROGRESS this is one that all clients take as a reason to come again.
		done(SyncResponse{Code: CoordinatorNotAvailable})
		return
	}
	assignments := make([]Assignment, len(req.Assignments))
	for i, a := range req.Assignments {
		assignments[i] = Assignment{a.MemberID, bytes.Clone(a.Bytes)}
	}
	req.Assignments = assignments
	e.nextToken++
	e.syncs[e.nextToken] = done
	generation := e.group.generation
	answers := e.group.Sync(c.clock(), e.nextToken, req)
	c.recount(e, growth)
	c.finish(e, generation, answers)
}

// member finds the locked entry of a group that somebody claims to be in.
func (c *Coordinator) member(group string) (*entry, Code) {
	if group == "" {
		return nil, InvalidGroupID
	}
	e, _, code := c.find(group, false)
	if code == GroupIDNotFound {
		code = UnknownMemberID
	}
	return e, code
}

// Heartbeat answers a Heartbeat.
func (c *Coordinator) Heartbeat(who Identity) Code {
	e, code := c.member(who.Group)
	if code != OK {
		return code
	}
	code = e.group.Heartbeat(c.clock(), who)
	c.timers.schedule(e)
	e.mu.Unlock()
	return code
}

// Leave answers a LeaveGroup. A code that is not OK is for the whole request.
func (c *Coordinator) Leave(group string, who []LeaveMember) (Code, []LeaveResult) {
	e, code := c.member(group)
	if code == UnknownMemberID {
		results := make([]LeaveResult, len(who))
		for i, w := range who {
			results[i] = LeaveResult{w, UnknownMemberID}
		}
		return OK, results
	}
	if code != OK {
		return code, nil
	}
	generation := e.group.generation
	results, answers := e.group.Leave(c.clock(), who)
	c.recount(e, 0)
	c.finish(e, generation, answers)
	return OK, results
}

// task runs f on a goroutine that Close waits for. Its context ends after
// StoreTimeout, waiting for a turn included, so that nobody queues for long
// behind a store that hangs. It reports false when the Coordinator is closed.
func (c *Coordinator) task(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.opts.StoreTimeout)
		defer cancel()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done(): // f finds out and answers
		}
		f(ctx)
	})
	return true
}
