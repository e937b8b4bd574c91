package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	htmlreport "github.com/resilientwrite/resilientwrite/report"
)

// reportOptions are the flags of the report.
type reportOptions struct {
	out   string
	paths []string
	since string
	title string
	deep  bool
}

// reportReply describes a report that was written to a file.
type reportReply struct {
	Bytes    int      `json:"bytes"`
	SHA256   string   `json:"sha256"`
	Rows     int      `json:"rows"`     // covered by the charts
	Files    int      `json:"files"`    // with versions shown
	Problems int      `json:"problems"` // found by the check
	LeftOut  []string `json:"left_out"`
}

// reportPaths is the maximum number of files whose versions a report shows.
const reportPaths = 50

// report writes an HTML page about the store.
func (a *app) report() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use: "report", Short: "Write an HTML report about the store", GroupID: "look", Args: noArguments,
		Long: `Write an HTML report about the store.

It shows writes over time, the busiest files, sessions, refusals, the versions
of some files with their diffs, and the result of check. The page needs neither
network nor scripts. Secrets are redacted. Nothing is changed in the store.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.makeReport(cmd.Context(), o, time.Now()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "-", "`file` for the page; - for standard output")
	f.StringArrayVar(&o.paths, "path", nil, "show the versions of this `file`; repeatable up to 50 times; default: the 10 files written most often")
	f.StringVar(&o.since, "since", "", "only rows from this `time` on: 2026-01-31T09:00:00Z, 2026-01-31, or how long ago, such as 24h")
	f.StringVar(&o.title, "title", "", "title of the page")
	f.BoolVar(&o.deep, "deep", false, "verify every kept version and every file, like check --deep")
	return cmd
}

// makeReport reads the store, makes the page and writes it to its destination:
// completely or not at all.
func (a *app) makeReport(ctx context.Context, o reportOptions, now time.Time) error {
	since, err := sinceWhen(o.since, now)
	if err != nil {
		return err
	}
	if len(o.paths) > reportPaths {
		return &misuse{fmt.Sprintf("%d paths", len(o.paths)), fmt.Sprintf("a report shows the versions of at most %d files", reportPaths)}
	}
	if err := a.checkOut(o.out, "a", "page", "report.html"); err != nil {
		return err
	}
	return a.withStore(ctx, true, func(ctx context.Context, s *rw.Store) error {
		c := &collector{store: s, since: since, clean: overview.NewCleaner(s)}
		in, err := c.collect(ctx, o)
		if err != nil {
			return err
		}
		in.Title, in.Made = o.title, now
		var page bytes.Buffer
		left, err := htmlreport.Write(&page, in, c.clean.Clean)
		if err = errors.Join(err, c.clean.Err()); err != nil { // content that could not be redacted is not shown
			return err
		}
		sum := sha256.Sum256(page.Bytes())
		return deliver(a, o.out, "page", writing(page.Bytes()), reportReply{
			Bytes: page.Len(), SHA256: hex.EncodeToString(sum[:]), Rows: c.rows, Files: len(in.Files), Problems: len(in.Check.Problems), LeftOut: left,
		}, showReport)
	})
}

// sinceWhen reads the argument of --since.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil { // a day begins in the user's time zone
			return t.UTC(), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UTC(), nil
	}
	return time.Time{}, &misuse{"--since is not a time", "use 2026-01-31T09:00:00Z, 2026-01-31, or a duration such as 24h"}
}

func showReport(p *printer, r reportReply) {
	p.line("%s %s of %d rows, %d files with versions, %d problems", p.paint(green, "report"), size(float64(r.Bytes)), r.Rows, r.Files, r.Problems)
	for _, one := range r.LeftOut {
		p.line("%s %s", p.paint(faint, "left out"), printable(one))
	}
}

// Limits of what a report reads.
const (
	reportRows     = 100_000  // of the journal, the newest
	reportTail     = 1000     // newest rows, with the refusals
	reportChanges  = 10       // the newest, at the top, and as many refusals
	reportHot      = 10       // files, when none are named
	reportVersions = 20       // of each file
	reportPage     = 10_000   // rows at a time
	reportHashed   = 64 << 20 // bytes of a file that is hashed to find out whether it is its newest version
)

// collector reads a store for a report. It changes nothing.
type collector struct {
	store *rw.Store
	since time.Time
	clean *overview.Cleaner
	in    *htmlreport.Input
	rows  int
	diffs *htmlreport.Comparer
}

// collect reads everything.
func (c *collector) collect(ctx context.Context, o reportOptions) (*htmlreport.Input, error) {
	d, err := c.store.Describe(ctx, rw.DescribeRequest{})
	if err != nil {
		return nil, err
	}
	c.diffs = htmlreport.NewComparer(c.clean.Clean)
	c.in = &htmlreport.Input{Since: c.since, Activity: htmlreport.NewActivity(c.since, reportRows, c.clean.Clean), Facts: storeFacts(d)}
	for _, step := range []func() error{
		func() error { return c.activity(ctx, d.HeadSeq) },
		func() (err error) {
			c.in.Usage, err = c.store.Analytics(ctx, analytics.Request{Since: c.since})
			return err
		},
		func() (err error) {
			c.in.Overview, err = overview.Read(ctx, c.store, c.clean, overview.Request{Rows: reportTail, Changes: reportChanges, Since: c.since})
			return err
		},
		func() error { return c.tail(ctx) },
		func() error { return c.files(ctx, o.paths) },
		func() error { return c.check(ctx, o.deep) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.in, nil
}

// storeFacts returns the facts of Describe, for people.
func storeFacts(d rw.DescribeResult) []htmlreport.Fact {
	policy := "the default one"
	if d.Policy.Hash != "" {
		policy = "file with SHA-256 " + d.Policy.Hash
	}
	list := []htmlreport.Fact{
		{Name: "Version of resilientwrite", Value: d.Version}, {Name: "Format of the state directory", Value: fmt.Sprint(d.FormatVersion)},
		{Name: "Newest row", Value: fmt.Sprint(d.HeadSeq)}, {Name: "Policy", Value: policy},
		{Name: "Open transactions", Value: fmt.Sprint(len(d.Transactions))},
	}
	r := d.Recovery
	for _, one := range []struct {
		name string
		n    int64
	}{
		{"Writes that are not finished", int64(r.Pending)}, {"Bytes of torn rows", r.TornBytes},
		{"Rows from the Python implementation", r.Imported}, {"Unreadable lines of it", r.ImportSkipped},
	} {
		if one.n > 0 {
			list = append(list, htmlreport.Fact{Name: one.name, Value: fmt.Sprint(one.n)})
		}
	}
	if r.Poisoned {
		list = append(list, htmlreport.Fact{Name: "Last writer", Value: "a flush failed"})
	}
	for _, w := range r.Warnings {
		list = append(list, htmlreport.Fact{Name: "Warning", Value: strings.TrimSuffix(string(w.Reason)+": "+w.Hint, ": ")})
	}
	return list
}

func (c *collector) leftOut(format string, args ...any) {
	c.in.LeftOut = append(c.in.LeftOut, fmt.Sprintf(format, args...))
}

// activity folds the newest rows, a page at a time.
func (c *collector) activity(ctx context.Context, head uint64) error {
	after := head - min(head, reportRows)
	if after > 0 {
		c.leftOut("The charts, files and sessions cover row %d and later; the figures above them cover all rows.", after+1)
	}
	for after < head {
		page, err := c.store.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &after, Limit: reportPage})
		if err != nil {
			return err
		}
		if page.Archived != nil {
			c.leftOut("Rows %d to %d are archived and not included in the charts, files and sessions.", page.Archived.From, page.Archived.To)
		}
		for _, e := range page.Entries {
			if e.Seq <= head {
				c.in.Activity.Add(rowOfEntry(e))
				c.rows++
			}
		}
		if page.NextSeq <= after {
			break
		}
		after = page.NextSeq
	}
	if n := c.in.Activity.Dropped(); n > 0 {
		c.rows -= n
		c.leftOut("The charts, files and sessions cover the newest %d writes; %d older ones are not included.", reportRows, n)
	}
	return ctx.Err()
}

// rowOfEntry converts a row to the form of the report.
func rowOfEntry(e rw.JournalEntry) htmlreport.Row {
	return htmlreport.Row{
		ID: e.JournalID, Seq: e.Seq, TS: e.TS.String(), Kind: e.Kind, Op: e.Op, Path: e.Path, Caller: e.Caller, Session: e.Session,
		Bytes: e.Bytes, Gone: e.SHA256.String() == "", Reason: e.Reason, AcceptRisk: e.AcceptRisk, Ref: e.Ref,
	}
}

// tail reads the newest rows, and the refusals among them.
func (c *collector) tail(ctx context.Context) error {
	page, err := c.store.JournalTail(ctx, rw.JournalTailRequest{N: reportTail, IncludeRefused: true})
	if err != nil {
		return err
	}
	if len(page.Entries) >= reportTail {
		c.in.Refused.From = page.Entries[0].Seq
	}
	for _, e := range page.Entries {
		if t := e.TS.Time; !t.IsZero() && t.Before(c.since) {
			continue
		}
		row := rowOfEntry(e)
		c.in.Newest = append(c.in.Newest, row)
		if e.Kind == "refused" {
			c.in.Refused.Recent = append(c.in.Refused.Recent, row)
		}
	}
	return nil
}

// check checks the store. If it cannot be checked, the report says so.
func (c *collector) check(ctx context.Context, deep bool) error {
	r, err := c.store.Check(ctx, admin.CheckRequest{Deep: deep})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.in.Check.Deep = deep
	if err != nil {
		c.in.Check.Skipped = "The store could not be checked: " + overview.ReasonOf(err) + "."
		c.leftOut("%s", c.in.Check.Skipped)
		return nil
	}
	c.in.Check.Problems = r.Problems
	n := r.Counters
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"Journal segments", int64(n.Segments)}, {"Parked segments", int64(n.Parked)}, {"Rows", int64(n.Rows)}, {"Unreadable lines", int64(n.Malformed)},
		{"Problems acknowledged before", int64(n.Accepted)}, {"Kept versions", int64(n.Objects)}, {"Bytes of kept versions", n.Bytes},
		{"Unsettled entries", int64(n.Staged)}, {"Files compared", int64(n.Paths)},
	} {
		c.in.Check.Counters = append(c.in.Check.Counters, htmlreport.Fact{Name: f.name, Value: fmt.Sprint(f.n)})
	}
	return nil
}

// files reads the versions of the requested files, or of the busiest.
func (c *collector) files(ctx context.Context, paths []string) error {
	asked := len(paths) > 0
	if !asked {
		if paths = c.in.Activity.Hot(reportHot + 1); len(paths) > reportHot {
			paths = paths[:reportHot]
			c.leftOut("Versions are shown for the %d files written most often; use --path for others.", reportHot)
		}
	}
	for _, path := range paths {
		f, err := c.file(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, rw.ErrNotFound):
			f = htmlreport.File{Path: path, Problem: "The journal has no file at this path."}
		case err != nil && asked:
			return err
		case err != nil:
			f = htmlreport.File{Path: path, Problem: "The versions cannot be read: " + overview.ReasonOf(err) + "."}
		}
		if slices.ContainsFunc(c.in.Files, func(have htmlreport.File) bool { return have.Path == f.Path }) {
			continue // requested twice, or through a link
		}
		c.in.Files = append(c.in.Files, f)
	}
	if n := c.diffs.Skipped; n > 0 {
		c.leftOut("%d diffs are left out because the page is full.", n)
	}
	return nil
}

// file reads the versions of one file, each with its diff from the previous
// one.
func (c *collector) file(ctx context.Context, path string) (htmlreport.File, error) {
	h, err := c.store.History(ctx, rw.HistoryRequest{Path: path, N: reportVersions + 1})
	if err != nil {
		return htmlreport.File{}, err
	}
	f := htmlreport.File{Path: h.Path, More: h.More}
	texts := make([]htmlreport.Text, len(h.Versions))
	for i, v := range h.Versions {
		texts[i] = overview.Text(ctx, c.store, c.diffs, h.Path, v)
	}
	if newest := h.Versions[0]; newest.Bytes > reportHashed {
		f.Problem = "The file is larger than 64 MiB and was not compared with its newest version."
	} else if f.Now, err = c.now(ctx, h, texts); err != nil {
		return htmlreport.File{}, err
	}
	for i, v := range h.Versions[:min(len(h.Versions), reportVersions)] {
		if t := v.TS.Time; !t.IsZero() && t.Before(c.since) {
			f.More = true
			break
		}
		var before htmlreport.Text
		if i+1 < len(texts) {
			before = texts[i+1]
		} else {
			before = c.first(ctx, v)
		}
		f.Versions = append(f.Versions, htmlreport.Version{
			Seq: v.Version, TS: v.TS.String(), Op: v.Op, Caller: v.Caller, Path: v.Path, SHA256: v.SHA256.String(), Bytes: v.Bytes, Kept: v.Available,
			Diff: c.diffs.Compare(before, texts[i]),
		})
	}
	f.More = f.More || len(h.Versions) > reportVersions
	return f, ctx.Err()
}

// first returns the content before the oldest version that the journal knows.
func (c *collector) first(ctx context.Context, v rw.FileVersion) htmlreport.Text {
	after := v.Version - 1
	page, err := c.store.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &after, Limit: 1})
	if err == nil {
		for _, e := range page.Entries {
			if e.Seq == v.Version && (e.Path == v.Path || e.RealPath == v.Path) && e.PrevSHA256.String() == "" {
				return htmlreport.Gone
			}
		}
	}
	return htmlreport.Unread("The previous content is not recorded in any version.")
}

// now compares the file on disk with its newest version. It returns nil if they
// are equal.
func (c *collector) now(ctx context.Context, h rw.HistoryResult, texts []htmlreport.Text) (*htmlreport.Now, error) {
	newest := h.Versions[0]
	data, sha, err := overview.Content(ctx, c.store, rw.ReadRequest{Path: h.Path})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, rw.ErrNotFound):
		if newest.SHA256.String() == "" {
			return nil, nil
		}
		return &htmlreport.Now{Gone: true}, nil
	case err != nil: // a directory in its place, or no permission to read it
		return &htmlreport.Now{Diff: htmlreport.Diff{Why: "The file on disk cannot be read: " + overview.ReasonOf(err) + "."}}, nil
	case sha == newest.SHA256.String():
		return nil, nil
	}
	return &htmlreport.Now{Diff: c.diffs.Compare(texts[0], c.diffs.Text(data))}, nil
}
