package partition

import (
	"errors"
	"fmt"

	"tidemark/broker/topicconfig"
	"tidemark/hotlog"
	"tidemark/record"
)

// AcksAll is Kafka's acks=-1.
const AcksAll = -1

// Appended says where a client's batch is.
type Appended struct {
	// Base is the offset of the first record; a duplicate's is the original's.
	Base record.Offset
	// AppendTime is in ms for topics with LogAppendTime, else -1.
	AppendTime int64
	// Start is the log start offset.
	Start record.Offset
	// Ack is what acks=all waits for.
	Ack Ack
}

// Append judges and appends the records of one produce request: exactly one batch, as Kafka demands of
// produce ≥ v3. The batch is stamped in place. When it returns, the append is done: the bytes may be
// reused; readers hear of it when arrived is announced. Errors: ErrNotLeader, ErrNotEnoughReplicas, ErrTimestamp, ErrTransaction, record.Err…,
// producer.Err…, hotlog.ErrDiskFull, hotlog.ErrFailed.
func (p *Partition) Append(records []byte, acks int16, arrived *Arrivals) (Appended, error) {
	// What cannot be appended is not judged, and what is judged, which may take long (record.Judge), holds up no role.
	if err := p.appendable(acks); err != nil {
		return Appended{}, err
	}
	batch, sum, err := p.judge(records, p.env.wall().UnixMilli())
	if err != nil {
		return Appended{}, err
	}
	p.roleMu.RLock()
	defer p.roleMu.RUnlock()
	lead, err := p.appendableLocked(acks, len(batch))
	if err != nil {
		return Appended{}, err
	}
	cfg, now := p.cfg.Load(), p.env.wall().UnixMilli()
	var one [1]record.Summary
	one[0] = sum
	done, err := p.log.Append(hotlog.AppendRequest{
		Batches: batch, Summaries: one[:], Epoch: lead.guard.Epoch,
		AppendTime: now, LogAppendTime: cfg.LogAppendTime,
	})
	if err != nil {
		return Appended{}, p.appendFailed(err)
	}
	if !done.Duplicate {
		p.env.metrics.appended(len(batch), sum.Records)
		p.lift(lead)
		arrived.at = append(arrived.at, p)
		p.touch()
		p.flushLater()
		if done.Rolled {
			p.sealed()
		}
	}
	return Appended{
		Base: done.Base, AppendTime: done.AppendTime, Start: record.Offset(p.start.Load()),
		Ack: Ack{p: p, lead: lead, offset: done.Last + 1},
	}, nil
}

func (p *Partition) appendable(acks int16) error {
	p.roleMu.RLock()
	defer p.roleMu.RUnlock()
	_, err := p.appendableLocked(acks, 0)
	return err
}

// appendableLocked is the leadership under which a client may append so many bytes now. The caller holds roleMu in read mode.
func (p *Partition) appendableLocked(acks int16, bytes int) (*leadership, error) {
	lead, err := p.leading()
	if err != nil {
		return nil, err
	}
	if acks == AcksAll && !lead.enough() {
		return nil, fmt.Errorf("%w: %d in sync, %d wanted", ErrNotEnoughReplicas, lead.inSync.Load(), lead.minISR.Load())
	}
	if p.env.pressure.refuseProduce(bytes) {
		return nil, fmt.Errorf("%w: above the first mark", hotlog.ErrDiskFull)
	}
	return lead, nil
}

// judge is R4's one function with the client's rules, then the topic's limits.
func (p *Partition) judge(records []byte, now int64) ([]byte, record.Summary, error) {
	if len(records) == 0 {
		return nil, record.Summary{}, fmt.Errorf("%w: no batch; a produce carries one for each partition it names", record.ErrInvalidRecord)
	}
	batch, rest, err := record.Split(records)
	if err != nil {
		return nil, record.Summary{}, err
	}
	if len(rest) > 0 {
		return nil, record.Summary{}, fmt.Errorf("%w: %d bytes after the one batch that a produce may carry",
			record.ErrInvalidRecord, len(rest))
	}
	cfg := p.cfg.Load()
	sum, err := record.Judge(batch, record.Rules{
		Client: true, Dense: true, KeyRequired: cfg.CleanupCompact, MaxBytes: maxBytes(cfg),
	})
	if err != nil {
		if errors.Is(err, record.ErrTooLarge) && len(batch) > maxBytes(cfg) {
			err = tooLarge(err, cfg)
		}
		return nil, sum, err
	}
	if sum.Header.IsTransactional() {
		return nil, sum, fmt.Errorf("%w: producer %d", ErrTransaction, sum.Header.ProducerID)
	}
	if !cfg.LogAppendTime {
		if err := checkTimestamps(sum, now, int64(cfg.TimestampBeforeMaxMs), int64(cfg.TimestampAfterMaxMs)); err != nil {
			return nil, sum, err
		}
		if sum.MaxTimestamp != sum.Header.MaxTimestamp {
			record.StampMaxTimestamp(batch, sum.MaxTimestamp)
			sum.Header.MaxTimestamp = sum.MaxTimestamp
		}
	}
	return recompress(batch, sum, cfg)
}

// maxBytes is max.message.bytes as record has it, where 0 means no bound: no batch is as small as a byte.
func maxBytes(cfg *topicconfig.Topic) int { return max(1, int(cfg.MaxMessageBytes)) }

func tooLarge(err error, cfg *topicconfig.Topic) error {
	return fmt.Errorf("%w: the topic's max.message.bytes is %d; raise it or send smaller batches", err, cfg.MaxMessageBytes)
}

// farthest bounds timestamps, in ms from 1970 to both sides, so that the difference of any two fits into the delta that
// a record holds, whatever base its batch gets when it is written anew.
const farthest = 1 << 62

// checkTimestamps bounds client timestamps around the broker's clock (KIP-937). Records without one
// are let through, as in Kafka.
func checkTimestamps(sum record.Summary, now, before, after int64) error {
	switch lo, hi := sum.MinTimestamp, sum.MaxTimestamp; {
	case lo < -farthest || hi > farthest:
		return fmt.Errorf("%w: %d to %d are no times of records", ErrTimestamp, lo, hi)
	case lo != record.NoTimestamp && before >= 0 && now-lo > before:
		return fmt.Errorf("%w: %d is more than %d ms (message.timestamp.before.max.ms) before the broker's %d",
			ErrTimestamp, lo, before, now)
	case hi != record.NoTimestamp && after >= 0 && hi-now > after:
		return fmt.Errorf("%w: %d is more than %d ms (message.timestamp.after.max.ms) after the broker's %d",
			ErrTimestamp, hi, after, now)
	}
	return nil
}

// appendFailed looks at a failed append: a log that failed for good is not used any more (H28).
func (p *Partition) appendFailed(err error) error {
	switch {
	case errors.Is(err, hotlog.ErrFailed):
		p.env.metrics.logFailures.Inc()
		if !p.failed.Swap(true) {
			p.out.Error("the local log has failed; the partition is not served by this process any more", "error", err)
			p.env.logFailed()
		}
	case errors.Is(err, hotlog.ErrDiskFull):
		p.env.pressure.full()
	}
	return err
}

// lift moves the high watermark to what every in-sync replica has: what the followers have, and what this
// log may count as its own. The caller holds roleMu in read mode, so that it is not done under an in-sync set
// that has been changed since, and wakes who waits.
func (p *Partition) lift(lead *leadership) (hw record.Offset, lifted bool) {
	hw = min(p.log.Bounds().Acked, record.Offset(lead.reach.Load()))
	return hw, raise(&p.hw, hw)
}

// advance lifts the high watermark and wakes who waits for it at once.
func (p *Partition) advance(lead *leadership) {
	if hw, lifted := p.lift(lead); lifted {
		p.waiters.reached(hw)
		p.tail.wake()
	}
}

// sealed tells whoever waits for sealed segments.
func (p *Partition) sealed() {
	p.mu.Lock()
	p.expireNow = true
	p.mu.Unlock()
	p.env.tier.Wake(p.ID)
	p.env.poke()
}
