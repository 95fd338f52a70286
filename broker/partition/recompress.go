package partition

import (
	"fmt"

	"tidemark/broker/topicconfig"
	"tidemark/record"
)

// recompress gives the batch the topic's codec if compression.type asks for another one than the
// producer used; nothing but the encoding changes.
func recompress(batch []byte, sum record.Summary, cfg *topicconfig.Topic) ([]byte, record.Summary, error) {
	want, asked, err := topicCodec(cfg.CompressionType)
	if err != nil || !asked || want == sum.Header.Codec() {
		return batch, sum, err
	}
	opts := record.OptionsOf(sum.Header)
	opts.Codec = want
	b := record.NewBuilder(opts)
	var scratch record.Scratch
	for r, err := range record.Records(batch, &scratch) {
		if err != nil {
			return nil, sum, fmt.Errorf("recompress: %w", err)
		}
		if err := b.Append(r); err != nil {
			return nil, sum, fmt.Errorf("recompress: %w", err)
		}
	}
	out := b.Build()
	h, err := record.ParseHeader(out)
	sum.Header = h
	return out, sum, err
}

// topicCodec is the codec that compression.type names; asked is false for "producer".
func topicCodec(setting string) (c record.Codec, asked bool, err error) {
	switch setting {
	case "", "producer":
		return record.CodecNone, false, nil
	case "uncompressed":
		return record.CodecNone, true, nil
	}
	c, err = record.ParseCodec(setting)
	return c, true, err
}
