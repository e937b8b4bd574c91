package changes

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// maxHunkBytes limits the texts that one call compares.
const maxHunkBytes = 256 << 20

// netting separates the selected changes from others, row by row.
type netting struct {
	*Layer
	git   *observe.Git
	files map[string]*hunks.Net
	fails map[string]string
	left  int64
}

// lines adds the changed lines to the files.
func (l *Layer) lines(ctx context.Context, rows []row, files []*File) error {
	n := &netting{Layer: l, git: l.Observed.Git(ctx), files: map[string]*hunks.Net{}, fails: map[string]string{}, left: maxHunkBytes}
	defer n.git.Close()
	for _, r := range rows {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled).Because(ctx.Err())
		}
		if err := n.take(r.rec, r.mine); err != nil {
			return err
		}
	}
	for _, f := range files {
		net := n.files[f.Path]
		if f.Omitted = n.fails[f.Path]; f.Omitted != "" || net == nil {
			continue
		}
		list, err := net.Hunks()
		if err == nil {
			f.Patch, err = net.Patch()
		}
		if err != nil {
			f.Omitted = reason(err, hunks.ErrTooLarge)
			continue
		}
		f.net, f.Hunks = net, []around.ChangedHunk{}
		for _, h := range list {
			f.Hunks = append(f.Hunks, around.ChangedHunk{Line: h.From + 1, Lines: h.To - h.From, NewLine: h.NewFrom + 1, NewLines: h.NewTo - h.NewFrom})
		}
	}
	return nil
}

// reason returns the reason why a file has no hunks, for other errors that of otherwise.
func reason(err error, otherwise hunks.Reason) string {
	errors.As(err, &otherwise)
	return string(otherwise)
}

// take adds a row; mine reports whether the row is selected.
func (n *netting) take(rec *journal.Record, mine bool) error {
	for i := range rec.Muts {
		m := &rec.Muts[i]
		path := m.Identity()
		net := n.files[path]
		if m.Class != "" || m.ImportID != "" || n.fails[path] != "" || net == nil && !mine {
			continue
		}
		before, err := n.version(rec, m, true)
		after, aerr := n.version(rec, m, false)
		switch {
		case err != nil:
		case aerr != nil:
			err = aerr
		case net == nil:
			n.files[path] = hunks.Start(path, before, after)
		case mine:
			err = net.Mine(before, after)
		default:
			if err = net.Others(before); err == nil {
				err = net.Others(after)
			}
		}
		if engine.IsShortage(err) {
			return err
		}
		if err != nil {
			n.fails[path] = reason(err, hunks.ErrNotKept)
		}
	}
	return nil
}

// version reads the content that a row records for a file, before or after the change.
func (n *netting) version(rec *journal.Record, m *journal.Mutation, before bool) (v hunks.Version, err error) {
	sha, size, mode := m.SHA256, m.Bytes, m.Mode
	if before {
		sha, size = m.PrevSHA256, m.PrevBytes
		if m.PrevMode != 0 {
			mode = m.PrevMode
		}
	}
	if sha == "" {
		return v, nil
	}
	if fsx.KindOf(mode) == fsx.Symlink {
		return v, hunks.ErrLink
	}
	v.Exists, v.Exec = true, mode&0o100 != 0
	if size > hunks.Limit || n.left < size {
		return v, hunks.ErrTooLarge
	}
	n.left -= size
	var unread error
	for _, place := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return n.Observed.Kept(sha, size) },
		func() (io.ReadCloser, error) {
			if before {
				return n.git.Open(m.Identity(), m.PrevGit)
			}
			src, _, err := n.Versions.ContentAt(m.Identity(), rec.Seq, size)
			return src, err
		},
		func() (io.ReadCloser, error) { return n.contentBefore(m, rec.Seq) },
	} {
		src, err := place()
		if err == nil {
			v.Text, err = observe.ReadKept(src, sha)
		}
		if err == nil {
			return v, nil
		}
		if engine.IsShortage(err) {
			unread = err
		}
	}
	return v, cmp.Or(unread, error(hunks.ErrNotKept))
}
