package catalog

import (
	"fmt"
	"slices"
)

// EffectiveMinISR is how many in-sync replicas an acknowledgement needs: the setting, or all replicas
// where there are fewer.
func EffectiveMinISR(setting, replicas int) int { return max(1, min(setting, replicas)) }

// NextELR is the eligible set of p once its in-sync set is isr. A change that leaves fewer than
// min.insync.replicas members puts those who leave into it, save those of an old incarnation; one that
// leaves enough empties it, because HW moves again without its members (KIP-966; H6, model finding 5).
// current says whether a member is the registered incarnation of its broker.
func NextELR(p Partition, isr []Member, minISR int, current func(Member) bool) []Member {
	if len(isr) >= EffectiveMinISR(minISR, len(p.Replicas)) {
		return nil
	}
	var elr []Member
	for _, m := range slices.Concat(p.ELR, p.ISR) {
		if slices.ContainsFunc(isr, func(in Member) bool { return in.Broker == m.Broker }) || slices.Contains(elr, m) {
			continue
		}
		if current(m) && slices.Contains(p.Replicas, m.Broker) {
			elr = append(elr, m)
		}
	}
	return elr
}

// CheckISR judges the in-sync set that c wants of p. current as in [NextELR]; live says whether the
// broker of a member has its lease.
func CheckISR(p Partition, c ISRChange, current, live func(Member) bool) error {
	if p.Version != c.IfVersion {
		return fmt.Errorf("%w: partition %s is at version %d, not %d", ErrFenced, p.ID, p.Version, c.IfVersion)
	}
	for i, m := range c.ISR {
		if slices.Contains(c.ISR[:i], m) || !slices.Contains(p.Replicas, m.Broker) {
			return fmt.Errorf("%w: broker %d twice in the ISR of %s, or no replica of it", ErrInvalid, m.Broker, p.ID)
		}
		if !slices.Contains(p.ISR, m) && !(current(m) && live(m)) {
			return fmt.Errorf("%w: broker %d with incarnation %d cannot join the ISR of %s", ErrFenced, m.Broker, m.Incarnation, p.ID)
		}
	}
	return nil
}
