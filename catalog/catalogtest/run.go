package catalogtest

import (
	"testing"

	"tidemark/catalog"
)

// story is one test of the suite; its store is empty when it begins.
type story struct {
	name string
	run  func(w *World)
}

// Run tells all stories to stores that open makes: empty ones, closed when the test ends.
func Run(t *testing.T, open func(t *testing.T) catalog.Store) {
	groups := map[string][]story{
		"cluster": clusterStories, "brokers": brokerStories, "topics": topicStories, "states": stateStories,
		"elections": electionStories, "segments": segmentStories, "uploads": uploadStories, "removals": removalStories,
		"replicas": replicaStories, "moves": moveStories, "rewinds": rewindStories, "controllers": controllerStories, "jobs": jobStories, "offsets": offsetStories, "races": raceStories, "model": modelStories,
		"lost": lostStories, "resignations": resignStories, "inventory": inventoryStories, "restore": restoreStories,
	}
	for group, stories := range groups {
		t.Run(group, func(t *testing.T) {
			for _, s := range stories {
				t.Run(s.name, func(t *testing.T) { s.run(NewWorld(t, open(t))) })
			}
		})
	}
}
