package overview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/report"
)

// FileDiff is the change of a commit to one file.
type FileDiff struct {
	Path string      `json:"path"`
	Diff report.Diff `json:"diff"`
}

// Diffs returns the changes of a commit to its files, without secrets. If there are
// many files, only the first ones are included.
func Diffs(ctx context.Context, s *rw.Store, clean *Cleaner, row uint64) ([]FileDiff, error) {
	after := row - min(row, 1)
	page, err := s.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &after, Limit: 1})
	if err != nil {
		return nil, err
	}
	list := []FileDiff{}
	for _, e := range page.Entries {
		if e.Seq != row || e.Kind != "commit" || OfStore(e.Path) || len(list) == filesOfChange {
			continue
		}
		d, err := diff(ctx, s, clean, row, e.Path)
		if err != nil {
			return nil, err
		}
		list = append(list, FileDiff{clean.Clean(e.Path), d})
	}
	return list, errors.Join(clean.Err(), ctx.Err())
}

func diff(ctx context.Context, s *rw.Store, clean *Cleaner, row uint64, path string) (report.Diff, error) {
	d, err := s.Diff(ctx, rw.DiffRequest{Path: path, To: row})
	if err != nil {
		return report.Diff{Why: "The versions cannot be compared: " + ReasonOf(err) + "."}, ctx.Err()
	}
	c := report.NewComparer(clean.Clean)
	before := Text(ctx, s, c, path, rw.FileVersion{Version: d.From, SHA256: d.FromSHA256, Available: d.From != 0})
	out := c.Compare(before, Text(ctx, s, c, path, rw.FileVersion{Version: d.To, SHA256: d.ToSHA256, Available: true}))
	return out, errors.Join(clean.Err(), ctx.Err())
}

// Text is the content of one version, ready to be compared.
func Text(ctx context.Context, s *rw.Store, c *report.Comparer, path string, v rw.FileVersion) report.Text {
	switch {
	case v.SHA256.String() == "":
		return report.Gone
	case c.Spent():
		return c.Text(nil)
	case !v.Available:
		return report.Unread("The content of one of the two versions is no longer kept.")
	case v.Bytes > report.TextLimit:
		return report.Unread(report.TooLarge)
	}
	data, _, err := Content(ctx, s, rw.ReadRequest{Path: path, Version: v.Version})
	if err != nil {
		return report.Unread("The content of one of the two versions cannot be read: " + ReasonOf(err) + ".")
	}
	return c.Text(data)
}

// Content reads as much of a file as is compared, and its hash.
func Content(ctx context.Context, s *rw.Store, r rw.ReadRequest) (data []byte, sha string, err error) {
	r.MaxBytes = report.TextLimit + 1
	out, err := s.Read(ctx, r)
	return out.Content, out.SHA256.String(), err
}

// A view checks the journal's directory at this interval, and reads everything again if
// it has changed, or after a second, because some changes leave no row.
const (
	Every = 300 * time.Millisecond
	stale = time.Second
)

// Looker decides when a view of the store in a state directory must be read again.
type Looker struct {
	State string
	seen  string
	read  time.Time
}

// Due reports whether it is time to read.
func (l *Looker) Due() bool {
	seen := Look(l.State)
	if seen == l.seen && time.Since(l.read) < stale {
		return false
	}
	l.seen, l.read = seen, time.Now()
	return true
}

// Again makes the next read due.
func (l *Looker) Again() { l.read = time.Time{} }

// Look is what can be seen of a journal without reading it.
func Look(state string) string {
	entries, err := os.ReadDir(filepath.Join(state, "journal"))
	if err != nil {
		return "" // there is none yet
	}
	var b strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// ReasonOf returns an error as a word that holds no path.
func ReasonOf(err error) string { return string(rw.AsError("report", err).Detail) }
