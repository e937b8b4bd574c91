package report_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

// redact is what a store does with a text.
func redact(t testing.TB) func(string) string {
	t.Helper()
	s := testbed.Must(scan.New(nil))(t)
	return func(text string) string {
		clean, _ := s.Redact([]byte(text), scan.Options{})
		return string(clean)
	}
}

// same leaves a text as it is.
func same(text string) string { return text }

// write makes the page.
func write(t testing.TB, in *report.Input, clean func(string) string) string {
	t.Helper()
	var b bytes.Buffer
	testbed.Must(report.Write(&b, in, clean))(t)
	return b.String()
}

// made is when all pages of the tests are made.
var made = time.Date(2026, 3, 14, 19, 0, 0, 0, time.UTC)

// at is the time with a text.
func at(text string) (t call.Timestamp) {
	t.UnmarshalText([]byte(text))
	return t
}

// period is that of rows from one time to another.
func period(first, last string) analytics.Period {
	return analytics.Period{FirstEntry: at(first), LastEntry: at(last)}
}

// workday is a store after a day of three agents: what the golden page and the
// picture in docs are made of. It is the same every time.
func workday(t testing.TB) *report.Input {
	t.Helper()
	clean := redact(t)
	in := &report.Input{
		Title: "Shop, 14 March", Made: made, Activity: report.NewActivity(time.Time{}, 100_000, clean),
		Usage: analytics.Result{
			ByMode: map[string]int{}, ByCaller: map[string]int{}, Checkpoints: analytics.Checkpoints{ByName: map[string]analytics.Saves{"payments": {Saves: 4}, "search": {Saves: 2}}},
			Sessions: map[string]analytics.Session{"catalogue": {ChunkWrites: 14, Composes: 1, FirstWrite: at("2026-03-14T13:02:00Z"), LastWrite: at("2026-03-14T13:09:41Z")}},
			Refusals: analytics.Refusals{ByReason: map[string]int{}, ByOp: map[string]int{}, ByCaller: map[string]int{}},
		},
		Refused: report.Refused{From: 1},
		Check: report.Check{
			Deep: true, Problems: []admin.CheckProblem{{Code: "file_differs", Path: "config/limits.yaml", Seq: 41, Detail: "the file differs from its newest journal row; it was changed outside this store"}},
			Counters: []report.Fact{{Name: "Rows", Value: "431"}, {Name: "Kept versions", Value: "212"}, {Name: "Files compared", Value: "18"}},
		},
		Facts:   []report.Fact{{Name: "Version", Value: "0.1.0"}, {Name: "Durability", Value: "full"}, {Name: "Newest row", Value: "431"}},
		LeftOut: []string{"Versions are shown of the 2 files that were written most often; --path names others."},
	}
	fill(in)
	in.Files = versions(clean)
	in.Overview = asked(in)
	return in
}

// asked is what a person asks first of that day.
func asked(in *report.Input) *report.Overview {
	o := &report.Overview{Rows: 431, Stopped: []string{"The policy file policy.yaml is invalid at line 3: unknown key."}}
	for _, r := range in.Newest[len(in.Newest)-4:] {
		o.Changes = append([]report.Change{{
			Row: r.Seq, TS: r.TS, Op: r.Op, Caller: r.Caller, Files: []report.ChangedFile{{Path: r.Path, Op: r.Op, Bytes: r.Bytes, Gone: r.Op == "delete"}},
		}}, o.Changes...)
	}
	o.Changes[1].Files, o.Changes[1].More = append(o.Changes[1].Files, report.ChangedFile{Path: "web/app.css"}), 3
	o.Changes[2].Undone, o.Changes[3].Files[0].Gone = true, true
	for _, r := range in.Refused.Recent[:2] {
		o.Refused = append(o.Refused, report.Refusal{Row: r.Seq, TS: r.TS, Op: r.Op, Path: r.Path, Caller: r.Caller, Reason: r.Reason, Why: "the content holds what looks like a secret: api_key"})
	}
	o.Waiting = []report.Waiting{
		{Kind: "draft", Name: "draft_1f", Text: "a refused draft of config/limits.yaml", Command: "resilient-write draft get draft_1f"},
		{Kind: "handoff", Name: "HANDOFF.md", Text: "the handoff of payments, blocked; question 1 of 2: which currency?", Command: "resilient-write handoff read"},
	}
	return o
}

// fill writes the rows of the day.
func fill(in *report.Input) {
	random := rand.New(rand.NewPCG(1, 2))
	paths := []string{
		"src/payments/checkout.go", "src/payments/checkout_test.go", "src/payments/refund.go", "src/search/index.go", "src/search/query.go",
		"src/search/query_test.go", "web/app.css", "web/cart.ts", "docs/payments.md", "config/limits.yaml", "README.md", "notes/plan.md",
	}
	callers := []struct{ name, session string }{{"coder", "payments-2"}, {"coder", "search"}, {"reviewer", "review-31"}, {"writer", ""}}
	var seq uint64
	seen := map[string]bool{}
	now := time.Date(2026, 3, 14, 8, 4, 0, 0, time.UTC)
	for range 431 {
		seq++
		now = now.Add(time.Duration(random.ExpFloat64()*80) * time.Second)
		if seq == 180 {
			now = now.Add(70 * time.Minute) // lunch
		}
		who := callers[[]int{0, 0, 0, 1, 1, 2, 2, 3}[random.IntN(8)]]
		path := paths[int(float64(len(paths))*random.Float64()*random.Float64())]
		op := []string{"edit", "edit", "edit", "overwrite", "append"}[random.IntN(5)]
		switch {
		case !seen[path]:
			op, seen[path] = "create", true
		case random.IntN(40) == 0:
			op, seen[path] = "delete", false
		case random.IntN(50) == 0:
			op = "undo"
		}
		r := report.Row{
			ID: fmt.Sprintf("wj_%d.0", seq), Seq: seq, TS: now.Format("2006-01-02T15:04:05.000000Z"), Kind: "commit", Op: op, Path: path,
			Caller: who.name, Session: who.session, Bytes: int64(400 + random.IntN(9000)),
		}
		switch {
		case random.IntN(60) == 0:
			r.Kind, r.Op = "refused", []string{"edit", "overwrite"}[random.IntN(2)]
			r.Reason = []string{"risk_blocked", "hash_mismatch", "old_string_not_found"}[random.IntN(3)]
			in.Refused.Recent = append(in.Refused.Recent, r)
			in.Usage.Refusals.ByReason[r.Reason]++
			in.Usage.Refusals.ByOp[r.Op]++
			in.Usage.Refusals.ByCaller[r.Caller]++
			in.Newest = append(in.Newest, r)
			continue
		case seq == 300:
			r.AcceptRisk = "a sample key of the vendor's documentation"
		}
		in.Activity.Add(r)
		in.Newest = append(in.Newest, r)
		u := &in.Usage
		u.TotalWrites++
		u.TotalBytesWritten += r.Bytes
		u.ByMode[r.Op]++
		u.ByCaller[r.Caller]++
		if u.Period.FirstEntry.IsZero() {
			u.Period.FirstEntry = at(r.TS)
		}
		u.Period.LastEntry = at(r.TS)
	}
	in.Usage.Refusals.Total, in.Usage.UniquePaths = len(in.Refused.Recent), len(paths)
	in.Usage.WriteVelocity = analytics.Velocity{WritesPerMinute: 0.73, PeakMinute: analytics.Minute{Minute: "2026-03-14T09:12Z", Writes: 5}}
	in.Newest = in.Newest[len(in.Newest)-12:]
}

// vendorKey is a credential that its shape alone confirms, put together here.
var vendorKey = strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")

// versions are two files with a history, one of which once held a key.
func versions(clean func(string) string) []report.File {
	c := report.NewComparer(clean)
	texts := []string{
		"package payments\n\n// Checkout takes the money.\nfunc Checkout(cart Cart) error {\n\treturn charge(cart.Total())\n}\n",
		"package payments\n\nconst key = \"" + vendorKey + "\"\n\n// Checkout takes the money.\nfunc Checkout(cart Cart) error {\n\treturn charge(key, cart.Total())\n}\n",
		"package payments\n\nimport \"errors\"\n\nvar errEmpty = errors.New(\"the cart is empty\")\n\n// Checkout takes the money, once.\nfunc Checkout(cart Cart) error {\n\tif cart.Empty() {\n\t\treturn errEmpty\n\t}\n\treturn charge(cart.ID, cart.Total())\n}\n",
	}
	first := report.File{Path: "src/payments/checkout.go"}
	before := report.Gone
	for i, text := range texts {
		now := c.Text([]byte(text))
		first.Versions = append([]report.Version{{
			Seq: uint64(2 + 130*i), TS: made.Add(time.Duration(i-10) * time.Hour).Format(time.RFC3339), Op: []string{"create", "edit", "edit"}[i], Caller: "coder",
			Path: first.Path, SHA256: strings.Repeat(fmt.Sprint(i+1), 64), Bytes: int64(len(text)), Kept: true, Diff: c.Compare(before, now),
		}}, first.Versions...)
		before = now
	}
	second := report.File{
		Path: "config/limits.yaml", More: true,
		Versions: []report.Version{{Seq: 41, TS: "2026-03-14T09:31:07Z", Op: "overwrite", Caller: "reviewer", Path: "config/old-limits.yaml", SHA256: strings.Repeat("4", 64), Bytes: 40, Kept: true, Diff: c.Compare(c.Text([]byte("requests: 10\n")), c.Text([]byte("requests: 10\nburst: 20\n")))}},
		Now:      &report.Now{Diff: c.Compare(c.Text([]byte("requests: 10\nburst: 20\n")), c.Text([]byte("requests: 50\nburst: 20\n")))},
	}
	return []report.File{first, second, {Path: "src/none.go", Problem: "The journal has no file at this path."}}
}
