package admin

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"

	"tidemark/record"
)

//go:embed console.html
var consolePage string

var consoleTemplate = template.Must(template.New("console").Funcs(template.FuncMap{
	"bytes": humanBytes,
	"share": share,
}).Parse(consolePage))

// consoleData is what the page shows: the topics in short and, if one is picked, its partitions.
type consoleData struct {
	Overview Overview
	Ready    bool
	Reasons  []string
	Warnings []string
	Topics   []Topic
	Picked   *TopicTier
	Failure  string
}

// console serves the page; ?topic= picks one.
func console(s State) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := consoleData{Overview: s.Overview(), Topics: s.Topics()}
		d.Ready, d.Reasons, d.Warnings = s.Readiness()
		if name := r.URL.Query().Get("topic"); name != "" {
			t, err := s.Tier(r.Context(), name)
			if err != nil {
				d.Failure = err.Error()
			} else {
				d.Picked = &t
			}
		}
		var page bytes.Buffer
		if err := consoleTemplate.Execute(&page, d); err != nil {
			writeError(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(page.Bytes())
	}
}

// humanBytes writes a size with a binary unit.
func humanBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// share is the percentage of [start, end) that lies in [from, to), for the bars of the page.
func share(start, end, from, to record.Offset) float64 {
	from, to = max(from, start), min(to, end)
	if end <= start || to <= from {
		return 0
	}
	return 100 * float64(to-from) / float64(end-start)
}
