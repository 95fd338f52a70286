package partition

import (
	"errors"

	"tidemark/broker/topicconfig"
	"tidemark/record"
)

// recompress gives the batch the topic's codec if compression.type asks for another one than the
// producer used; nothing but the encoding changes. max.message.bytes holds for the outcome too, as in Kafka.
func recompress(batch []byte, sum record.Summary, cfg *topicconfig.Topic) ([]byte, record.Summary, error) {
	want, asked, err := topicCodec(cfg.CompressionType)
	if err != nil || !asked || want == sum.Header.Codec() {
		return batch, sum, err
	}
	out, err := record.Recompress(batch, sum, want, maxBytes(cfg))
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return nil, sum, tooLarge(err, cfg)
	case err != nil:
		return nil, sum, err
	}
	sum.Header, err = record.ParseHeader(out)
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
