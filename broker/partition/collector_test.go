package partition_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker/partition"
)

// value reads a metric without labels.
func value(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(c))
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestMetricsTellOfInSyncSetsAndOfWhatWaitsForUpload(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "2", "remote.copy.lag.ms": "-1", "remote.copy.lag.bytes": "-1"})
	one := w.nodes[1]
	is := func(name string, want float64) {
		t.Helper()
		w.until(func() bool { return value(t, partition.NewCollector(one.set), "tidemark_partition_"+name) == want }, "%s is %v", name, want)
	}
	for _, name := range []string{"under_replicated", "under_min_isr", "at_min_isr", "upload_waiting_bytes"} {
		is(name, 0)
	}
	shrinks, expands := one.set.ISRChanges()
	one.write("v0")
	one.part().Roll()
	is("upload_waiting_bytes", float64(len(batch("v0"))))

	w.nodes[3].kill()
	one.scribble("v1")
	one.takesOut(3)
	is("under_replicated", 1)
	is("at_min_isr", 1)
	is("under_min_isr", 0)
	require.Equal(t, 1.0, value(t, shrinks, "tidemark_partition_isr_shrinks_total"))
	w.nodes[2].kill()
	one.scribble("v2")
	one.takesOut(2)
	is("under_min_isr", 1)
	is("at_min_isr", 0)
	before := value(t, expands, "tidemark_partition_isr_expands_total")
	w.nodes[2].back()
	w.nodes[3].back()
	w.pull()
	is("under_replicated", 0)
	require.Greater(t, value(t, expands, "tidemark_partition_isr_expands_total"), before)
}
