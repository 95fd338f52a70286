package handler

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/hotlog/disk"
)

// DescribeLogDirs (key 35), versions 1–4: the one data directory of the answering broker and the local
// bytes of its partitions, all or those asked for; what is only in the object tier is not in it. From
// version 4 on the size of its disk and the free space that the broker may use (-1: the disk does not say).
func beginDescribeLogDirs(h *Handlers, _ context.Context, _ *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.DescribeLogDirsRequest)
	resp := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	var parts []*partition.Partition
	if r.Topics == nil {
		parts = h.Partitions.All()
	}
	for _, t := range r.Topics {
		for _, n := range t.Partitions {
			if p, err := h.Partitions.Find(t.Topic, n); err == nil {
				parts = append(parts, p)
			}
		}
	}
	slices.SortFunc(parts, func(a, b *partition.Partition) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return int(a.ID.Partition - b.ID.Partition)
	})
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = h.Config.Broker.DataDir, -1, -1
	if free, total, err := disk.Space(h.Config.Broker.DataDir); err == nil {
		dir.TotalBytes, dir.UsableBytes = total, free
	}
	for _, p := range slices.Compact(parts) {
		if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != p.Name {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = p.Name
			dir.Topics = append(dir.Topics, t)
		}
		d := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		d.Partition, d.Size = p.ID.Partition, p.Describe().LocalSize
		t := &dir.Topics[len(dir.Topics)-1]
		t.Partitions = append(t.Partitions, d)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return wire.Respond(resp)
}
