package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var (
	errRefused = catalog.MarkUnavailable(errors.New("connection refused"))
	errStarts  = catalog.MarkUnavailable(errors.New("the database system is starting up"))
	errForGood = errors.New("password authentication failed")
)

// waiting is a patience whose remedy for an error is "mend " and its text, with what it logs.
func waiting(limit time.Duration) (*catalog.Patience, *bytes.Buffer) {
	var log bytes.Buffer
	return catalog.NewPatience(limit, slog.New(slog.NewTextHandler(&log, nil)), func(err error) string { return "mend " + err.Error() }), &log
}

// failing is a call that fails with these errors first.
func failing(errs ...error) (call func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		if *calls++; *calls <= len(errs) {
			return errs[*calls-1]
		}
		return nil
	}, calls
}

func TestAStartBearsWhatWaitingMends(t *testing.T) {
	p, log := waiting(time.Hour)
	call, calls := failing(errRefused, fmt.Errorf("wrapped: %w", errRefused), errStarts)
	require.NoError(t, p.Await(t.Context(), call))
	require.Equal(t, 4, *calls)
	call, _ = failing(errStarts)
	require.NoError(t, p.Await(t.Context(), call))
	require.Equal(t, 1, strings.Count(log.String(), `remedy="mend catalog unavailable: the database system is starting up"`), "each trouble is told once: %s", log)
	require.Equal(t, 1, strings.Count(log.String(), `remedy="mend catalog unavailable: connection refused"`))
	require.Equal(t, 2, strings.Count(log.String(), "the catalog answers; the start goes on"))
}

func TestAStartEndsAtOnceForWhatWaitingCannotMend(t *testing.T) {
	p, log := waiting(time.Hour)
	call, calls := failing(errForGood)
	require.Equal(t, errForGood, p.Await(t.Context(), call))
	require.Equal(t, 1, *calls)
	require.Empty(t, log.String())
	call, calls = failing(errRefused, errForGood)
	require.Equal(t, errForGood, p.Await(t.Context(), call))
	require.Equal(t, 2, *calls)
}

func TestPatienceEnds(t *testing.T) {
	none, log := waiting(0)
	for _, p := range []*catalog.Patience{nil, none} {
		call, calls := failing(errRefused)
		require.Equal(t, errRefused, p.Await(t.Context(), call))
		require.Equal(t, 1, *calls)
	}
	require.Empty(t, log.String())

	short, _ := waiting(10 * time.Millisecond)
	err := short.Await(t.Context(), func(context.Context) error { return errRefused })
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "of waiting")

	long, _ := waiting(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	err = long.Await(ctx, func(context.Context) error { cancel(); return errRefused })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errRefused)
	ctx, cancel = context.WithCancel(t.Context())
	calls := 0
	err = long.Await(ctx, func(context.Context) error {
		if calls++; calls == 3 {
			time.AfterFunc(0, cancel) // while it pauses
		}
		return errRefused
	})
	require.ErrorIs(t, err, context.Canceled)
}
