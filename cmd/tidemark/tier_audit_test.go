package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/admin"
	"tidemark/tiering/audit"
)

// auditor is a broker whose bucket lacks an object of "events" and holds three that nothing names.
func auditor(t *testing.T, token string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/verify", func(w http.ResponseWriter, r *http.Request) {
		enc := json.NewEncoder(w)
		end := admin.VerifyEnd{Progress: audit.Progress{Partitions: 1, Objects: 2, Bytes: 99, Listed: 4}}
		switch r.URL.Query().Get("topic") {
		case "events":
			_ = enc.Encode(admin.VerifyLine{Progress: &audit.Progress{Objects: 1}})
			_ = enc.Encode(admin.VerifyLine{Problem: &audit.Problem{Kind: audit.Missing, Topic: "events", Base: 10, Next: 20, Key: "k", Detail: "no such object"}})
			end.Problems = 1
		case "cut":
			return
		case "away":
			end.Error = "the bucket does not answer"
		}
		_ = enc.Encode(admin.VerifyLine{Done: &end})
	})
	answer := admin.Strays{Census: audit.Census{Objects: 300, Live: 297, Unknown: 3, Old: 3, OldBytes: 77}}
	mux.HandleFunc("GET /api/v1/strays", func(w http.ResponseWriter, r *http.Request) {
		a := answer
		a.Strays = []audit.Stray{{Key: "stray", Bytes: 77, Old: true}}
		if r.URL.Query().Get("percent") == "0.5" {
			a.Refusal = "refused: too many"
		}
		_ = json.NewEncoder(w).Encode(a)
	})
	mux.HandleFunc("POST /api/v1/gc", func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(admin.Failure{Error: "not without the token"})
			return
		}
		a := answer
		a.Discarded = 3
		_ = json.NewEncoder(w).Encode(a)
	})
	mux.HandleFunc("POST /api/v1/gc/agree", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(admin.Agreed{Generation: 4})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestTierVerifyNamesProblemsAndFails(t *testing.T) {
	url := auditor(t, "")
	code, out, errs := call(t, nil, "tier", "verify", "events", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "missing: events-0 [10, 20) k – no such object\n", out)
	require.Contains(t, errs, "1 problems in 2 objects")

	code, out, errs = call(t, nil, "tier", "verify", "--http", url)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "No problems: 2 objects of 1 partitions")

	code, out, _ = call(t, nil, "tier", "verify", "events", "--json", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 3)

	code, _, errs = call(t, nil, "tier", "verify", "away", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "the bucket does not answer")
	code, _, errs = call(t, nil, "tier", "verify", "cut", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "stopped before")
}

func TestTierGC(t *testing.T) {
	url := auditor(t, "secret")
	code, out, errs := call(t, nil, "tier", "gc", "--dry-run", "--http", url)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "3 that nothing names")
	require.Contains(t, out, "stray")
	require.Contains(t, out, "3 objects would become garbage")
	code, _, errs = call(t, nil, "tier", "gc", "--dry-run", "--unknown", "0.5", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "refused: too many")

	code, _, errs = call(t, nil, "tier", "gc", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "token")
	code, out, errs = call(t, []string{"TIDEMARK_HTTP_TOKEN=secret"}, "tier", "gc", "--http", url)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "3 objects are garbage now")
	code, out, _ = call(t, nil, "tier", "gc", "--agree-rewound", "--http", url)
	require.Equal(t, exitDone, code)
	require.Contains(t, out, "generation 4")
	code, _, _ = call(t, nil, "tier", "gc", "--unknown", "200", "--http", url)
	require.Equal(t, exitUsage, code)
}

func TestTierRebuildNeedsStores(t *testing.T) {
	code, _, errs := call(t, nil, "tier", "rebuild")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "TIDEMARK_CATALOG_URL")
	require.NotContains(t, errs, "TIDEMARK_BROKER_ID")
	code, _, errs = call(t, nil, "tier", "rebuild", "--data", t.TempDir())
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "the bucket holds nothing")
}
