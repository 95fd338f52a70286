package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"tidemark/tiering/audit"
)

// Audit compares catalog and bucket. Its methods may be called from any goroutine; they take minutes to
// hours and end with their context.
type Audit interface {
	// Verify checks the tier of a topic, or of all topics and the whole bucket if topic is "". report is
	// called with each problem and, with none, to tell how far it is. ErrUnknown.
	Verify(ctx context.Context, topic string, deep bool, report func(audit.Problem, audit.Progress)) (audit.Progress, error)
	// Strays counts the cluster's objects and lists those that nothing names.
	Strays(ctx context.Context, each func(audit.Stray)) (audit.Census, error)
	// Discard makes garbage rows of the old ones of them; at most percent may be unknown.
	// audit.ErrRefused.
	Discard(ctx context.Context, percent float64) (int64, audit.Census, error)
	// AgreeRewound lets objects be removed again although the catalog has gone back in time, and returns
	// the new generation.
	AgreeRewound(ctx context.Context) (int64, error)
}

// VerifyLine is one line of the answer of /api/v1/verify: exactly one field is set, Done in the last one.
type VerifyLine struct {
	Problem  *audit.Problem  `json:"problem,omitempty"`
	Progress *audit.Progress `json:"progress,omitempty"`
	Done     *VerifyEnd      `json:"done,omitempty"`
}

// VerifyEnd is how a verification ended. Error is "" if it went through everything.
type VerifyEnd struct {
	audit.Progress
	Error string `json:"error,omitempty"`
}

// Strays is the answer of /api/v1/strays and /api/v1/gc.
type Strays struct {
	audit.Census
	// Refusal says why nothing may become garbage; "" if it may.
	Refusal string `json:"refusal,omitempty"`
	// Strays lists what nothing names, at most 10,000; only with /api/v1/strays.
	Strays []audit.Stray `json:"strays,omitempty"`
	// Discarded is how many garbage rows were written; only with /api/v1/gc.
	Discarded int64 `json:"discarded"`
}

// Agreed is the answer of /api/v1/gc/agree.
type Agreed struct {
	Generation int64 `json:"generation"`
}

// defaultPercent is how much may be unknown to the catalog (D11).
const defaultPercent = 1.0

const (
	mostStrays = 10_000
	// progressEvery is how often a verification tells how far it is; lineTimeout is how long a client may
	// take for what it is sent.
	progressEvery = 500 * time.Millisecond
	lineTimeout   = 30 * time.Second
	// gcTimeout bounds an answer that comes whole.
	gcTimeout = 30 * time.Minute
)

// auditAPI answers what compares catalog and bucket; one request at a time, the others are told so.
type auditAPI struct {
	audit Audit
	busy  sync.Mutex
}

func (a *auditAPI) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/verify", a.alone(a.verify))
	mux.HandleFunc("GET /api/v1/strays", a.alone(a.strays))
	mux.HandleFunc("POST /api/v1/gc", a.alone(a.discard))
	mux.HandleFunc("POST /api/v1/gc/agree", a.alone(a.agree))
}

func (a *auditAPI) alone(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.audit == nil {
			writeError(w, http.StatusNotImplemented, "this broker has no object tier")
			return
		}
		if !a.busy.TryLock() {
			writeError(w, http.StatusConflict, "another verification or collection is running on this broker; wait for its end")
			return
		}
		defer a.busy.Unlock()
		h(w, r)
	}
}

// verify streams ?topic=NAME&deep=true as lines of JSON.
func (a *auditAPI) verify(w http.ResponseWriter, r *http.Request) {
	deep, err := flag(r, "deep", true)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	out := lines{w: w, control: http.NewResponseController(w), enc: json.NewEncoder(w)}
	done, err := a.audit.Verify(r.Context(), r.URL.Query().Get("topic"), deep, func(p audit.Problem, now audit.Progress) {
		if p.Kind != "" {
			out.write(VerifyLine{Problem: &p})
		} else if time.Since(out.last) >= progressEvery {
			out.write(VerifyLine{Progress: &now})
			out.last = time.Now()
		}
	})
	if err != nil && !out.begun {
		writeFailure(w, err)
		return
	}
	end := VerifyEnd{Progress: done}
	if err != nil {
		end.Error = err.Error()
	}
	out.write(VerifyLine{Done: &end})
}

// lines writes lines of JSON as they come.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	enc     *json.Encoder
	last    time.Time
	begun   bool
}

func (l *lines) write(v any) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
	}
	// A client that has gone ends the request's context; these errors say no more.
	_ = l.control.SetWriteDeadline(time.Now().Add(lineTimeout))
	_ = l.enc.Encode(v)
	_ = l.control.Flush()
}

// strays lists what nothing names, and says whether it could become garbage: ?percent=1.
func (a *auditAPI) strays(w http.ResponseWriter, r *http.Request) {
	percent, err := percentage(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(gcTimeout))
	var out Strays
	out.Census, err = a.audit.Strays(r.Context(), func(s audit.Stray) {
		if len(out.Strays) < mostStrays {
			out.Strays = append(out.Strays, s)
		}
	})
	if err != nil {
		writeFailure(w, err)
		return
	}
	if err := out.Judge(percent); err != nil {
		out.Refusal = err.Error()
	}
	writeJSON(w, out)
}

// discard makes garbage of old strays: ?percent=1.
func (a *auditAPI) discard(w http.ResponseWriter, r *http.Request) {
	percent, err := percentage(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(gcTimeout))
	var out Strays
	out.Discarded, out.Census, err = a.audit.Discard(r.Context(), percent)
	switch {
	case errors.Is(err, audit.ErrRefused):
		writeError(w, http.StatusConflict, err.Error())
	case err != nil:
		writeFailure(w, err)
	default:
		writeJSON(w, out)
	}
}

func (a *auditAPI) agree(w http.ResponseWriter, r *http.Request) {
	generation, err := a.audit.AgreeRewound(r.Context())
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, Agreed{generation})
}

func flag(r *http.Request, name string, def bool) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New(name + "=" + strconv.Quote(text) + " is not true or false")
	}
	return v, nil
}

func percentage(r *http.Request) (float64, error) {
	text := r.URL.Query().Get("percent")
	if text == "" {
		return defaultPercent, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, errors.New("percent=" + strconv.Quote(text) + " is not a number from 0 to 100")
	}
	return v, nil
}
