package pgproxy

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func message(kind byte, body string) []byte {
	m := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return append(m, body...)
}

func TestACommitIsSeenInEachWayToSendIt(t *testing.T) {
	rows := []struct {
		story    string
		messages [][]byte
		commit   bool // the last message
	}{
		{"simple query", [][]byte{message('Q', "commit\x00")}, true},
		{"prepared earlier, bound now", [][]byte{message('P', "s1\x00COMMIT\x00\x00\x00"), message('P', "s2\x00SELECT 1\x00\x00\x00"), message('B', "\x00s1\x00")}, true},
		{"another statement bound", [][]byte{message('P', "s1\x00COMMIT\x00"), message('P', "s2\x00SELECT 1\x00"), message('B', "\x00s2\x00")}, false},
		{"preparing is not running", [][]byte{message('P', "s1\x00COMMIT\x00")}, false},
		{"unnamed statement", [][]byte{message('P', "\x00COMMIT\x00"), message('B', "\x00\x00")}, true},
		{"a read-only transaction", [][]byte{message('Q', "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY\x00"), message('Q', "COMMIT\x00")}, false},
		{"a writing one after it", [][]byte{message('Q', "BEGIN READ ONLY\x00"), message('Q', "BEGIN\x00"), message('Q', "COMMIT\x00")}, true},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			l := &link{texts: map[string]string{}}
			got := false
			for _, m := range row.messages {
				got = l.isCommit(m)
			}
			require.Equal(t, row.commit, got)
		})
	}
}
