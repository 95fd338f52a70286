package broker

import "github.com/prometheus/client_golang/prometheus"

// clusterMetrics are what this broker's part in the cluster shows.
type clusterMetrics struct {
	controls prometheus.Gauge
	slots    prometheus.Gauge
	takenOut prometheus.Counter
	clean    prometheus.Counter
	mayLose  prometheus.Counter
	spread   prometheus.Counter
	moved    prometheus.Counter
}

func newClusterMetrics(reg prometheus.Registerer) *clusterMetrics {
	elections := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_cluster_elections_total",
		Help: "Leaders that this broker has elected as controller, by kind: clean, may_lose (from outside ISR and ELR, H5), spread (back to the preferred replica), move (the end of a move)."},
		[]string{"kind"})
	m := &clusterMetrics{
		controls: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_cluster_controller", Help: "1 while this broker is the controller."}),
		slots: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_cluster_slots", Help: "Coordinator slots that this broker holds, of 64."}),
		takenOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_cluster_taken_out_total", Help: "Brokers that this one has taken out as controller because their lease ran out."}),
		clean: elections.WithLabelValues("clean"), mayLose: elections.WithLabelValues("may_lose"),
		spread: elections.WithLabelValues("spread"), moved: elections.WithLabelValues("move"),
	}
	if reg != nil {
		reg.MustRegister(elections, m.controls, m.slots, m.takenOut)
	}
	return m
}
