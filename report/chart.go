package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The series of the timeline: what was done to files.
var series = []struct{ class, name, ops string }{
	{"s1", "created", " create compose "},
	{"s2", "changed", " overwrite append edit "},
	{"s3", "removed", " delete "},
	{"s4", "moved, restored, undone", " move restore undo "},
	{"s5", "other", ""},
}

// seriesOf is the series of an operation; what is not known is other.
func seriesOf(op string) int {
	for i, s := range series {
		if op != "" && strings.Contains(s.ops, " "+op+" ") {
			return i
		}
	}
	return len(series) - 1
}

// The chart in units of its own; the page scales it.
const (
	chartWide, chartHigh = 960, 236
	plotLeft, plotRight  = 60, 952
	plotTop, plotBottom  = 12, 184
	laneTop, laneHigh    = 194, 9
	labelLine            = 222
)

// chart is one drawing over time.
type chart struct {
	ID, Title, Desc string
	Wide, High      int
	Grid            []mark // lines across, with their labels
	Ticks           []mark // labels below
	Bars            []bars
	Line            string // points of a line above the bars; empty: none
	Left, Right     int
	LabelLine       int
	Lane            string // what the marks below the bars are; empty: none
	LaneLine        int
	Used            []bool // the series that have bars
}

// mark is a place of an axis. Anchor says to which side the label goes.
type mark struct {
	At            string
	Label, Anchor string
}

// bars are charts above each other with one legend.
type bars struct {
	Title string
	Rects []rect
}

type rect struct{ X, Y, W, H, Class string }

// figure writes a length of a drawing.
func figure(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

// scale is a nice upper end of an axis that holds most.
func scale(most float64) float64 {
	if most <= 1 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, k := range []float64{1, 2, 4, 5, 10} {
		if k*step >= most {
			return k * step
		}
	}
	return 10 * step
}

// newChart is a chart without bars.
func newChart(id, title string, x axis, top float64) *chart {
	c := &chart{ID: id, Title: title, Wide: chartWide, High: chartHigh, Left: plotLeft, Right: plotRight, LabelLine: labelLine, LaneLine: laneTop + laneHigh}
	shares := []float64{0, 0.5, 1}
	if top < 2 {
		shares = []float64{0, 1}
	}
	for _, share := range shares {
		c.Grid = append(c.Grid, mark{At: figure(plotBottom - share*(plotBottom-plotTop)), Label: compact(share * top)})
	}
	for i := 0; i < x.n; i += max(1, (x.n+6)/7) { // not every bar has a label
		anchor := "middle"
		if i == 0 {
			anchor = "start"
		}
		if c.left(x, i) > plotRight-40 {
			continue
		}
		c.Ticks = append(c.Ticks, mark{At: figure(c.left(x, i)), Label: x.label(i), Anchor: anchor})
	}
	return c
}

// compact writes the number of an axis.
func compact(v float64) string {
	switch {
	case v >= 1e6:
		return figure(v/1e6) + "M"
	case v >= 1e4:
		return figure(v/1e3) + "k"
	}
	return figure(v)
}

// left is where a bar begins.
func (c *chart) left(x axis, i int) float64 {
	return plotLeft + float64(i)*float64(plotRight-plotLeft)/float64(x.n)
}

// column is a rectangle in the place of one bar, from one value to another of
// an axis that ends at top.
func (c *chart) column(x axis, i int, from, to, top float64, class string) rect {
	slot := float64(plotRight-plotLeft) / float64(x.n)
	gap := math.Min(2, slot/5)
	high := (to - from) / top * (plotBottom - plotTop)
	return rect{
		X: figure(c.left(x, i) + gap/2), W: figure(slot - gap),
		Y: figure(plotBottom - to/top*(plotBottom-plotTop)), H: figure(math.Max(high, 0.1)), Class: class,
	}
}

// timeline draws how many writes of each kind there were, and below them where
// calls were refused.
func timeline(s *summary, x axis, refused []int) *chart {
	counts := make([][]int, x.n)
	most := 0
	used := make([]bool, len(series))
	for i := range counts {
		counts[i] = make([]int, len(series)+1)
	}
	for _, d := range s.deeds {
		if i := x.at(d.at); i >= 0 {
			counts[i][seriesOf(d.op)]++
			counts[i][len(series)]++
			most = max(most, counts[i][len(series)])
		}
	}
	top := scale(float64(most))
	c := newChart("timeline", "Writes over time", x, top)
	busiest := -1
	for i, n := range counts {
		all := n[len(series)]
		if busiest < 0 || all > counts[busiest][len(series)] {
			busiest = i
		}
		if all == 0 {
			continue
		}
		b := bars{Title: x.span(i) + ": " + counted(all, "write", "writes") + words(n)}
		below := 0
		for k := range series {
			if n[k] > 0 {
				b.Rects = append(b.Rects, c.column(x, i, float64(below), float64(below+n[k]), top, series[k].class))
				below += n[k]
				used[k] = true
			}
		}
		c.Bars = append(c.Bars, b)
	}
	c.lane(x, refused)
	c.Used = used
	c.Desc = fmt.Sprintf("%s in bars of %s.", counted(s.writes, "write", "writes"), x.length())
	if most > 0 {
		c.Desc += fmt.Sprintf(" The highest bar has %s, at %s.", counted(most, "write", "writes"), x.span(busiest))
	}
	return c
}

// words names the parts of a bar.
func words(n []int) string {
	var list []string
	for k := range series {
		if n[k] > 0 {
			list = append(list, count(n[k])+" "+series[k].name)
		}
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// lane marks the bars in whose time calls were refused.
func (c *chart) lane(x axis, refused []int) {
	for i, n := range refused {
		if n == 0 {
			continue
		}
		r := c.column(x, i, 0, 1, 1, "s6")
		r.Y, r.H = strconv.Itoa(laneTop), strconv.Itoa(laneHigh)
		c.Bars = append(c.Bars, bars{Title: x.span(i) + ": " + counted(n, "refused call", "refused calls"), Rects: []rect{r}})
		c.Lane = "refused"
	}
}

// rates draws the writes per minute: the busiest minute of each bar, and the
// mean as a line where a bar is longer than a minute.
func rates(s *summary, x axis) *chart {
	peak, sum := make([]int, x.n), make([]int, x.n)
	most := 0
	minutes := map[int64]int{} // writes by the beginning of the minute
	for _, t := range s.times {
		minutes[floor(t, 60)]++
	}
	for m, n := range minutes {
		if i := x.at(m); i >= 0 {
			peak[i] = max(peak[i], n)
			sum[i] += n
			most = max(most, n)
		}
	}
	top := scale(float64(most))
	c := newChart("rate", "Writes per minute", x, top)
	var points []string
	for i, n := range peak {
		mean := float64(sum[i]) * 60 / float64(x.width)
		if x.width > 60 {
			points = append(points, figure(c.left(x, i)+(c.left(x, 1)-c.left(x, 0))/2)+","+figure(plotBottom-mean/top*(plotBottom-plotTop)))
		}
		if n > 0 {
			title := fmt.Sprintf("%s: %s in the busiest minute, %s per minute on average", x.span(i), counted(n, "write", "writes"), strconv.FormatFloat(math.Round(mean*100)/100, 'f', -1, 64))
			c.Bars = append(c.Bars, bars{Title: title, Rects: []rect{c.column(x, i, 0, float64(n), top, "s2")}})
		}
	}
	c.Line = strings.Join(points, " ")
	c.Desc = fmt.Sprintf("Bars: the busiest minute of every %s; the most is %s.", x.length(), counted(most, "write", "writes"))
	if x.width == 60 {
		c.Desc = fmt.Sprintf("One bar a minute; the most is %s.", counted(most, "write", "writes"))
	}
	if c.Line != "" {
		c.Desc += " Line: the mean."
	}
	return c
}

// The small drawing of a table cell.
const sparkHigh = 18

// spark draws when the writes of one file or session were, as one path. Its
// width is that of the axis, two units a bar.
func spark(x axis, times []int64) string {
	counts := make([]int, x.n)
	most := 0
	for _, t := range times {
		if i := x.at(t); i >= 0 {
			counts[i]++
			most = max(most, counts[i])
		}
	}
	var b strings.Builder
	for i, n := range counts {
		if n > 0 {
			high := math.Max(3, math.Round(float64(n)/float64(most)*sparkHigh))
			fmt.Fprintf(&b, "M%d %dv-%gh1.6v%gz", 2*i, sparkHigh, high, high)
		}
	}
	return b.String()
}
