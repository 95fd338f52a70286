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
	fmt.Fprintf(&b, `<rect x="10" y="10" width="12" height="12" fill="%s"/><text x="28" y="20">Kafka %s</text>`+"\n", plotKafka, kafkaVersion)
	fmt.Fprintf(&b, `<rect x="120" y="10" width="12" height="12" fill="%s"/><text x="138" y="20">Tidemark</text>`+"\n", plotOurs)
	for i, l := range rows {
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", plotHead+plotLine*i+19, html.EscapeString(l.Row.Name))
	}
	for i, p := range []panel{
		{title: "MB/s (more is better)", of: measure.mbps, form: "%.0f"},
		{title: "broker's CPU seconds per GB (less is better)", of: measure.cpuPerGB, form: "%.2f"},
	} {
		p.x = plotName + i*(plotBar+plotGap)
		p.draw(&b, rows)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel is a column of bars.
type panel struct {
	title   string
	of      func(measure) float64
	form    string // of a bar's figure
	x       int
	highest float64
}

func (p panel) draw(b *strings.Builder, rows []*line) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", p.x, plotHead-12, p.title)
	for _, l := range rows {
		p.highest = max(p.highest, l.median("kafka", p.of), l.median("tidemark", p.of))
	}
	for n, l := range rows {
		y := plotHead + plotLine*n
		p.bar(b, y+3, l.median("kafka", p.of), plotKafka)
		p.bar(b, y+17, l.median("tidemark", p.of), plotOurs)
	}
}

func (p panel) bar(b *strings.Builder, y int, v float64, colour string) {
	if v == 0 {
		return
	}
	w := v / p.highest * plotBar
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/>`, p.x, y, w, colour)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="10">%s</text>`+"\n", float64(p.x)+w+4, y+10, fmt.Sprintf(p.form, v))
}
