package handler

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/metadata"
)

// maxTopicName is Kafka's limit: a file name of 255 less a partition's suffix.
const maxTopicName = 249

// checkTopicName holds a name to Kafka's rules (org.apache.kafka.common.internals.Topic.validate).
func checkTopicName(name string) error {
	switch {
	case name == "":
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: '%s' is not allowed", name)
	case len(name) > maxTopicName:
		return refuse(kerr.InvalidTopicException,
			"Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	}
	for i := range len(name) {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return refuse(kerr.InvalidTopicException,
				"Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

// checkCollision refuses a name that a metric of the topic could not be told from, as Kafka does: names
// that differ in '.' and '_' alone.
func checkCollision(im *metadata.Image, name string) error {
	if other, ok := im.Collides(name); ok {
		return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}
