package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// page is what the template shows: texts are taken apart, lengths measured,
// lists cut.
type page struct {
	Title, Made string
	Zone        string // of all times
	Period      string
	Asked       *answers
	Tiles       []tile
	Series      []legend
	Charts      []*chart
	Covered     string // which rows the charts are of
	Hot         *table
	Ops         *table
	Callers     *table
	Sessions    *table
	Chunks      *table
	Saves       *table
	Refusals    []*table // by reason, by operation, by caller
	Recent      *table
	Looked      string // which rows Recent is of
	Events      *table
	Files       []fileView
	Check       checkView
	Newest      *table
	Facts       []factView
	LeftOut     [][]piece

	in    *Input
	acts  *Activity
	sum   *summary
	axis  axis
	clean func(string) string
}

// answers are those to the questions that a person asks first.
type answers struct {
	Stopped                  [][]piece
	Changed, Declined, Waits *table
}

type tile struct{ Name, Value, Note, Class string }

type legend struct{ Class, Name string }

type factView struct {
	Name, Value []piece
}

// table is a list of rows under their heads.
type table struct {
	ID, Caption string
	Heads       []head
	Rows        [][]cell
	More        string // what is not in it
	Small       bool   // is shown beside others
}

type head struct{ Text, Class string }

// cell is one place of a table: a text, a time, a bar or a small drawing.
type cell struct {
	Text  []piece
	Class string // n a number, m a name
	Stamp string // machine-readable time
	Bar   string // length of a bar, 0 to 100
	Spark string // path of a drawing
	Label string // of the drawing
	Wide  int    // of the drawing
	Head  bool   // names the row
}

type checkView struct {
	Skipped  string
	Verdict  string
	Problems *table
	Kinds    *table
	Counters []factView
}

type fileView struct {
	ID       string
	Path     []piece
	Note     string
	Open     bool
	Versions []versionView
	More     string
	Now      *nowView
}

type nowView struct {
	Note string
	Diff diffView
}

type versionView struct {
	Row, Size, SHA   string
	TS               cell
	Op, Caller, Path []piece
	Kept             string // what to know of its bytes
	Diff             diffView
	Open             bool
}

type diffView struct {
	Why     string
	Changes string
	Lines   []diffLine
	Cut     bool
}

// text prepares a text of foreign origin for the page. Everything that is not
// ours goes through here, or through a Comparer.
func (p *page) text(s string, most int) []piece { return middle(signs(p.clean(s), false), most) }

func (p *page) name(s string) cell { return cell{Text: p.text(s, nameSigns), Class: "m"} }

func (p *page) named(s string) cell { return p.name(named(s)) }

// rowHead is a name that its row is about.
func (p *page) rowHead(s string) cell {
	c := p.named(s)
	c.Head = true
	return c
}

func number[N int | int64 | uint64](n N) cell { return cell{Text: ours(count(n)), Class: "n"} }

// ours is a text that the page itself says.
func ours(s string) []piece { return []piece{{s, false}} }

const stampFormat = "2006-01-02 15:04:05"

// stamp is a time on the clock of those who read the page.
func (p *page) stamp(t time.Time) string { return t.In(p.in.Made.Location()).Format(stampFormat) }

// time is the time of a row.
func (p *page) time(ts string) cell {
	t, ok := instant(ts)
	if !ok {
		return cell{Text: p.text(ts, 40), Class: "t"}
	}
	return cell{Text: ours(p.stamp(t)), Class: "t", Stamp: t.UTC().Format(time.RFC3339)}
}

func (p *page) unix(at int64) cell {
	if at == noTime {
		return cell{Class: "t"}
	}
	return p.time(time.Unix(at, 0).UTC().Format(time.RFC3339))
}

// bar is a length beside a number.
func bar(n, most int) cell {
	return cell{Class: "b", Bar: figure(100 * float64(n) / float64(max(most, 1)))}
}

func (p *page) spark(times []int64, what string) cell {
	path := spark(p.axis, times)
	if path == "" {
		return cell{Class: "s"}
	}
	return cell{Class: "s", Spark: path, Label: "When: " + what, Wide: 2 * p.axis.n}
}

// more says how much a list goes on.
func more(have, shown int, what string) string {
	if have <= shown {
		return ""
	}
	return fmt.Sprintf("%s more %s not shown.", count(have-shown), what)
}

// view prepares everything.
func view(in *Input, clean func(string) string) *page {
	p := &page{in: in, clean: clean, Title: "Write report", acts: in.Activity}
	if p.acts == nil {
		p.acts = NewActivity(time.Time{}, 1, clean)
	}
	p.sum = p.acts.summary()
	if in.Title != "" {
		p.Title = flat(p.text(in.Title, nameSigns))
	}
	p.Made, p.Zone = p.stamp(in.Made), zoneOf(in.Made)
	p.period()
	p.asked()
	p.tiles()
	p.charts()
	p.Covered = p.covered()
	p.tables()
	p.sessions()
	p.refusals()
	p.events()
	p.files()
	p.check()
	p.Newest = p.rows("newest", "Newest rows", in.Newest)
	for _, f := range in.Facts {
		p.Facts = append(p.Facts, factView{p.text(f.Name, 40), p.text(f.Value, noteSigns)})
	}
	for i, s := range in.LeftOut {
		if i == maxLeftOut {
			p.LeftOut = append(p.LeftOut, ours(more(len(in.LeftOut), maxLeftOut, "remarks")))
			break
		}
		p.LeftOut = append(p.LeftOut, p.text(s, noteSigns))
	}
	return p
}

// zoneOf names the zone of a time: its abbreviation, where it has one, and how
// far it is from UTC.
func zoneOf(t time.Time) string {
	if name := t.Format("MST"); name != "UTC" {
		from := t.Format("UTC-07:00")
		if name[0] == '+' || name[0] == '-' { // it has none
			return from
		}
		return name + " (" + from + ")"
	}
	return "UTC"
}

// period says which time the report is of.
func (p *page) period() {
	p.Period = "No rows"
	if first, last, ok := p.ends(); ok {
		p.Period = "Rows from " + p.stamp(first) + " to " + p.stamp(last)
	}
	if !p.in.Since.IsZero() {
		p.Period += ", looked at from " + p.stamp(p.in.Since) + " on"
	}
}

// ends are the times of the first and of the last row.
func (p *page) ends() (first, last time.Time, ok bool) {
	first, ok1 := instant(p.in.Usage.Period.FirstEntry.String())
	last, ok2 := instant(p.in.Usage.Period.LastEntry.String())
	return first, last, ok1 && ok2
}

func (p *page) tiles() {
	u := p.in.Usage
	peak := u.WriteVelocity.PeakMinute
	p.Tiles = []tile{
		{Name: "Writes", Value: count(u.TotalWrites), Note: counted(len(u.ByCaller), "caller", "callers")},
		{Name: "Files", Value: count(u.UniquePaths), Note: size(u.TotalBytesWritten) + " written"},
		{Name: "Per minute", Value: rate(u.WriteVelocity.WritesPerMinute), Note: "no busiest minute"},
		{Name: "Refused", Value: count(u.Refusals.Total), Note: counted(len(u.Refusals.ByReason), "reason", "reasons")},
		{Name: "Problems", Value: count(len(p.in.Check.Problems)), Note: "quick check"},
	}
	if p.moment() {
		p.Tiles[2].Value, p.Tiles[2].Note = "–", "all within a minute"
	} else if peak.Minute != "" {
		p.Tiles[2].Note = fmt.Sprintf("%s in the busiest", count(peak.Writes))
	}
	if u.Refusals.Total > 0 {
		p.Tiles[3].Class = "warn"
	}
	last := &p.Tiles[4]
	switch {
	case p.in.Check.Skipped != "":
		last.Value, last.Note = "–", "not checked"
	case p.in.Check.Deep:
		last.Note = "deep check"
	}
	if len(p.in.Check.Problems) > 0 {
		last.Class = "bad"
	}
}

// moment reports whether all rows are so close together that a rate would be a
// guess.
func (p *page) moment() bool {
	first, last, ok := p.ends()
	return ok && last.Sub(first) < time.Minute
}

// rate is a number of writes per minute; large ones are shown without hundredths.
func rate(x float64) string {
	if x >= 100 && x < 1e15 {
		return count(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// charts draws what can be drawn.
func (p *page) charts() {
	first, last := p.sum.first, p.sum.last
	for _, r := range p.in.Refused.Recent {
		if t, ok := instant(r.TS); ok {
			if first == noTime || t.Unix() < first {
				first = t.Unix()
			}
			last = max(last, t.Unix())
		}
	}
	p.axis = axisOf(first, last, p.in.Made.Location())
	if p.axis.n == 0 {
		return
	}
	refused := make([]int, p.axis.n)
	for _, r := range p.in.Refused.Recent {
		if t, ok := instant(r.TS); ok {
			if i := p.axis.at(t.Unix()); i >= 0 {
				refused[i]++
			}
		}
	}
	p.Charts = []*chart{timeline(p.sum, p.axis, refused)}
	if p.sum.writes > 0 && !p.moment() {
		p.Charts = append(p.Charts, rates(p.sum, p.axis))
	}
	for i, s := range series {
		if p.Charts[0].Used[i] {
			p.Series = append(p.Series, legend{s.class, s.name})
		}
	}
	if p.Charts[0].Lane != "" {
		p.Series = append(p.Series, legend{"s6", "refused (below the line)"})
	}
}

// covered says which rows the charts and the lists of files and sessions are
// of.
func (p *page) covered() string {
	if p.sum.lowest == 0 {
		return ""
	}
	text := fmt.Sprintf("Rows %s to %s: %s", count(p.sum.lowest), count(p.sum.highest), counted(p.sum.writes, "write of a file", "writes of files"))
	if p.sum.state > 0 {
		text += ", " + counted(p.sum.state, "write", "writes") + " of the store's own objects"
	}
	text += "."
	if untimed := p.sum.writes - len(p.sum.times); untimed > 0 {
		text += " " + counted(untimed, "write has", "writes have") + " no time and is in no chart."
	}
	return text
}

// leftOut is what was left out, for those who do not read the page.
func (p *page) leftOut() []string {
	list := []string{}
	for _, one := range p.LeftOut {
		list = append(list, strings.TrimSpace(flat(one)))
	}
	return list
}
