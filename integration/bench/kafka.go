package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const kafkaVersion = "4.4.0"

// kafkaProperties are the defaults of the distribution's config/server.properties, but for addresses, folders, one copy of
// the internal topics, and deleted segments that go at once rather than after a minute, for the disk's sake.
const kafkaProperties = `process.roles=broker,controller
node.id=%[4]d
controller.quorum.voters=%[5]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
`

// kafkaJVM is what bin/kafka-server-start.sh gives the Java machine.
var kafkaJVM = []string{
	"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
	"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
}

// jars is the folder with Kafka's jars, fetched by Maven on first use.
func jars(s settings) (string, error) {
	dir := filepath.Join(s.Cache, "kafka-"+kafkaVersion)
	if found, _ := filepath.Glob(filepath.Join(dir, "kafka_2.13-*.jar")); len(found) > 0 {
		return dir, nil
	}
	cmd := exec.Command("mvn", "-q", "-B", "dependency:copy-dependencies", "-Djars="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Kafka %s: %w: %s", kafkaVersion, err, out)
	}
	return dir, nil
}

// java is a command of a class in Kafka's jars.
func java(jars string, options []string, class string, args ...string) []string {
	return append(append(append([]string{}, options...), "-cp", filepath.Join(jars, "*"), class), args...)
}

// newKafka formats a data folder for each broker and describes those that will use them. Each of a cluster is broker and
// controller.
func newKafka(s settings, dir string) (*peer, error) {
	jars, err := jars(s)
	if err != nil {
		return nil, err
	}
	return kafkaPeer(s, dir, jars, "")
}

// kafkaPeer is newKafka with jars of its own, more properties, and more options of the Java machine.
func kafkaPeer(s settings, dir, jars, properties string, options ...string) (*peer, error) {
	n := s.brokers()
	addresses, err := freePorts(n)
	if err != nil {
		return nil, err
	}
	controllers, err := freePorts(n)
	if err != nil {
		return nil, err
	}
	voters := make([]string, n)
	for i, c := range controllers {
		voters[i] = fmt.Sprintf("%d@%s", i+1, c)
	}
	folders := make([]string, n)
	for i := range folders {
		folders[i] = filepath.Join(dir, strconv.Itoa(i+1))
		text := fmt.Sprintf(kafkaProperties, addresses[i], controllers[i], filepath.Join(folders[i], "data"), i+1, strings.Join(voters, ",")) + properties
		if err := formatKafka(jars, folders[i], text); err != nil {
			return nil, err
		}
	}
	return &peer{
		name: "kafka", address: strings.Join(addresses, ","), brokers: n, topic: s.topic(),
		launch: func(*peer) (servers, error) {
			return start(n, func(i int) (*process, error) {
				return spawn(filepath.Join(folders[i], "log"), nil, "java",
					java(jars, slices.Concat(kafkaJVM, options), "kafka.Kafka", filepath.Join(folders[i], propertiesFile))...)
			})
		},
	}, nil
}

const propertiesFile = "server.properties"

// formatKafka makes a node's folder.
func formatKafka(jars, dir, properties string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, propertiesFile)
	if err := os.WriteFile(file, []byte(properties), 0o644); err != nil {
		return err
	}
	format := java(jars, nil, "kafka.tools.StorageTool", "format", "-t", "dGlkZW1hcmstYmVuY2gtMQ", "-c", file)
	if out, err := exec.Command("java", format...).CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's folder: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
