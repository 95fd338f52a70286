package compaction

import "context"

// inputs are the objects of a rewrite, of which one is read and the next one begun.
type inputs struct {
	buffer     int
	left       []Object
	now, ahead BatchReader // nil: none
}

// mostAhead bounds what one reader of batches holds.
const mostAhead = 12 << 20

// ahead is what one reader of batches may hold: when batches are read no streams are, and of their half of the memory
// there are the reader at work, the one behind it, and one that looks for a transaction below.
func (p *pass) ahead() int { return int(min(p.memory/6, mostAhead)) }

// read reads the batches of rows [from, to), which are open.
func (p *pass) read(from, to int) *inputs {
	return &inputs{buffer: p.ahead(), left: p.opened[from:to]}
}

// next ends the reading of one object and returns the reader of the following one, which it owns.
func (in *inputs) next(ctx context.Context) BatchReader {
	if in.now != nil {
		in.now.Close()
	}
	if in.now = in.ahead; in.now == nil {
		in.now = in.begin(ctx)
	}
	in.ahead = nil
	if len(in.left) > 0 {
		in.ahead = in.begin(ctx)
	}
	return in.now
}

func (in *inputs) begin(ctx context.Context) BatchReader {
	r := in.left[0].ReadBatches(ctx, in.buffer)
	in.left = in.left[1:]
	return r
}

// close ends all reading.
func (in *inputs) close() {
	for _, r := range []BatchReader{in.now, in.ahead} {
		if r != nil {
			r.Close()
		}
	}
	in.now, in.ahead = nil, nil
}
