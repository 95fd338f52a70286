package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidemark/broker/admin"
)

// Every request has a connection of its own: a node dies and comes back behind the same address.
var web = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// Get reads a page of the node.
func (n *Node) Get(path string) (status int, body string, err error) {
	resp, err := web.Get(n.HTTP + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Metrics reads every sample of /metrics, by name with labels.
func (n *Node) Metrics() (map[string]float64, error) {
	status, body, err := n.Get("/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("metrics: %d %s", status, body)
	}
	out := map[string]float64{}
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		i := strings.LastIndexByte(s.Text(), ' ')
		if i < 0 || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		v, err := strconv.ParseFloat(s.Text()[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", s.Text(), err)
		}
		out[s.Text()[:i]] = v
	}
	return out, nil
}

// Metric is the sum of a metric's samples over its labels; 0 if there are none.
func (n *Node) Metric(name string) float64 {
	n.t.Helper()
	all, err := n.Metrics()
	if err != nil {
		n.t.Fatal(err)
	}
	sum := 0.0
	for sample, v := range all {
		if sample == name || strings.HasPrefix(sample, name+"{") {
			sum += v
		}
	}
	return sum
}

// Topics lists the live topics.
func (n *Node) Topics() ([]admin.Topic, error) {
	var got struct {
		Topics []admin.Topic `json:"topics"`
	}
	return got.Topics, n.api(&got, "/api/v1/topics")
}

// Tier describes a topic's two tiers.
func (n *Node) Tier(topic string) (admin.TopicTier, error) {
	var got admin.TopicTier
	return got, n.api(&got, "/api/v1/tier/"+url.PathEscape(topic))
}

// Partition describes one partition's two tiers.
func (n *Node) Partition(topic string, partition int32) (admin.Partition, error) {
	got, err := n.Tier(topic)
	if err != nil {
		return admin.Partition{}, err
	}
	for _, p := range got.Partitions {
		if p.Partition == partition {
			return p, nil
		}
	}
	return admin.Partition{}, fmt.Errorf("%s has no partition %d", topic, partition)
}

// Segments lists all objects of a partition that the catalog names, in offset order.
func (n *Node) Segments(topic string, partition int32) ([]admin.Segment, error) {
	var out []admin.Segment
	for after := int64(0); ; {
		var page admin.SegmentPage
		err := n.api(&page, fmt.Sprintf("/api/v1/tier/%s/segments?partition=%d&after=%d&limit=1000", url.PathEscape(topic), partition, after))
		if err != nil {
			return nil, err
		}
		out = append(out, page.Segments...)
		if page.After == nil {
			return out, nil
		}
		after = int64(*page.After)
	}
}

func (n *Node) api(into any, path string) error {
	status, body, err := n.Get(path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, status, body)
	}
	return json.Unmarshal([]byte(body), into)
}
