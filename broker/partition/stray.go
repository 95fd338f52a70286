package partition

import (
	"errors"
	"io/fs"
	"os"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/hotlog"
)

// discard deletes the files of partitions that were given up, or sets them aside where nothing says that the topic was
// deleted or the replica moved (H2). It waits for the bytes of those that are set aside alone.
func (s *Set) discard(ps []*Partition, im *metadata.Image) {
	var gone []*hotlog.Log
	for _, p := range ps {
		if _, known := im.Partition(p.ID); known || im.Deleted(p.ID.Topic) {
			gone = append(gone, p.log)
			continue
		}
		if err := s.setAside(p); err != nil {
			p.out.Warn("set the files of a removed partition aside", "error", err)
		}
	}
	if err := s.opts.Data.Discard(gone); err != nil {
		s.opts.Log.Warn("remove the files of deleted partitions", "partitions", len(gone), "error", err)
	}
}

// setAside closes the log of a partition that nothing says is deleted and moves its files out of the way.
func (s *Set) setAside(p *Partition) error {
	if err := p.log.Close(); err != nil {
		p.out.Warn("close the log of a removed partition", "error", err)
	}
	p.out.Error("the catalog does not know this partition any more and has not deleted it; its files are kept for 7 days in stray/")
	return s.opts.Data.SetAside(hotlog.PartitionDir{
		Topic: p.ID.Topic, Partition: p.ID.Partition, Path: s.opts.Data.Path(p.ID.Topic, p.ID.Partition),
	})
}

// bringBack takes the files of a partition that were set aside, if there are any and no others: the catalog knows it
// again.
func (s *Set) bringBack(id catalog.PartitionID) error {
	if !s.opts.Data.HasStrays() {
		return nil
	}
	if _, err := os.Stat(s.opts.Data.Path(id.Topic, id.Partition)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, err := s.opts.Data.Restore(id.Topic, id.Partition)
	if found {
		s.opts.Log.Warn("the catalog knows a partition again whose files had been set aside; they are back", "partition", id)
	}
	return err
}

// setStraysAside moves directories that the catalog does not know out of the way, for 7 days (H2).
func (s *Set) setStraysAside(im *metadata.Image) {
	dirs, err := s.opts.Data.List()
	if err != nil {
		s.opts.Log.Warn("list the data directory", "error", err)
		return
	}
	for _, d := range dirs {
		id := catalog.PartitionID{Topic: d.Topic, Partition: d.Partition}
		if _, ok := im.Partition(id); ok {
			continue
		}
		if err := s.opts.Data.SetAside(d); err != nil {
			s.opts.Log.Warn("set a directory aside", "path", d.Path, "error", err)
			continue
		}
		s.opts.Log.Warn("the catalog does not know this partition; its files are kept for 7 days in stray/", "path", d.Path)
	}
}
