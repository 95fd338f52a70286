package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"tidemark/catalog"
	"tidemark/record"
)

// Limits of one page of segments.
const (
	defaultPage = 100
	largestPage = 1000
)

// api answers /api/v1.
type api struct{ state State }

func (a api) cluster(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.state.Overview()) }

func (a api) topics(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, struct {
		Topics []Topic `json:"topics"`
	}{orEmpty(a.state.Topics())})
}

func (a api) tier(w http.ResponseWriter, r *http.Request) {
	t, err := a.state.Tier(r.Context(), r.PathValue("topic"))
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, t)
}

// SegmentPage is a page of segments. After is where the next page begins, missing on the last one.
type SegmentPage struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Segments  []Segment      `json:"segments"`
	After     *record.Offset `json:"after,omitempty"`
}

// segments answers ?partition=0&after=0&limit=100: the objects that end above the offset `after`.
func (a api) segments(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	partition, err1 := number(q, "partition", 0, 0, math.MaxInt32)
	after, err2 := number(q, "after", 0, 0, math.MaxInt64)
	limit, err3 := number(q, "limit", defaultPage, 1, largestPage)
	if err := errors.Join(err1, err2, err3); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	topic := r.PathValue("topic")
	segs, err := a.state.Segments(r.Context(), topic, int32(partition), record.Offset(after), int(limit))
	if err != nil {
		writeFailure(w, err)
		return
	}
	page := SegmentPage{Topic: topic, Partition: int32(partition), Segments: orEmpty(segs)}
	if len(segs) == int(limit) {
		page.After = &segs[len(segs)-1].Next
	}
	writeJSON(w, page)
}

func number(q url.Values, name string, def, least, most int64) (int64, error) {
	if !q.Has(name) {
		return def, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%q is not a number from %d to %d", name, q.Get(name), least, most)
	}
	return n, nil
}

// orEmpty keeps null out of JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Failure is the body of every answer of /api/v1 that is not 200.
type Failure struct {
	Error string `json:"error"`
}

// writeFailure picks the status for an error of the State.
func writeFailure(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, catalog.ErrUnknownTopic), errors.Is(err, catalog.ErrNotFound):
		status = http.StatusNotFound
	case catalog.Unavailable(err):
		status = http.StatusServiceUnavailable
	}
	writeError(w, status, err.Error())
}

func writeError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Failure{text})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		writeError(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}
