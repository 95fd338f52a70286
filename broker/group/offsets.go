package group

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// CommitRequest is OffsetCommit.
type CommitRequest struct {
	Identity
	Topics []CommitTopic
}

// CommitTopic names a topic by ID (version 10) or, if that is zero, by Name.
type CommitTopic struct {
	Name       string
	ID         catalog.TopicID
	Partitions []CommitPartition
}

// CommitPartition is one offset; LeaderEpoch is record.NoEpoch if there is none.
type CommitPartition struct {
	Partition   int32
	Offset      record.Offset
	LeaderEpoch record.Epoch
	Metadata    string
}

// CommitResponse has the topics and partitions of its request in their order.
type CommitResponse struct {
	Topics []CommittedTopic
}

// CommittedTopic is one topic of a CommitResponse.
type CommittedTopic struct {
	Name       string
	ID         catalog.TopicID
	Partitions []CommittedPartition
}

// CommittedPartition says whether one offset is durable.
type CommittedPartition struct {
	Partition int32
	Code      Code
}

// CommitOffsets takes an OffsetCommit. It is checked and queued when
// CommitOffsets returns; done is called when every partition is durable or
// refused.
func (c *Coordinator) CommitOffsets(req CommitRequest, done func(CommitResponse)) {
	call := &commitCall{done: done}
	total := 0
	call.resp.Topics = make([]CommittedTopic, len(req.Topics))
	for i, t := range req.Topics {
		call.resp.Topics[i] = CommittedTopic{Name: t.Name, ID: t.ID, Partitions: make([]CommittedPartition, len(t.Partitions))}
		for j, p := range t.Partitions {
			call.resp.Topics[i].Partitions[j].Partition = p.Partition
		}
		total += len(t.Partitions)
	}
	// One more than the partitions, so that it cannot be done before we are.
	call.left.Store(int64(total) + 1)
	if code := c.commit(req, call); code != OK {
		for i := range call.resp.Topics {
			setCodes(call.resp.Topics[i].Partitions, code)
		}
		call.left.Store(1)
	}
	call.settle(1)
}

func setCodes(ps []CommittedPartition, code Code) {
	for i := range ps {
		ps[i].Code = code
	}
}

// commit returns a code that is not OK if nothing of the call was queued.
func (c *Coordinator) commit(req CommitRequest, call *commitCall) Code {
	outsider := req.Generation < 0 && req.MemberID == "" && req.InstanceID == ""
	e, guard, code := c.find(req.Group, outsider)
	if code == GroupIDNotFound {
		return UnknownMemberID
	}
	if code != OK {
		return code
	}
	now := c.clock()
	generation := e.group.generation
	code = e.group.CheckCommit(now, req.Identity)
	if code == OK && e.cache.deleting {
		code = CoordinatorLoading
	}
	var answers []Answer
	settled := 0
	if code == OK {
		var items []commitItem
		e.kept = true
		items, settled, answers = c.commitItems(e, guard, req, call)
		if code = c.batcher.add(e, items); code != OK {
			// Those that were answered already stay as they are.
			for _, it := range items {
				*it.waiter.code = code
			}
			settled += len(items)
			code = OK
		}
	}
	c.finish(e, generation, answers)
	if settled > 0 {
		call.settle(settled)
	}
	return code
}

// commitItems sorts out what needs no write; settled counts it.
func (c *Coordinator) commitItems(e *entry, guard catalog.SlotGuard, req CommitRequest, call *commitCall) (items []commitItem, settled int, answers []Answer) {
	now := c.clock()
	for i, t := range req.Topics {
		id, code := c.resolve(t)
		parts := call.resp.Topics[i].Partitions
		if code == OK && t.ID == (catalog.TopicID{}) {
			var more []Answer
			code, more = e.group.UseTopic(now, t.Name, id)
			answers = append(answers, more...)
		}
		if code != OK {
			setCodes(parts, code)
			settled += len(parts)
			continue
		}
		for j, p := range t.Partitions {
			w := catalog.OffsetWrite{Guard: guard, CommittedOffset: catalog.CommittedOffset{
				Group: req.Group, Partition: catalog.PartitionID{Topic: id, Partition: p.Partition},
				Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, CommitTime: time.Now(),
			}}
			switch {
			case len(p.Metadata) > c.opts.MaxMetadata:
				parts[j].Code = OffsetMetadataTooLarge
				settled++
			case e.cache.unchanged(w.CommittedOffset) && c.opts.Sure():
				c.opts.Metrics.unchanged.Inc()
				settled++
			default:
				items = append(items, commitItem{w, commitWaiter{call, &parts[j].Code, t.ID != (catalog.TopicID{})}})
			}
		}
	}
	return items, settled, answers
}

func (c *Coordinator) resolve(t CommitTopic) (catalog.TopicID, Code) {
	if t.ID != (catalog.TopicID{}) {
		if _, ok := c.opts.Topics.TopicName(t.ID); !ok {
			return t.ID, UnknownTopicID
		}
		return t.ID, OK
	}
	id, ok := c.opts.Topics.TopicID(t.Name)
	if !ok {
		return id, UnknownTopicOrPartition
	}
	return id, OK
}

// committed settles one batch.
func (c *Coordinator) committed(batch []*queuedCommit, errs []error, err error) {
	if err != nil && !errors.Is(err, errClosed) {
		c.opts.Metrics.failedBatch.Inc()
		c.opts.Log.Warn("offset commits failed", "entries", len(batch), "err", err)
	}
	for i, q := range batch {
		itemErr := err
		if err == nil {
			itemErr = errs[i]
		}
		code := commitCode(itemErr)
		q.e.mu.Lock()
		for range q.waiters {
			q.e.cache.settled(q.write.Partition)
		}
		switch code {
		case OK:
			c.opts.Metrics.committed.Inc()
			q.e.cache.durable(q.write.CommittedOffset)
		case UnknownTopicOrPartition:
			q.e.cache.removed(func(id catalog.PartitionID) bool { return id.Topic == q.write.Partition.Topic })
		default:
			q.e.cache.unclear(q.write.Partition)
		}
		q.e.mu.Unlock()
		for _, w := range q.waiters {
			*w.code = code
			if code == UnknownTopicOrPartition && w.byID {
				*w.code = UnknownTopicID
			}
			w.call.settle(1)
		}
	}
}

func commitCode(err error) Code {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, catalog.ErrUnknownTopic):
		return UnknownTopicOrPartition
	case errors.Is(err, catalog.ErrFenced):
		return NotCoordinator
	}
	return CoordinatorNotAvailable
}

// TopicPartitions names partitions of a topic by ID or, if that is zero, by Name.
type TopicPartitions struct {
	Name       string
	ID         catalog.TopicID
	Partitions []int32
}

// FetchRequest is OffsetFetch of one group. All asks for every topic.
type FetchRequest struct {
	Group  string
	All    bool
	Topics []TopicPartitions
}

// FetchedPartition is one committed offset; Offset is -1 if there is none.
type FetchedPartition struct {
	Partition   int32
	Offset      record.Offset
	LeaderEpoch record.Epoch
	Metadata    string
	Code        Code
}

// FetchedTopic is one topic of a FetchResponse; ID and Name are both set when
// both are known.
type FetchedTopic struct {
	Name       string
	ID         catalog.TopicID
	Partitions []FetchedPartition
}

// FetchResponse answers a FetchRequest. If Code is not OK the partitions that
// were asked for carry it too: older clients look only there.
type FetchResponse struct {
	Code   Code
	Topics []FetchedTopic
}

// FetchOffsets takes an OffsetFetch. It answers from memory once the group has
// been read, and never before (G4, G11), nor while this broker is not sure to coordinate (G2): COORDINATOR_LOAD_IN_PROGRESS.
func (c *Coordinator) FetchOffsets(req FetchRequest, done func(FetchResponse)) {
	e, _, code := c.find(req.Group, true)
	if code != OK {
		done(c.fetched(nil, req, code))
		return
	}
	for _, t := range req.Topics {
		// From now on this generation's offsets are those of this topic.
		if id, ok := c.opts.Topics.TopicID(t.Name); ok && t.ID == (catalog.TopicID{}) {
			e.group.noteTopic(t.Name, id)
		}
	}
	c.whenLoaded(e, func(code Code) {
		e.mu.Lock()
		// What was loaded may have become unclear since.
		if code == OK && e.cache.state != loaded {
			code = CoordinatorLoading
		}
		if code == OK && !c.opts.Sure() {
			// At COORDINATOR_NOT_AVAILABLE librdkafka never asks again, and older Java consumers throw.
			code = CoordinatorLoading
		}
		resp := c.fetched(e, req, code)
		e.mu.Unlock()
		done(resp)
	})
}

// fetched is called under e.mu. A partition that is asked for again is answered once: its text may be a thousand times as
// long as its number.
func (c *Coordinator) fetched(e *entry, req FetchRequest, code Code) FetchResponse {
	resp := FetchResponse{Code: code}
	if req.All && code == OK {
		resp.Topics = c.fetchedAll(e)
		return resp
	}
	seen := map[catalog.PartitionID]bool{}
	for _, t := range req.Topics {
		out := FetchedTopic{Name: t.Name, ID: t.ID}
		topicCode := code
		if t.ID == (catalog.TopicID{}) {
			out.ID, _ = c.opts.Topics.TopicID(t.Name)
		} else if name, ok := c.opts.Topics.TopicName(t.ID); ok {
			out.Name = name
		} else if code == OK {
			topicCode = UnknownTopicID
		}
		for _, p := range t.Partitions {
			fp := FetchedPartition{Partition: p, Offset: -1, LeaderEpoch: record.NoEpoch, Code: topicCode}
			if topicCode == OK {
				id := catalog.PartitionID{Topic: out.ID, Partition: p}
				if seen[id] {
					continue
				}
				seen[id] = true
				if row, ok := e.cache.rows[id]; ok {
					fp = fetchedRow(row)
				}
			}
			out.Partitions = append(out.Partitions, fp)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func fetchedRow(row catalog.CommittedOffset) FetchedPartition {
	return FetchedPartition{Partition: row.Partition.Partition, Offset: row.Offset, LeaderEpoch: row.LeaderEpoch, Metadata: row.Metadata}
}

func (c *Coordinator) fetchedAll(e *entry) []FetchedTopic {
	at := map[catalog.TopicID]int{}
	var topics []FetchedTopic
	for id, row := range e.cache.rows {
		name, ok := c.opts.Topics.TopicName(id.Topic)
		if !ok {
			continue // deleted; its rows are on their way out
		}
		i, ok := at[id.Topic]
		if !ok {
			i = len(topics)
			at[id.Topic] = i
			topics = append(topics, FetchedTopic{Name: name, ID: id.Topic})
		}
		topics[i].Partitions = append(topics[i].Partitions, fetchedRow(row))
	}
	slices.SortFunc(topics, func(a, b FetchedTopic) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range topics {
		slices.SortFunc(t.Partitions, func(a, b FetchedPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	}
	return topics
}
