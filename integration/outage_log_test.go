package integration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// message is what a line of trouble says, its attributes left aside.
var message = regexp.MustCompile(`level=(?:WARN|ERROR) msg=("(?:[^"\\]|\\.)*"|\S+)`)

// troubles counts the lines of trouble by message.
func troubles(log string) map[string]int {
	out := map[string]int{}
	for line := range strings.Lines(log) {
		if m := message.FindStringSubmatch(line); m != nil {
			out[m[1]]++
		}
	}
	return out
}

// A store that is away is a trouble that lasts: each message about it comes once for each of a few things that it is about,
// and then once a minute.
func TestAnOutageIsALineAMinute(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"bucket", "catalog"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			stores := harness.RealStores(t)
			n := harness.Serve(t, stores, harness.Options{Env: map[string]string{
				"TIDEMARK_LOG_LEVEL": "info", "TIDEMARK_CHECKPOINT_INTERVAL": "1s", "TIDEMARK_SCRUB_INTERVAL": "1s",
			}})
			tens(t, n, "t", 3)
			produceTens(t, n, "t", 0, 41)
			tiered(t, n, "t", 39)
			before, began := n.Log(), time.Now()
			if away == "bucket" {
				stores.S3.Add(s3proxy.Rule{Status: 500, Code: "InternalError"})
			} else {
				stores.PG.Freeze()
			}
			span, next := outage(t), 41
			harness.Holds(t, span, "there is always something to upload", func() error {
				produceTens(t, n, "t", next, next+2)
				next += 2
				return nil
			})
			var said map[string]int
			harness.Until(t, time.Minute, "the broker says something", func() error {
				if said = troubles(strings.TrimPrefix(n.Log(), before)); len(said) == 0 {
					return errors.New("nothing yet")
				}
				return nil
			})
			took := time.Since(began)
			for text, lines := range said {
				t.Logf("%4d %s", lines, text)
				require.LessOrEqual(t, lines, 5+int(took/time.Minute), "%s in %v", text, took)
			}
			if away == "bucket" {
				stores.S3.Clear()
			} else {
				stores.PG.Thaw()
			}
			harness.Until(t, time.Minute, "it is over", func() error {
				if got := n.Offset(t, "t", 0, harness.LatestTiered); got < int64((next-1)/10*10-1) {
					return fmt.Errorf("tiered to %d", got)
				}
				return nil
			})
		})
	}
}
