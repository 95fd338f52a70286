package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A broker is decommissioned under load: everything moves off it, nothing is lost, it gets no new topics, and when it has
// been stopped nobody names it. Where a topic would have fewer replicas nothing is moved at all. The command is given
// again after it was taken back.
func TestABrokerIsDecommissionedUnderLoad(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{env: map[string]string{"TIDEMARK_DEFAULT_REPLICATION_FACTOR": "2"}})
	for n := range 4 {
		c.assign(fmt.Sprintf("small-%d", n), []int32{int32(n%3 + 1), int32((n+1)%3 + 1)}, "min.insync.replicas", "1")
	}
	c.assign("wide", []int32{1, 2, 3}, "min.insync.replicas", "2")
	c.assign("busy", []int32{2, 3}, "min.insync.replicas", "1")
	for _, m := range c.members {
		c.until(recovery, "every broker knows the topic", func() error {
			ps, err := c.topicOf(m, "busy")
			if err == nil && ps[0].Leader != 2 {
				err = fmt.Errorf("broker %d names leader %d", m.id, ps[0].Leader)
			}
			return err
		})
	}
	w := c.work("busy", 1, usual)
	w.flows(recovery, "a healthy cluster takes records")

	goes := c.member(2)
	tool := func(args ...string) (string, int) {
		out, diag, code := c.member(1).Tool(append([]string{"broker"}, args...)...)
		return out + diag, code
	}
	said, code := tool("decommission", "2")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "broker 2 cannot leave: wide-0 has 3 replicas, and only 2 other brokers are live and stay")
	require.Equal(t, "live", c.listed(2).State)
	_, _, code = goes.Tool("topic", "delete", "wide")
	require.Zero(t, code)

	c.until(recovery, "all is moved", func() error { // the first broker may not have heard yet that the topic is gone
		if said, code = tool("decommission", "2", "--json"); code != 0 {
			return errors.New(said)
		}
		return nil
	})
	require.Contains(t, said, "Stop it, and it has left.")
	c.until(recovery, "it leads nothing and has nothing", func() error {
		if l := c.listed(2); l != (brokerLine{ID: 2, State: "leaving"}) {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	said, code = tool("decommission", "2")
	require.Zero(t, code, "there is nothing left to do: %s", said)
	w.flows(recovery, "records flow")

	for range 3 {
		name := fmt.Sprintf("later-%d", time.Now().UnixNano())
		_, diag, code := goes.Tool("topic", "create", name, "--partitions", "6")
		require.Zero(t, code, diag)
		c.until(recovery, "the topic is known", func() error {
			ps, err := c.topic(name)
			for _, p := range ps {
				require.NotContains(t, p.Replicas, int32(2))
			}
			return err
		})
	}
	said, code = tool("decommission", "2", "--undo")
	require.Zero(t, code, said)
	c.until(recovery, "the first broker has heard that it stays", func() error {
		if l := c.listed(2); l.State != "live" {
			return fmt.Errorf("%v", l)
		}
		return nil
	})
	said, code = tool("decommission", "2")
	require.Zero(t, code, said)

	goes.down = true
	require.Zero(t, goes.Term())
	c.until(recovery, "nobody names it", func() error {
		lines := c.brokers()
		if slices.ContainsFunc(lines, func(l brokerLine) bool { return l.ID == 2 }) {
			return fmt.Errorf("%v", lines)
		}
		return nil
	})
	said, code = tool("decommission", "2")
	require.Equal(t, 1, code)
	require.Contains(t, said, "there is no broker 2")

	// One that is away and has nothing: it may come back, and may leave for good.
	said, code = tool("decommission", "2", "--undo")
	require.Zero(t, code, said)
	c.until(recovery, "it is named again", func() error {
		lines := c.brokers()
		if !slices.Contains(lines, brokerLine{ID: 2, State: "away"}) {
			return fmt.Errorf("%v", lines)
		}
		return nil
	})
	said, code = tool("decommission", "2")
	require.Zero(t, code, said)
	require.Contains(t, said, "it has left")
	w.end()
}

// brokerLine is a line of `tidemark broker list --json`.
type brokerLine struct {
	ID       int32  `json:"id"`
	State    string `json:"state"`
	Leaders  int    `json:"leaders"`
	Replicas int    `json:"replicas"`
}

func (c *cluster) brokers() []brokerLine {
	c.t.Helper()
	out, diag, code := c.member(1).Tool("broker", "list", "--json")
	require.Zero(c.t, code, diag)
	var lines []brokerLine
	require.NoError(c.t, json.Unmarshal([]byte(out), &lines), out)
	return lines
}

func (c *cluster) listed(id int32) brokerLine {
	c.t.Helper()
	for _, l := range c.brokers() {
		if l.ID == id {
			return l
		}
	}
	return brokerLine{}
}
