package main

import (
	"fmt"
	"html"
	"strings"
)

// Measures of the plot, in pixels.
const (
	plotName  = 330 // room for a row's name
	plotBar   = 360 // longest bar
	plotGap   = 70  // for a bar's figure
	plotLine  = 34  // height of a row
	plotHead  = 60
	plotKafka = "#8a8f98"
	plotOurs  = "#1f7a8c"
)

// plot draws each row's MB/s and CPU per GB as pairs of bars, as SVG.
func (r *report) plot() string {
	var rows []*line
	for _, l := range r.Lines {
		if l.Row.Kind != kindLatency {
			rows = append(rows, l)
		}
	}
	width, height := plotName+2*(plotBar+plotGap), plotHead+plotLine*len(rows)+10
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	panels := []struct {
		title string
		of    func(measure) float64
		form  string
	}{{"MB/s (more is better)", measure.mbps, "%.0f"}, {"broker's CPU seconds per GB (less is better)", measure.cpuPerGB, "%.2f"}}
	fmt.Fprintf(&b, `<rect x="10" y="10" width="12" height="12" fill="%s"/><text x="28" y="20">Kafka %s</text>`+"\n", plotKafka, kafkaVersion)
	fmt.Fprintf(&b, `<rect x="120" y="10" width="12" height="12" fill="%s"/><text x="138" y="20">Tidemark</text>`+"\n", plotOurs)
	for i, l := range rows {
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", plotHead+plotLine*i+19, html.EscapeString(l.Row.Name))
	}
	for i, p := range panels {
		x := plotName + i*(plotBar+plotGap)
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, plotHead-12, p.title)
		highest := 0.0
		for _, l := range rows {
			highest = max(highest, l.median("kafka", p.of), l.median("tidemark", p.of))
		}
		for n, l := range rows {
			y := plotHead + plotLine*n
			bar(&b, x, y+3, l.median("kafka", p.of), highest, plotKafka, p.form)
			bar(&b, x, y+17, l.median("tidemark", p.of), highest, plotOurs, p.form)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func bar(b *strings.Builder, x, y int, v, highest float64, colour, form string) {
	if v == 0 || highest == 0 {
		return
	}
	w := v / highest * plotBar
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/>`, x, y, w, colour)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="10">%s</text>`+"\n", float64(x)+w+4, y+10, fmt.Sprintf(form, v))
}
