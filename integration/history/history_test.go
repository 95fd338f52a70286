package history

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	p0  = Partition{"t", 0}
	p1  = Partition{"t", 1}
	now = time.Unix(0, 0)
)

// story is a run of two producers' values 0 to 3, all to partition 0, told by the steps of a row.
type story struct {
	name  string
	steps func(h *History, v []Value)
	kinds []string // what Judge finds
}

func (h *History) ack(offset int64, v Value) { h.Acked(p0, offset, v, now) }

func (h *History) log(vs ...Value) {
	for o, v := range vs {
		h.Found(p0, int64(o), v)
	}
}

func (h *History) poll(who string, from int64, vs ...Value) {
	for i, v := range vs {
		h.Polled(who, p0, from+int64(i), v)
	}
}

func TestAnomalies(t *testing.T) {
	for _, s := range []story{
		{"all is well", func(h *History, v []Value) {
			for o := range v {
				h.ack(int64(o), v[o])
			}
			h.log(v...)
			h.poll("c", 0, v...)
		}, nil},
		{"a value whose producer heard nothing is there", func(h *History, v []Value) {
			h.ack(0, v[0])
			h.log(v...)
			h.poll("c", 0, v...)
		}, nil},
		{"an acknowledged value is gone", func(h *History, v []Value) {
			h.ack(0, v[0])
			h.ack(1, v[1])
			h.log(v[0])
			h.poll("c", 0, v[0], v[1])
		}, []string{"lost write"}},
		{"an acknowledged value is gone and another has its offset", func(h *History, v []Value) {
			h.ack(0, v[0])
			h.log(v[1])
			h.poll("c", 0, v[1])
		}, []string{"inconsistent offset"}},
		{"two consumers see two values", func(h *History, v []Value) {
			h.poll("c", 0, v[0])
			h.poll("d", 0, v[1])
			h.log(v[1])
		}, []string{"inconsistent offset"}},
		{"written twice", func(h *History, v []Value) {
			h.ack(0, v[0])
			h.log(v[0], v[0])
			h.poll("c", 0, v[0], v[0])
		}, []string{"duplicate"}},
		{"a consumer never gets it", func(h *History, v []Value) {
			h.ack(0, v[0])
			h.ack(1, v[1])
			h.log(v[0], v[1])
			h.poll("c", 0, v[0])
		}, []string{"unseen"}},
		{"a consumer goes back", func(h *History, v []Value) {
			h.log(v[0], v[1])
			h.poll("c", 0, v[0], v[1])
			h.poll("c", 0, v[0])
		}, []string{"non-monotonic poll"}},
		{"a consumer goes back because its group said so", func(h *History, v []Value) {
			h.log(v[0], v[1])
			h.poll("c", 0, v[0], v[1])
			h.Placed("c", p0, -1)
			h.poll("c", 0, v[0])
		}, nil},
		{"a consumer skips", func(h *History, v []Value) {
			h.log(v[0], v[1], v[2])
			h.poll("c", 0, v[0])
			h.poll("c", 2, v[2])
		}, []string{"skipped poll"}},
		{"later before earlier", func(h *History, v []Value) {
			h.log(v[1], v[0])
			h.poll("c", 0, v[1], v[0])
		}, []string{"disorder"}},
		{"in a partition that it was not sent to", func(h *History, v []Value) {
			h.Found(p1, 0, v[0])
		}, []string{"from nowhere"}},
		{"given up", func(h *History, v []Value) {
			h.Refused(p0, v[0], errors.New("no"))
		}, []string{"refused"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			h := New()
			var v []Value
			for range 4 {
				v = append(v, h.Sent(1, p0))
			}
			s.steps(h, v)
			got := h.Judge([]string{"c"})
			require.Equal(t, s.kinds, slices.Sorted(maps.Keys(got.Counts)), "%s", got)
		})
	}
}

// Two members of a group see everything between them.
func TestMembersOfAGroupShare(t *testing.T) {
	h := New()
	a, b := h.Sent(1, p0), h.Sent(1, p0)
	h.ack(0, a)
	h.ack(1, b)
	h.log(a, b)
	h.poll("m1", 0, a)
	h.Placed("m2", p0, 1)
	h.poll("m2", 1, b)
	require.Empty(t, h.Judge([]string{"m1", "m2"}).Counts)
	require.Equal(t, map[string]int{"unseen": 2}, h.Judge([]string{"m1"}, []string{"m2"}).Counts)
}

// The longest silence counts the one that lasts.
func TestSilence(t *testing.T) {
	h := New()
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	h.Acked(p0, 0, h.Sent(1, p0), at(0))
	h.Acked(p0, 1, h.Sent(1, p0), at(3))
	h.Acked(p1, 0, h.Sent(1, p1), at(4))
	require.Equal(t, 3*time.Second, h.Silence(at(5)))
	require.Equal(t, 4*time.Second, h.Silence(at(9)))
}
