package segment

import (
	"fmt"
	"path/filepath"
	"strconv"

	"tidemark/record"
)

// Suffixes of a segment's files; the name before is the base offset in 20 digits.
const (
	LogSuffix      = ".log"
	IndexSuffix    = ".index"
	TimeSuffix     = ".timeindex"
	TxnSuffix      = ".txnindex"
	SnapshotSuffix = ".snapshot"
)

// Name is the file name of a segment's file.
func Name(base record.Offset, suffix string) string {
	return fmt.Sprintf("%020d%s", int64(base), suffix)
}

// ParseName takes a file name apart; false if it is none of a segment's files.
func ParseName(name string) (base record.Offset, suffix string, ok bool) {
	suffix = filepath.Ext(name)
	switch suffix {
	case LogSuffix, IndexSuffix, TimeSuffix, TxnSuffix, SnapshotSuffix:
	default:
		return 0, "", false
	}
	digits := name[:len(name)-len(suffix)]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) != 20 || n < 0 {
		return 0, "", false
	}
	return record.Offset(n), suffix, true
}
