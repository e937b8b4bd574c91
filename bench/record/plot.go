//go:build linux

package main

import (
	"fmt"
	"strings"
)

// plot returns docs/benchmark-record.svg: one panel for each metric, with, for
// each arm, a bar for the guided agent, one for all agents, and one for the
// figure of the literature. Colors follow the reader's preference.
func (b *results) plot() string {
	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	const panel, height = 305, 300
	panels := b.panels()
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Recovery, data loss, self-correction and wasted calls of three ways to write, beside the figures of the literature">`, panel*len(panels), height)
	p("%s", style)
	p(`<rect class="paper" width="100%%" height="100%%"/>`)
	for i, m := range panels {
		p(`<g transform="translate(%d,0)">`, i*panel)
		m.draw(p)
		p(`</g>`)
	}
	p(`<g transform="translate(20,%d)">`, height-18)
	p(`<rect class="bar0" width="11" height="11" y="-10"/><text x="17">measured, guided agent</text>`)
	p(`<rect class="bar1" width="11" height="11" x="180" y="-10"/><text x="197">measured, mean of all agents</text>`)
	p(`<rect class="bar2" width="11" height="11" x="390" y="-10"/><text x="407">arXiv 2604.10842, in the third place its own system (* estimates of its authors; other tasks, other faults)</text>`)
	p(`</g>`)
	p(`</svg>`)
	return out.String()
}

const style = `<style>
.paper{fill:#ffffff} text{fill:#24292f;font:12px system-ui,sans-serif} .title{font-weight:600;font-size:13px} .value{font-size:8.5px;text-anchor:middle} .arm{font-size:10.5px;text-anchor:middle}
.bar0{fill:#0969da} .bar1{fill:#9cc4f0} .bar2{fill:none;stroke:#8c959f;stroke-width:1.2;stroke-dasharray:3 2} .axis{stroke:#8c959f}
@media (prefers-color-scheme: dark){.paper{fill:#0d1117} text{fill:#e6edf3} .bar0{fill:#58a6ff} .bar1{fill:#2f5f96} .bar2{stroke:#8b949e} .axis{stroke:#6e7681}}
</style>`

// metric is one panel, with adjacent bars for each arm.
type metric struct {
	title string
	show  func(v float64) string
	bars  [][]float64
}

func (b *results) panels() []metric {
	share := func(v float64) string { // short, because two of them are adjacent
		if v >= 20 {
			return fmt.Sprintf("%.0f%%", v)
		}
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + "%"
	}
	list := []metric{
		{title: "Recovery, with 0.4 s a call", show: func(v float64) string { return fmt.Sprintf("%.1fs", v) }},
		{title: "Data loss, given a fault *", show: share},
		{title: "Self-correction *", show: share},
		{title: "Wasted calls", show: share},
	}
	for i, arm := range armNames {
		for j := range list {
			list[j].bars = append(list[j].bars, nil)
		}
		put := func(values ...float64) {
			for j, v := range values {
				list[j].bars[i] = append(list[j].bars[i], v)
			}
		}
		for _, view := range views {
			t := b.sum(arm, view.agent)
			put(t.Modeled.Seconds(), 100*t.Loss, 100*t.Right, 100*t.Wasted)
		}
		l := literature[i]
		put(l.recovery, l.loss, l.right, l.wasted)
	}
	return list
}

// draw draws the panel: bars grow from the axis to the highest of all.
func (m metric) draw(p func(string, ...any)) {
	const base, room, left, group, bar = 235.0, 175.0, 18.0, 92.0, 27.0
	top := 0.0
	for _, arm := range m.bars {
		top = max(top, arm[0], arm[1], arm[2])
	}
	p(`<text class="title" x="%.0f" y="26">%s</text>`, left, m.title)
	for i, arm := range armNames {
		x := left + float64(i)*group
		for j, v := range m.bars[i] {
			h := 0.0
			if top > 0 {
				h = v / top * room
			}
			at := x + float64(j)*(bar+1)
			p(`<rect class="bar%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, j, at, base-h, bar, h)
			p(`<text class="value" x="%.1f" y="%.1f">%s</text>`, at+bar/2, base-h-5, m.show(v))
		}
		p(`<text class="arm" x="%.1f" y="%.1f">%s</text>`, x+1.5*bar, base+16, arm)
	}
	p(`<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, left-4, left+3*group-4, base, base)
}
