package repeats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// output is where lines end up.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

// take gives the lines so far and forgets them.
func (o *output) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.buf.Reset()
	return strings.FieldsFunc(o.buf.String(), func(r rune) bool { return r == '\n' })
}

// story runs f with a log whose lines have no time.
func story(t *testing.T, f func(t *testing.T, log *slog.Logger, out *output, h *Handler)) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{}
		h := New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		defer h.Close()
		f(t, slog.New(h), out, h)
	})
}

// A bucket that is away for a bit more than three minutes and says so each second.
func TestALastingTroubleIsALineAMinute(t *testing.T) {
	story(t, func(t *testing.T, log *slog.Logger, out *output, _ *Handler) {
		time.Sleep(pause / 2) // beside the handler's own times
		for i := range 190 {
			log.Warn("the bucket cannot be read", "err", fmt.Errorf("attempt %d", i))
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{
			`level=WARN msg="the bucket cannot be read" err="attempt 0"`,
			`level=WARN msg="the bucket cannot be read" err="attempt 62" repeated=62 lasts=1m2s`,
			`level=WARN msg="the bucket cannot be read" err="attempt 122" repeated=60 lasts=2m2s`,
			`level=WARN msg="the bucket cannot be read" err="attempt 182" repeated=60 lasts=3m2s`,
		}, out.take())
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{
			`level=WARN msg="the bucket cannot be read" err="attempt 189" repeated=7 lasts=3m9s`,
			`level=INFO msg="over: the bucket cannot be read" repeated=189 lasted=3m9s`,
		}, out.take())
		log.Warn("the bucket cannot be read", "err", "again")
		require.Equal(t, []string{`level=WARN msg="the bucket cannot be read" err=again`}, out.take(), "a new trouble is told at once")
		time.Sleep(3 * time.Minute)
		require.Empty(t, out.take(), "what was said once needs no end")
	})
}

func TestEachSubjectIsNamedAsLongAsTheyAreFew(t *testing.T) {
	story(t, func(t *testing.T, log *slog.Logger, out *output, _ *Handler) {
		for range 3 {
			for p := range 8 {
				log.With("partition", p).Error("a live object is lost", "key", fmt.Sprint("k", p), "err", errors.New("gone"), "failures", p, "retry_in", time.Duration(p))
			}
		}
		got := out.take()
		require.Len(t, got, freshSubjects)
		for p, l := range got {
			require.Contains(t, l, fmt.Sprintf("partition=%d key=k%d", p, p))
		}
		time.Sleep(Every + pause)
		require.Equal(t, []string{`level=ERROR msg="a live object is lost" partition=7 key=k7 err=gone failures=7 retry_in=7ns repeated=19 lasts=0s`}, out.take())
		for p := range 8 {
			log.With("partition", p).Error("a live object is lost", "key", fmt.Sprint("k", p))
		}
		require.Len(t, out.take(), 3, "those that had no line of their own have one now")
	})
}

func TestWhatIsNotARepetitionPasses(t *testing.T) {
	story(t, func(t *testing.T, log *slog.Logger, out *output, _ *Handler) {
		for range 3 {
			log.Info("same")
		}
		log.Debug("not enabled")
		log.Warn("same")
		log.Error("same")
		log.WithGroup("g").Warn("same")
		log.Warn("other")
		require.Len(t, out.take(), 7)
	})
}

func TestTheEndTellsWhatWasHeldBack(t *testing.T) {
	story(t, func(t *testing.T, log *slog.Logger, out *output, h *Handler) {
		for range 3 {
			log.Warn("away")
		}
		require.Len(t, out.take(), 1)
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
		require.Equal(t, []string{`level=WARN msg=away repeated=2 lasts=0s`}, out.take())
	})
}

func TestManyAtOnceLoseNoLine(t *testing.T) {
	story(t, func(t *testing.T, log *slog.Logger, out *output, h *Handler) {
		var crowd sync.WaitGroup
		for range 8 {
			crowd.Go(func() {
				for range 100 {
					log.With("part", "x").Warn("away")
				}
			})
		}
		crowd.Wait()
		require.NoError(t, h.Close())
		require.Equal(t, []string{`level=WARN msg=away part=x`, `level=WARN msg=away part=x repeated=799 lasts=0s`}, out.take())
	})
}
