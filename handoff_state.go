package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"sort"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// AutoState says which files a handoff takes into last_good_state by itself:
// none, those the session wrote, or those that match a glob.
type AutoState string

// AutoStateSession takes the files that the journal last saw this session
// write, or this caller when there is no session. On the wire it is true.
const AutoStateSession AutoState = "true"

// UnmarshalJSON reads true, false or a glob.
func (a *AutoState) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		*a = AutoStateSession
	case "false", "null":
		*a = ""
	default:
		var glob string
		if err := json.Unmarshal(data, &glob); err != nil {
			return err
		}
		*a = AutoState(glob)
	}
	return nil
}

// HandoffDrift is a file that is not as last_good_state says.
type HandoffDrift struct {
	// Path as given in last_good_state; empty in a refusal when it leads outside
	// the workspace.
	Path string `json:"path"`
	// Its position in last_good_state, from 0.
	Index int `json:"index"`
	// The problem: the path is invalid, the file does not exist, or its content
	// differs.
	Reason string `json:"reason" enum:"invalid_path,missing,hash_mismatch"`
	// SHA-256 recorded in last_good_state.
	ExpectedSHA256 string `json:"expected_sha256"`
	// SHA-256 of the current file; empty when it does not exist.
	ActualSHA256 string `json:"actual_sha256"`
}

// The reasons of a drift.
const (
	driftInvalidPath  = "invalid_path"
	driftMissing      = "missing"
	driftHashMismatch = "hash_mismatch"
)

// driftOf compares files with the current content. sure holds the hashes of files
// that were hashed a moment ago.
func (s *Store) driftOf(ctx context.Context, files []HandoffFile, sure map[string]string) ([]HandoffDrift, error) {
	list := []HandoffDrift{}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		want := strings.ToLower(f.SHA256)
		if sure[f.Path] == want && want != "" {
			continue
		}
		d := HandoffDrift{Path: f.Path, Index: i, ExpectedSHA256: want}
		have, err := s.hashClean(f.Path)
		switch {
		case err != nil && s.engine.ErrorOf(err).Code.Class().Exit == fault.CodeStorage:
			return list, err // the disk failed, which says nothing of the file
		case err != nil:
			d.Reason = driftInvalidPath
		case have == "":
			d.Reason = driftMissing
		case have != want:
			d.Reason, d.ActualSHA256 = driftHashMismatch, have
		default:
			continue
		}
		list = append(list, d)
	}
	return list, nil
}

// hashClean hashes the file of a path that any user may have written; "" when it
// is absent.
func (s *Store) hashClean(raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, s.engine.Tree.Rules)
	if err != nil {
		return "", err
	}
	return s.engine.HashPath(rel)
}

// drifted refuses to continue from a state that no longer exists. The error shows
// no path that leads out of the workspace.
func (s *Store) drifted(list []HandoffDrift) *fault.Fault {
	sent := append([]HandoffDrift{}, list[:min(len(list), maxTold)]...)
	for i := range sent {
		if _, _, err := relpath.Clean(sent[i].Path, s.engine.Tree.Rules); err != nil {
			sent[i].Path = ""
		}
	}
	e := fault.New(fault.StateDrift).With("drift_warnings", sent)
	if n := len(list) - maxTold; n > 0 {
		e.With("drift_omitted", n)
	}
	return e
}

const (
	maxTold      = 100     // entries that an error lists
	maxAutoState = 1000    // files that auto_state takes
	maxWalked    = 200_000 // entries that a glob, and journal rows that true, looks at
)

// autoState returns the files that a handoff adds automatically, by path, and the
// hashes of those that were read.
func (s *Store) autoState(ctx context.Context, auto AutoState, c *commit) ([]HandoffFile, error) {
	if auto == AutoStateSession {
		return s.writtenBy(c.handedOver(), c.First().Path)
	}
	glob := string(auto)
	if policyfile.GlobTooLarge(glob) {
		return nil, fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("the glob of auto_state is too long, or its braces expand to too many globs; send a simpler one")
	}
	if !doublestar.ValidatePattern(glob) || strings.HasPrefix(glob, "/") || strings.Contains("/"+glob+"/", "/../") {
		return nil, fault.New(fault.InvalidArgument).With("argument", "auto_state").Hintf("auto_state must be true or a glob relative to the workspace, such as src/**/*.go")
	}
	w := &globWalk{s: s, ctx: ctx, glob: glob, without: c.First().Path}
	base, _ := doublestar.SplitPattern(glob)
	dir, err := s.openBelow(base)
	if notThere(err) || errors.Is(err, relpath.ErrProtected) {
		return []HandoffFile{}, nil
	}
	if err != nil {
		return nil, err
	}
	if dir != s.engine.Disk.Root {
		defer dir.Close()
	}
	if err := w.walk(dir, strings.TrimPrefix(base, ".")); err != nil {
		return nil, err
	}
	sort.Slice(w.files, func(i, j int) bool { return w.files[i].Path < w.files[j].Path })
	return w.files, nil
}

// openBelow opens a directory of the workspace by the names that lead to it,
// without following links.
func (s *Store) openBelow(base string) (fsx.Dir, error) {
	dir := s.engine.Disk.Root
	for _, name := range strings.Split(base, "/") {
		if name == "." || name == "" {
			continue
		}
		if relpath.ProtectedName(name, s.engine.Tree.Rules.Protected) {
			return dir, relpath.ErrProtected
		}
		next, err := dir.OpenDir(name)
		if dir != s.engine.Disk.Root {
			dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// notThere reports whether an error says that a name does not lead to a
// directory.
func notThere(err error) bool {
	return engine.IsAbsent(err) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// handedOver selects the commits that a handoff refers to: the call's own, those
// of the session that it names, or those of the caller if there is no session.
func (c *commit) handedOver() whose {
	own := c.whose("", "")
	switch {
	case c.Via != nil && c.session == "" && !own.none:
		return own
	case c.Req.Session != "":
		return whose{session: c.Req.Session}
	}
	return whose{caller: c.Req.Caller}
}

// writtenBy returns the files that the journal last recorded as written, with the
// recorded hashes.
func (s *Store) writtenBy(of whose, without string) ([]HandoffFile, error) {
	out, seen, aborted := []HandoffFile{}, map[string]bool{without: true}, map[uint64]bool{}
	keep := func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind != journal.KindCommit || aborted[rec.Seq] || len(out) >= maxAutoState {
			return false
		}
		if !of.made(rec) {
			return false
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.Class != "" || seen[m.Identity()] {
				continue
			}
			seen[m.Identity()] = true
			if m.SHA256 != "" {
				out = append(out, HandoffFile{Path: m.Identity(), SHA256: m.SHA256, Bytes: m.Bytes})
			}
		}
		return false
	}
	if _, _, err := s.engine.Log.Tail(1, keep, maxWalked); err != nil {
		return nil, err
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out[:min(len(out), maxAutoState)], nil
}

// globWalk collects the files that match a glob. Links are not followed, and
// protected directories are not entered.
type globWalk struct {
	s       *Store
	ctx     context.Context
	glob    string
	without string
	walked  int
	files   []HandoffFile
}

func (w *globWalk) walk(dir fsx.Dir, at string) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.walked++; w.walked > maxWalked {
			return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state would examine too many files; start the glob with a directory")
		}
		if relpath.ProtectedName(name, w.s.engine.Tree.Rules.Protected) {
			continue
		}
		st, err := dir.Lstat(name)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.entry(dir, name, engine.JoinPath(at, name), st); err != nil {
			return err
		}
	}
	return nil
}

// entry takes one entry of a directory.
func (w *globWalk) entry(dir fsx.Dir, name, at string, st fsx.Stat) error {
	switch st.Kind {
	case fsx.Directory:
		if !w.mayHold(at) || w.s.engine.Tree.Guard != nil && w.s.engine.Tree.Guard(st) != nil {
			return nil
		}
		sub, err := dir.OpenDir(name)
		if notThere(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer sub.Close()
		return w.walk(sub, at)
	case fsx.Regular:
		if at == w.without || !doublestar.MatchUnvalidated(w.glob, at) {
			return nil
		}
		if len(w.files) == maxAutoState {
			return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state matches more than %d files; narrow the glob", maxAutoState)
		}
		sha, err := w.s.engine.HashPath(at)
		if err != nil || sha == "" {
			return err
		}
		w.files = append(w.files, HandoffFile{Path: at, SHA256: sha, Bytes: st.Size})
	}
	return nil
}

// mayHold reports whether something below a directory can match: a glob without
// ** only matches paths with as many names as it has.
func (w *globWalk) mayHold(at string) bool {
	if strings.Contains(w.glob, "**") || strings.Contains(w.glob, "{") {
		return true
	}
	depth := strings.Count(at, "/") + 1
	parts := strings.Split(w.glob, "/")
	return depth < len(parts) && doublestar.MatchUnvalidated(path.Join(parts[:depth]...), at)
}
