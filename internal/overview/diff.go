package overview

import (
	"context"
	"encoding/base64"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/report"
)

// Diff is what a row changed in a file, without secrets.
func Diff(ctx context.Context, s *rw.Store, clean *Cleaner, row uint64, path string) (report.Diff, error) {
	d, err := s.Diff(ctx, rw.DiffRequest{Path: path, To: row})
	if err != nil {
		return report.Diff{Why: "The versions cannot be compared: " + reasonOf(err) + "."}, ctx.Err()
	}
	c := report.NewComparer(clean.Clean)
	before := Text(ctx, s, c, path, rw.FileVersion{Version: d.From, SHA256: d.FromSHA256, Available: d.From != 0})
	out := c.Compare(before, Text(ctx, s, c, path, rw.FileVersion{Version: d.To, SHA256: d.ToSHA256, Available: true}))
	return out, errors.Join(clean.Err(), ctx.Err())
}

// Text is the content of one version, ready to be compared.
func Text(ctx context.Context, s *rw.Store, c *report.Comparer, path string, v rw.FileVersion) report.Text {
	switch {
	case v.SHA256 == "":
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
		return report.Unread("The content of one of the two versions cannot be read: " + reasonOf(err) + ".")
	}
	return c.Text(data)
}

// Content reads as much of a file as is compared, and its hash.
func Content(ctx context.Context, s *rw.Store, r rw.ReadRequest) (data []byte, sha string, err error) {
	r.Encoding, r.MaxBytes = "base64", report.TextLimit+1
	out, err := s.Read(ctx, r)
	if err != nil {
		return nil, "", err
	}
	data, err = base64.StdEncoding.DecodeString(out.Content)
	return data, out.SHA256, err
}

// reasonOf is an error in a word that holds no path.
func reasonOf(err error) string { return string(rw.AsError("report", err).Detail) }
