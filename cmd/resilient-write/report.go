package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
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
		c := newCollector(s, since)
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
		return a.deliver(o.out, "page", writing(page.Bytes()), reportReply{
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

func showReport(p *printer, r reply) {
	p.line("%s %s of %s rows, %s files with versions, %s problems", p.paint(green, "report"), size(r.fields["bytes"]), r.text("rows"), r.text("files"), r.text("problems"))
	for _, one := range r.words("left_out") {
		p.line("%s %s", p.paint(faint, "left out"), one)
	}
}
