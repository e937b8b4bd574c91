package main

import (
	"context"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	htmlreport "github.com/resilientwrite/resilientwrite/report"
)

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
		return &htmlreport.Now{Diff: htmlreport.Diff{Why: "The file on disk cannot be read: " + reasonOf(err) + "."}}, nil
	case sha == newest.SHA256.String():
		return nil, nil
	}
	return &htmlreport.Now{Diff: c.diffs.Compare(texts[0], c.diffs.Text(data))}, nil
}
