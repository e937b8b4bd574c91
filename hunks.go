package resilientwrite

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// ChangedHunk is lines that were changed.
type ChangedHunk struct {
	// First line, from 1, and number of lines without the change.
	Line  int `json:"line"`
	Lines int `json:"lines"`
	// The same in the newest version that has the change.
	NewLine  int `json:"new_line"`
	NewLines int `json:"new_lines"`
}

// The reasons why a file has no hunks, or is not staged.
const (
	HunksOverlap  = "overlap"   // others changed the same lines, or the index has others
	HunksBinary   = "binary"    // it is no UTF-8 text
	HunksLink     = "link"      // it is or was a symbolic link
	HunksTooLarge = "too_large" // over 8 MiB
	HunksNotKept  = "not_kept"  // history does not have all versions
	HunksFiltered = "filtered"  // git converts its bytes, or would run a filter
	HunksIgnored  = "ignored"   // git ignores it
	HunksUnmerged = "unmerged"  // it has a conflict in the index, or is no regular file there
)

var hunkReasons = map[error]string{
	hunks.ErrOverlap: HunksOverlap, hunks.ErrBinary: HunksBinary, hunks.ErrLink: HunksLink, hunks.ErrTooLarge: HunksTooLarge, hunks.ErrFiltered: HunksFiltered,
	hunks.ErrIgnored: HunksIgnored, hunks.ErrUnmerged: HunksUnmerged, hunks.ErrNoFile: HunksUnmerged,
}

// StageResult is what was put into git's index.
type StageResult struct {
	// Files whose changes are staged now, in the order of their paths.
	Staged []string `json:"staged"`
	// Files whose changes were staged before.
	Already []string `json:"already"`
	// Files that were left as they are, with the reason.
	Skipped []SkippedFile `json:"skipped"`
}

// SkippedFile is a file that was not staged.
type SkippedFile struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// Why.
	Reason string `json:"reason" enum:"overlap,binary,too_large,not_kept,filtered,ignored,unmerged"`
}

// StageChanges puts the changes that r selects into the index of the git
// repository of the workspace, and nothing else. Changes that others made to the
// same files are omitted, other entries of the index stay, and neither the work
// tree nor a ref is changed. A file is skipped if its changes cannot be separated
// from those of others, or cannot be merged with the index. It reads only the
// journal; scan first to include changes since the last scan.
//
// Errors: [ErrInvalidArgument] where there is no repository, [ErrIOBusy] while
// another program has locked the index, the storage details, [ErrStoreClosed].
func (s *Store) StageChanges(ctx context.Context, r ChangesRequest) (StageResult, error) {
	out := StageResult{Staged: []string{}, Already: []string{}, Skipped: []SkippedFile{}}
	r.Hunks = true
	found, err := s.Changes(ctx, r)
	if err != nil {
		return out, err
	}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("stage", err)
	}
	defer s.engine.Leave()
	var nets []*hunks.Net
	for _, f := range found.Files {
		switch {
		case f.Omitted != "":
			out.Skipped = append(out.Skipped, SkippedFile{f.Path, f.Omitted})
		case f.net != nil && !f.net.Same():
			nets = append(nets, f.net)
		}
	}
	if len(nets) == 0 {
		return out, nil
	}
	staged, refused, err := hunks.Stage(ctx, s.engine.RealRoot, nets)
	switch {
	case errors.Is(err, hunks.ErrNoGit):
		err = fault.New(fault.InvalidArgument).Hintf("the workspace is in no git repository, or git cannot be run")
	case errors.Is(err, hunks.ErrLocked):
		err = fault.New(fault.IOBusy).Hintf("another program has locked the index of git; try again when it has ended")
	}
	if err != nil {
		return out, s.verbError("stage", err)
	}
	for _, n := range nets {
		switch err := refused[n.Path]; {
		case err != nil && hunkReasons[err] == "":
			return out, s.verbError("stage", err)
		case err != nil:
			out.Skipped = append(out.Skipped, SkippedFile{n.Path, hunkReasons[err]})
		case slices.Contains(staged, n.Path):
			out.Staged = append(out.Staged, n.Path)
		default:
			out.Already = append(out.Already, n.Path)
		}
	}
	return out, nil
}

// maxHunkBytes limits the texts that one call compares.
const maxHunkBytes = 256 << 20

// netting separates the requested changes from others, row by row.
type netting struct {
	s     *Store
	git   *observe.Git
	files map[string]*hunks.Net
	fails map[string]string
	left  int64
}

func (s *Store) newNetting(ctx context.Context) *netting {
	return &netting{s: s, git: s.observed.Git(ctx), files: map[string]*hunks.Net{}, fails: map[string]string{}, left: maxHunkBytes}
}

// take adds a row; mine reports whether the row is requested.
func (n *netting) take(rec *journal.Record, mine bool) {
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
		if err != nil {
			if n.fails[path] = hunkReasons[err]; n.fails[path] == "" {
				n.fails[path] = HunksNotKept
			}
		}
	}
}

// version reads the content that a row records for a file, before or after the
// change.
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
	at := &undoing{path: m.Identity(), oldest: m, first: rec.Seq}
	for _, place := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return n.s.observed.Kept(sha, size), nil },
		func() (io.ReadCloser, error) {
			if !before {
				src, _, err := n.s.versions.ContentAt(m.Identity(), rec.Seq, size)
				return src, err
			}
			return n.git.Open(m.Identity(), m.PrevGit), nil
		},
		func() (io.ReadCloser, error) { return n.s.contentBefore(at) },
	} {
		src, err := place()
		if err != nil || src == nil {
			continue
		}
		v.Text, err = io.ReadAll(io.LimitReader(src, hunks.Limit+1))
		src.Close()
		if err == nil && engine.HashOf(v.Text) == sha {
			return v, nil
		}
	}
	return v, fault.New(fault.VersionNotKept)
}

// finish adds the hunks to the files.
func (n *netting) finish(files []ChangedFile) {
	n.git.Close()
	for i := range files {
		f := &files[i]
		net := n.files[f.Path]
		if f.Omitted = n.fails[f.Path]; f.Omitted != "" || net == nil {
			continue
		}
		list, err := net.Hunks()
		if err == nil {
			f.Patch, err = net.Patch()
		}
		if err != nil {
			if f.Omitted = hunkReasons[err]; f.Omitted == "" {
				f.Omitted = HunksTooLarge
			}
			continue
		}
		f.net, f.Hunks = net, []ChangedHunk{}
		for _, h := range list {
			f.Hunks = append(f.Hunks, ChangedHunk{h.From + 1, h.To - h.From, h.NewFrom + 1, h.NewTo - h.NewFrom})
		}
	}
}
