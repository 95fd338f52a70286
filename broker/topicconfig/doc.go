// Package topicconfig knows every topic config of Kafka 3.0 to 4.4 and the few of ours: its type, default, valid range,
// meaning and whether it has an effect here. It parses and checks values, merges the three layers that give a topic its
// settings, and answers what DescribeConfigs shows for topics, brokers and groups.
//
// Place in the house: pure values and text, no I/O and no clock. `broker/config` turns TIDEMARK_DEFAULT_… variables into
// Defaults; the admin handlers call Apply, Check and Describe; the partitions get the typed Topic of Resolve.
//
// Invariants: names unknown to the table and values outside their range never pass Check or Apply; Resolve never fails for
// overrides that passed them, whatever the broker-wide defaults have become since (cross-checks belong to Check alone);
// no function keeps or changes a map that it is given.
package topicconfig
