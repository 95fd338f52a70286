package cache

// queue holds the downloads that wait, in turn over their owners and in order within one, so that a connection with
// many cold partitions does not keep the others waiting. Not safe for concurrent use.
type queue struct {
	byOwner map[uint64][]*load
	turns   []uint64 // owners with waiting loads, next one first
	n       int
}

func (q *queue) push(l *load) {
	if q.byOwner == nil {
		q.byOwner = map[uint64][]*load{}
	}
	if len(q.byOwner[l.req.Owner]) == 0 {
		q.turns = append(q.turns, l.req.Owner)
	}
	q.byOwner[l.req.Owner] = append(q.byOwner[l.req.Owner], l)
	q.n++
}

// next is the load whose turn it is, or nil; it stays until pop.
func (q *queue) next() *load {
	if q.n == 0 {
		return nil
	}
	return q.byOwner[q.turns[0]][0]
}

// pop removes next and passes the turn on.
func (q *queue) pop() {
	owner := q.turns[0]
	rest := q.byOwner[owner][1:]
	q.turns = q.turns[1:]
	if len(rest) == 0 {
		delete(q.byOwner, owner)
	} else {
		q.byOwner[owner] = rest
		q.turns = append(q.turns, owner)
	}
	q.n--
}
