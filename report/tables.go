package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
)

// asked answers what a person asks first.
func (p *page) asked() {
	o := p.in.Overview
	if o == nil {
		return
	}
	a := &answers{}
	for _, text := range o.Stopped {
		a.Stopped = append(a.Stopped, p.text(text, noteSigns))
	}
	a.Changed = filled(table{ID: "changed", Caption: "The newest changes", Heads: []head{{"Time", "t"}, {"Operation", ""}, {"Files", ""}, {"Size", "n"}, {"By", ""}, {"To undo it", ""}}},
		o.Changes, maxAsked, "", func(c Change) []cell {
			one, undo := cell{Class: "n"}, cell{Text: ours(c.Undo()), Class: "m"}
			if len(c.Files)+c.More == 1 {
				one = cell{Text: ours(c.Files[0].Size()), Class: "n"}
			}
			if c.Undone {
				undo = cell{Text: ours("undone")}
			}
			return []cell{p.time(c.TS), p.named(c.Op), p.rowHead(c.Summary()), one, p.named(c.Caller), undo}
		})
	a.Declined = filled(table{ID: "declined", Caption: "The newest refusals", Heads: []head{{"Time", "t"}, {"File", ""}, {"Reason", ""}, {"Why", ""}, {"By", ""}}},
		o.Refused, maxAsked, "", func(r Refusal) []cell {
			return []cell{p.time(r.TS), p.rowHead(r.Path), p.named(r.Reason), {Text: p.text(r.Why, noteSigns)}, p.named(r.Caller)}
		})
	a.Waits = filled(table{ID: "waits", Caption: "Unfinished work", Heads: []head{{"What", ""}, {"To show it", ""}}}, o.Waiting, maxAsked, "things", func(w Waiting) []cell {
		return []cell{{Text: p.text(w.Text, noteSigns), Head: true}, p.name(w.Command)}
	})
	p.Asked = a
}

// filled is a table with a row for each of the first items, nil without any. If what is
// not empty, the table says how many of them it leaves out.
func filled[T any](t table, items []T, most int, what string, row func(T) []cell) *table {
	if len(items) == 0 {
		return nil
	}
	for _, one := range items[:min(len(items), most)] {
		t.Rows = append(t.Rows, row(one))
	}
	if what != "" {
		t.More = more(len(items), most, what)
	}
	return &t
}

// tables lists the hot paths, the operations and the callers.
func (p *page) tables() {
	p.Ops = p.ranking("ops", "By operation", p.in.Usage.ByMode, "Operation", "Writes", "operations")
	p.Callers = p.ranking("callers", "By caller", p.in.Usage.ByCaller, "Caller", "Writes", "callers")
	saves := map[string]int{}
	for name, s := range p.in.Usage.Checkpoints.ByName {
		saves[name] = s.Saves
	}
	p.Saves = p.ranking("saves", "Checkpoints", saves, "Checkpoint", "Saves", "names")
	away := map[string]bool{} // removed by something else
	for _, f := range p.in.Files {
		away[f.Path] = f.Now != nil && f.Now.Gone
	}
	p.Hot = filled(table{ID: "hot-paths", Caption: "Files by number of writes", Heads: []head{
		{"File", ""}, {"Writes", "n"}, {"", "b"}, {"When", "s"}, {"Size now", "n"}, {"Callers", "n"}, {"Last write", "t"},
	}}, p.sum.files, maxHot, "files", func(f *share) []cell {
		return []cell{
			p.rowHead(f.name), number(f.writes), bar(f.writes, p.sum.files[0].writes), p.spark(f.times, counted(f.writes, "write", "writes")),
			sized(f.size, f.gone || away[f.name]), number(len(f.callers)), p.unix(f.last),
		}
	})
}

// sized is the size of a file; one that is not there has none.
func sized(bytes int64, gone bool) cell {
	if gone {
		return cell{Text: ours("gone"), Class: "n"}
	}
	return cell{Text: ours(size(bytes)), Class: "n"}
}

// ranking is a table of counts, the highest first.
func (p *page) ranking(id, caption string, counts map[string]int, name, what, many string) *table {
	list := rank(counts)
	return filled(table{ID: id, Caption: caption, Small: true, Heads: []head{{name, ""}, {what, "n"}, {"", "b"}}}, list, maxNames, many, func(r ranked) []cell {
		return []cell{p.rowHead(r.name), number(r.n), bar(r.n, list[0].n)}
	})
}

// sessions lists working sessions and sessions of chunks.
func (p *page) sessions() {
	p.Sessions = filled(table{ID: "working", Caption: "Working sessions", Heads: []head{
		{"Session", ""}, {"Writes", "n"}, {"Files", "n"}, {"When", "s"}, {"First", "t"}, {"Last", "t"}, {"Callers", ""},
	}}, p.sum.sessions, maxSessions, "sessions", func(s *share) []cell {
		who := slices.Sorted(maps.Keys(s.callers))
		for i := range who {
			who[i] = flat(p.text(named(who[i]), 40))
		}
		names := strings.Join(who[:min(len(who), 3)], ", ")
		if len(who) > 3 {
			names += fmt.Sprintf(" and %s more", count(len(who)-3))
		}
		head := p.rowHead(s.name)
		if s.name == "" {
			head.Text = []piece{{"no session", true}}
		}
		return []cell{
			head, number(s.writes), number(len(s.files)), p.spark(s.times, counted(s.writes, "write", "writes")),
			p.unix(s.first), p.unix(s.last), p.name(names),
		}
	})
	all, counts := p.in.Usage.Sessions, map[string]int{}
	for name, s := range all {
		counts[name] = s.ChunkWrites
	}
	p.Chunks = filled(table{ID: "chunks", Caption: "Sessions of chunks", Heads: []head{
		{"Session", ""}, {"Chunks", "n"}, {"Files composed", "n"}, {"First", "t"}, {"Last", "t"},
	}}, rank(counts), maxSessions, "sessions", func(r ranked) []cell {
		s := all[r.name]
		return []cell{p.rowHead(r.name), number(s.ChunkWrites), number(s.Composes), p.time(s.FirstWrite.String()), p.time(s.LastWrite.String())}
	})
}

// refusals lists what was refused and why.
func (p *page) refusals() {
	r, all := p.in.Refused, p.in.Usage.Refusals
	for _, t := range []*table{
		p.ranking("reasons", "By reason", all.ByReason, "Reason", "Calls", "reasons"),
		p.ranking("refused-ops", "By operation", all.ByOp, "Operation", "Calls", "operations"),
		p.ranking("refused-callers", "By caller", all.ByCaller, "Caller", "Calls", "callers"),
	} {
		if t != nil {
			p.Refusals = append(p.Refusals, t)
		}
	}
	if r.From > 1 && all.Total > 0 {
		p.Looked = fmt.Sprintf("The list of the newest refusals and the marks in the timeline begin at row %s; the counts are of all rows.", count(r.From))
	}
	p.Recent = filled(table{
		ID: "refused", Caption: "The newest", More: more(len(r.Recent), maxRecent, "of the rows that were looked at are"),
		Heads: []head{{"Time", "t"}, {"Reason", ""}, {"Operation", ""}, {"Path", ""}, {"Caller", ""}},
	}, newest(r.Recent), maxRecent, "", func(one Row) []cell {
		return []cell{p.time(one.TS), p.named(one.Reason), p.named(one.Op), p.rowHead(one.Path), p.named(one.Caller)}
	})
}

// newest are the newest rows, the newest first.
func newest(rows []Row) []Row {
	rows = slices.Clone(rows[max(0, len(rows)-maxRecent):])
	slices.Reverse(rows)
	return rows
}

// events lists the rows that one may want to look at.
func (p *page) events() {
	a := p.acts
	p.Events = filled(table{
		ID: "events", Caption: "Conflicts, aborts, accepted risks", More: more(len(a.events)+a.missed, maxRecent, "rows"),
		Heads: []head{{"Time", "t"}, {"What", ""}, {"Path", ""}, {"Caller", ""}, {"Why", ""}},
	}, newest(a.events), maxRecent, "", func(r Row) []cell {
		what, why := r.Kind, r.Reason
		if r.AcceptRisk != "" && r.Kind == "commit" {
			what, why = "risk accepted", r.AcceptRisk
		}
		return []cell{p.time(r.TS), p.name(what), p.rowHead(r.Path), p.named(r.Caller), {Text: p.text(why, noteSigns)}}
	})
}

// rows is a table of rows of the journal, the newest first.
func (p *page) rows(id, caption string, rows []Row) *table {
	return filled(table{ID: id, Caption: caption, Heads: []head{
		{"Row", "n"}, {"Time", "t"}, {"Operation", ""}, {"Path", ""}, {"Size", "n"}, {"Caller", ""},
	}}, newest(rows), maxRecent, "", func(r Row) []cell {
		op := r.Op
		if r.Kind != "commit" {
			op += " – " + r.Kind
			if r.Reason != "" {
				op += ": " + r.Reason
			}
		}
		bytes := sized(r.Bytes, r.Gone)
		if r.Kind == "refused" { // there is no file afterwards
			bytes = cell{Class: "n"}
		}
		return []cell{number(r.Seq), p.time(r.TS), p.named(op), p.rowHead(r.Path), bytes, p.named(r.Caller)}
	})
}

// check lists what was found wrong.
func (p *page) check() {
	c := p.in.Check
	v := checkView{Skipped: flat(p.text(c.Skipped, noteSigns))}
	for _, f := range c.Counters {
		v.Counters = append(v.Counters, factView{p.text(f.Name, 40), p.text(f.Value, nameSigns)})
	}
	kind := "quick check"
	if c.Deep {
		kind = "deep check"
	}
	switch {
	case c.Skipped != "":
	case len(c.Problems) == 0:
		v.Verdict = "The " + kind + " found nothing wrong."
	default:
		v.Verdict = "The " + kind + " found " + counted(len(c.Problems), "problem", "problems") + "."
		v.Problems = p.problems(c.Problems)
		counts := map[string]int{}
		for _, one := range c.Problems {
			counts[one.Code]++
		}
		v.Kinds = p.ranking("kinds", "By kind", counts, "Problem", "Found", "kinds")
	}
	p.Check = v
}

func (p *page) problems(list []admin.CheckProblem) *table {
	heads := []head{{"Problem", ""}, {"File", ""}, {"Row", "n"}, {"What was found", ""}}
	return filled(table{ID: "problems", Caption: "Problems", Heads: heads}, list, maxProblems, "problems", func(one admin.CheckProblem) []cell {
		row := cell{Class: "n"}
		if one.Seq > 0 {
			row = number(one.Seq)
		}
		return []cell{p.rowHead(one.Code), p.name(one.Path), row, {Text: p.text(one.Detail, noteSigns)}}
	})
}

// files prepares the versions of the files.
func (p *page) files() {
	for i, f := range p.in.Files[:min(len(p.in.Files), maxFiles)] {
		v := fileView{ID: fmt.Sprint("file-", i+1), Path: p.text(f.Path, nameSigns), Note: flat(p.text(f.Problem, noteSigns))}
		if f.Now != nil {
			v.Now = &nowView{Note: "The file on disk differs from its newest version: another program changed it.", Diff: p.diff(f.Now.Diff)}
			if f.Now.Gone {
				v.Now = &nowView{Note: "The file is not on disk: another program removed it."}
			}
		}
		for j, one := range f.Versions[:min(len(f.Versions), maxVersions)] {
			v.Versions = append(v.Versions, p.version(f, one, i == 0 && j == 0))
		}
		if f.More || len(f.Versions) > maxVersions {
			v.More = "There are older versions that are not shown."
		}
		p.Files = append(p.Files, v)
	}
	if len(p.in.Files) > maxFiles {
		p.LeftOut = append(p.LeftOut, ours(more(len(p.in.Files), maxFiles, "files whose versions are")))
	}
}

func (p *page) version(f File, one Version, open bool) versionView {
	v := versionView{
		Row: count(one.Seq), Op: p.text(named(one.Op), 40), TS: p.time(one.TS), Caller: p.text(named(one.Caller), 60),
		Size: size(one.Bytes), SHA: flat(p.text(one.SHA256, 64)), Diff: p.diff(one.Diff), Open: open,
	}
	if one.Path != f.Path {
		v.Path = p.text(one.Path, nameSigns)
	}
	switch {
	case one.SHA256 == "":
		v.Size, v.Kept = "gone", ""
	case !one.Kept:
		v.Kept = "Its bytes are not kept any more."
	}
	return v
}

func (p *page) diff(d Diff) diffView {
	v := diffView{Why: flat(p.text(d.Why, noteSigns)), Lines: d.lines, Cut: d.Cut}
	if d.Added+d.Removed > 0 {
		v.Changes = fmt.Sprintf("+%s −%s lines", count(d.Added), count(d.Removed))
	}
	return v
}
