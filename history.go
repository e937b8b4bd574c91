package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// maxVersions is how many versions one call of History lists.
const maxVersions = 1000

// HistoryRequest asks for the versions of one file.
type HistoryRequest struct {
	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// Maximum number of versions.
	N int `json:"n,omitempty" default:"20" min:"1" max:"1000"`
}

// HistoryResult lists the versions of one file.
type HistoryResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// The versions, newest first.
	Versions []FileVersion `json:"versions"`
	// True when there are older versions.
	More bool `json:"more"`
}

// FileVersion is what a file was after one commit.
type FileVersion struct {
	// Identifier of the version: the journal row that created it.
	Version uint64 `json:"version"`
	// Number of the version at its path: 1, 2, 3; the others keep theirs when one
	// is pruned.
	Rev uint64 `json:"rev"`
	// Path of the file at that time.
	Path string `json:"path"`
	// Previous path, when the commit moved the file.
	From string `json:"from,omitempty"`
	// SHA-256 of the file; empty when the commit removed it.
	SHA256 Digest `json:"sha256"`
	// Size of the file in bytes.
	Bytes int64 `json:"bytes"`
	// True for a symbolic link, whose content is its target.
	Link bool `json:"link,omitempty"`
	// The operation: create, overwrite, append, edit, delete, move …
	Op string `json:"op"`
	// When, RFC 3339 UTC; informational.
	TS string `json:"ts"`
	// Who made it.
	Caller string `json:"caller"`
	// Command line that made the change, or during which it was made, without
	// secrets.
	Command string `json:"command,omitempty"`
	// What the server knows of the call, independent of caller.
	Via *Via `json:"via,omitempty"`
	// True when its content can still be read and restored.
	Available bool `json:"available"`
	// True for the newest version when history has no copy of it: its content is
	// only in the file itself, where other programs can change or remove it.
	HeadNotKept bool `json:"head_not_kept,omitempty"`
	// True when the operator erased its content.
	Erased bool `json:"erased,omitempty"`
}

// History lists the versions of a file, newest first, across deletions and moves:
// every file that was at the path and, for a file that was moved there, its
// versions under earlier names. If a move replaced a file, or was made to a path
// that had one before, the versions of both are listed, in the order in which
// they were made, and path names the file of each. A file that was moved from
// here to another path is listed there as well.
//
// Every listed version can be passed to [Store.Read], [Store.Diff] and
// [Store.Restore]. If a number occurs twice, it refers to the version at the
// requested path. They know the newest 10 000. The cost is proportional to the
// versions requested. Errors: the path details, [ErrInvalidArgument],
// [ErrNotFound] for a path the journal does not know, the storage details,
// [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) History(ctx context.Context, r HistoryRequest) (HistoryResult, error) {
	a, err := s.begin(ctx, "history", r.Path, r)
	if err != nil {
		return HistoryResult{}, err
	}
	out, err := s.listVersions(r)
	if err != nil {
		return HistoryResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) listVersions(r HistoryRequest) (HistoryResult, error) {
	n := r.N
	if n == 0 {
		n = 20
	}
	if n < 1 || n > maxVersions {
		return HistoryResult{}, fault.New(fault.InvalidArgument).With("argument", "n").Hintf("n must be 1 to %d", maxVersions)
	}
	path, err := s.versioned(r.Path)
	if err != nil {
		return HistoryResult{}, err
	}
	l, err := s.versions.Lineage(path)
	if err != nil {
		return HistoryResult{}, err
	}
	list, err := l.First(n + 1)
	if err != nil {
		return HistoryResult{}, err
	}
	if len(list) == 0 {
		return HistoryResult{}, fault.New(fault.NotFound).Hintf("the journal has no file at this path; check the path")
	}
	out := HistoryResult{Path: path, Versions: []FileVersion{}, More: len(list) > n}
	for _, v := range list[:min(len(list), n)] {
		row := FileVersion{
			Version: v.Seq, Rev: v.M.Rev, Path: v.Path, From: v.M.From, SHA256: digest(v.M.SHA256), Bytes: v.M.Bytes, Link: v.M.Link(), Op: v.M.Op, TS: v.TS, Caller: v.Caller, Via: viaOf(v.Via),
			Available: v.M.SHA256 == "" || s.versions.Available(v),
		}
		row.HeadNotKept = len(v.Later) == 0 && v.M.SHA256 != "" && (s.engine.History == nil || !s.engine.History.Has(v.M.SHA256))
		if v.Group != nil {
			row.Command = v.Group.Command
		}
		row.Erased = !row.Available && s.versions.IsErased(v)
		out.Versions = append(out.Versions, row)
	}
	return out, nil
}

// versioned returns the path whose versions a request means: that of a symbolic
// link itself, if the journal knows it, and otherwise the resolved path. If a
// directory of the path is now a symbolic link and only the path itself is known,
// it returns the path itself.
func (s *Store) versioned(raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, s.engine.Tree.Rules)
	if err != nil {
		return "", err
	}
	if t, err := s.engine.LocateEntry(rel); err == nil {
		defer t.Close()
		st, err := t.Parent.Lstat(t.Name)
		if err == nil && st.Kind == fsx.Symlink && t.Exists() {
			if known, err := s.isKnown(t.Path); err != nil || known {
				return t.Path, err
			}
		}
	}
	path, err := s.identity(rel)
	if path == rel {
		return path, err
	}
	if err == nil {
		if known, err := s.isKnown(path); err != nil || known {
			return path, err
		}
	}
	if known, failure := s.isKnown(rel); failure == nil && known {
		return rel, nil
	}
	return path, err
}

// isKnown reports whether the journal has a row of a path.
func (s *Store) isKnown(path string) (bool, error) {
	last, err := s.engine.LastRow(path)
	return last.Seq > 0, err
}

// identity returns the path without links that a requested path has in the
// journal. A path whose directory is now a file is found there as well.
func (s *Store) identity(raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, s.engine.Tree.Rules)
	if err != nil {
		return "", err
	}
	t, err := s.engine.Tree.Resolve(rel)
	if err != nil && s.engine.ErrorOf(err).Code == fault.NotADirectory {
		return rel, nil
	}
	if err != nil {
		return "", err
	}
	defer t.Close()
	return t.Path, nil
}

func (s *Store) historyCaps() engine.HistoryCaps {
	h := s.policy().File.History
	caps := engine.HistoryCaps{Bytes: h.MaxBytes, Object: h.MaxObjectBytes, Age: h.MaxAge, Versions: h.MaxVersions, Head: cmp.Or(h.KeepHeadMax, engine.DefaultKeepHeadMax)}
	if caps.Bytes == 0 {
		caps.Bytes = engine.DefaultHistoryBytes
		if share := s.engine.Disk.Size / engine.DefaultHistoryShare; share > 0 {
			caps.Bytes = min(caps.Bytes, share)
		}
	}
	if caps.Versions == 0 {
		caps.Versions = engine.DefaultHistoryVersions
	}
	return caps
}
