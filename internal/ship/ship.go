// Package ship provides what a hub needs of a store besides its journal: the state of the
// shipper, the bytes of versions and snapshots, and the way from the files of a workspace
// to those of another one.
package ship

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

const (
	dirName    = "hub" // of the state directory
	stateFile  = "ship.json"
	MaxState   = 1 << 20
	maxContent = 64 << 20 // bytes of a version
	maxListed  = 20       // files that an error names
)

// State returns what SetState kept; nil if there is nothing.
func State(e *engine.Engine) ([]byte, error) {
	data, err := e.ReadPart(dirName, stateFile, MaxState)
	if engine.IsAbsent(err) {
		return nil, nil
	}
	return data, err
}

// SetState keeps the state of a shipper.
func SetState(e *engine.Engine, data []byte) error {
	return e.WritePart(dirName, stateFile, data)
}

// Bytes names bytes that a row or a snapshot refers to.
type Bytes struct {
	Path   string
	SHA256 string
	Size   int64
	Seq    uint64 // of the row; 0: of a snapshot
	Git    string // the object with the same bytes; "": none
}

// Read returns the bytes, from any place that has them.
func (b Bytes) Read(ctx context.Context, h *history.Layer, l *observe.Layer) ([]byte, error) {
	if b.Size > maxContent {
		return nil, fault.New(fault.TooLarge).With("bytes", b.Size).With("max_bytes", maxContent).Hintf("it has more than %d bytes", maxContent)
	}
	if b.SHA256 == engine.HashOf(nil) { // history holds no object for it
		return []byte{}, nil
	}
	git := l.Git(ctx)
	defer git.Close()
	var unread error // a place that may have the bytes
	for _, place := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return opened(h.OpenVersion(b.SHA256)) },
		func() (io.ReadCloser, error) { return b.object(h.Engine) },
		func() (io.ReadCloser, error) {
			src, _ := l.StartOf(b.Path, b.Size)
			return src, nil
		},
		func() (io.ReadCloser, error) { return git.Open(b.Path, b.Git) },
		func() (io.ReadCloser, error) { return b.later(h) },
	} {
		src, err := place()
		var n syscall.Errno
		if engine.IsUnread(err) && errors.As(err, &n) {
			unread = cmp.Or(unread, err)
		}
		if err != nil || src == nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(engine.NewStoppable(ctx, src), b.Size))
		src.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // another place may have a readable copy
			unread = cmp.Or(unread, err)
		case engine.HashOf(data) == b.SHA256:
			return data, nil
		}
	}
	if unread != nil {
		return nil, unread
	}
	return nil, h.NotKept(b.SHA256)
}

// opened is what Open returns, without a file if it fails.
func opened(f fsx.File, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// object opens an object of the state directory; nil for another path.
func (b Bytes) object(e *engine.Engine) (io.ReadCloser, error) {
	name, ok := strings.CutPrefix(b.Path, engine.StateDirName+"/")
	if !ok || e.Disk.State == nil {
		return nil, nil
	}
	t, err := e.LocateObject(name)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return opened(t.Parent.Open(t.Name, fsx.Read, 0))
}

// later opens what a commit wrote if a later version begins with it.
func (b Bytes) later(h *history.Layer) (io.ReadCloser, error) {
	if b.Seq == 0 {
		return nil, nil
	}
	src, _, err := h.ContentAt(b.Path, b.Seq, b.Size)
	return src, err
}

// perm returns the mode that a file gets. Another machine sets no set-id bits,
// and no file type except symbolic link.
func perm(mode uint32) uint32 {
	if mode == fsx.ModeLink {
		return mode
	}
	return mode & 0o777
}

// replaceable removes from now, the files of the workspace, those that stay: kept ones,
// and those that git ignores and the other tree does not have. It refuses files that only
// the workspace has.
func replaceable(now, then map[string]observe.File, keep []string) error {
	own := []string{}
	for p, f := range now {
		t, wanted := then[p]
		switch {
		case slices.Contains(keep, p), !wanted && f.Flags&observe.Ignored != 0:
			delete(now, p)
		case f.Git == "" && (!wanted || f.SHA != t.SHA):
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return nil
	}
	slices.Sort(own)
	e := fault.New(fault.ChangedOutside).With("files", own[:min(len(own), maxListed)]).With("count", len(own)).
		Hintf("the directory has files of its own, which git does not have; use an empty directory or a clean checkout")
	e.Path = own[0]
	return e
}

// dirs returns the changes from the directories of an index to those of a tree, by path
// with their modes. Another machine neither sets nor clears set-id bits.
func dirs(from *observe.Index, to map[string]uint32) (list []journal.Mutation) {
	known := map[string]bool{}
	for _, p := range from.Directories() {
		known[p] = true
		if was := from.DirMode(p); p != "" && was != 0 && to[p] == 0 {
			list = append(list, journal.Mutation{Path: p, PrevMode: was})
		}
	}
	for p, mode := range to {
		was, now := from.DirMode(p), fsx.ModeDir|mode&0o777
		if was != 0 {
			now = was&^0o777 | mode&0o777
		}
		if was != now && (was != 0 || !known[p]) {
			list = append(list, journal.Mutation{Path: p, Mode: now, PrevMode: was})
		}
	}
	slices.SortFunc(list, func(a, b journal.Mutation) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Facts returns the part of a shipper's state that the store itself uses; nil if
// nothing is shipped. If it is damaged, nothing counts as shipped.
func Facts(e *engine.Engine) (*admin.HubFacts, error) {
	data, err := State(e)
	if engine.IsUnread(err) || err == nil && data == nil {
		return nil, err
	}
	facts := &admin.HubFacts{}
	if err != nil || json.Unmarshal(data, facts) != nil {
		return &admin.HubFacts{Forked: true}, nil
	}
	return facts, nil
}

// Shipped returns the newest row for which pruning need not keep versions; false
// if nothing is shipped.
func Shipped(e *engine.Engine) (seq uint64, ok bool, err error) {
	facts, err := Facts(e)
	if facts == nil {
		return 0, false, err
	}
	return facts.Seq, true, nil
}

// Tree returns the files and directories of a snapshot.
func Tree(x *observe.Index) admin.Tree {
	t := admin.Tree{Files: []admin.TreeFile{}, Dirs: []admin.TreeDir{}}
	for p, f := range x.All() {
		t.Files = append(t.Files, admin.TreeFile{
			Path: p, SHA256: f.SHA, Bytes: f.Size, Mode: f.Mode, Git: f.GitHex(),
			Ignored: f.Flags&observe.Ignored != 0, NotKept: f.Flags&observe.Unkept != 0,
		})
	}
	slices.SortFunc(t.Files, func(a, b admin.TreeFile) int { return strings.Compare(a.Path, b.Path) })
	for _, p := range x.Directories() {
		if mode := x.DirMode(p); p != "" && mode != 0 {
			t.Dirs = append(t.Dirs, admin.TreeDir{Path: p, Mode: mode & 0o777})
		}
	}
	return t
}

// Into makes the mutations of a commit that lead from the current files to a tree.
func Into(c *engine.Commit, l *changes.Layer, at *observe.Index, r admin.MaterializeRequest, take changes.Take) (out admin.MaterializeResult, err error) {
	if head := l.Observed.Head(); r.Base != "" && head != r.Base {
		return out, fault.New(fault.ChangedOutside).With("base", r.Base).With("head", head).Hintf("the tree rests on commit %s, and another one is checked out; check out that commit first", r.Base)
	}
	now, then, files, turn := at.All(), map[string]observe.File{}, map[string]admin.TreeFile{}, map[string]int{}
	for i, f := range r.Files {
		then[f.Path] = observe.File{Entry: &observe.Entry{SHA: f.SHA256, Size: f.Bytes, Mode: perm(f.Mode)}}
		files[f.Path], turn[f.Path] = f, i
	}
	if err := replaceable(now, then, r.Keep); err != nil {
		return out, err
	}
	wanted := map[string]uint32{}
	for _, d := range r.Dirs {
		wanted[d.Path] = fsx.ModeDir | d.Mode
	}
	c.Dirs = l.DirsToMake(dirs(at, wanted))
	list := observe.Differences(now, then)
	slices.SortStableFunc(list, func(a, b observe.Difference) int { return turn[a.Path] - turn[b.Path] })
	out.Dirs = len(c.Dirs)
	for _, d := range list {
		if d.Change == "deleted" {
			out.Deleted++
		} else {
			out.Written++
		}
	}
	return out, l.Into(c, list, func(m *engine.Mutation, path string) error { return takeFile(m, files[path], r.Open, take) })
}

// takeFile takes the bytes and the mode of a file of a tree; if only the mode
// differs, the file keeps its bytes.
func takeFile(m *engine.Mutation, f admin.TreeFile, open func(admin.TreeFile) (io.ReadCloser, error), take changes.Take) error {
	mode := perm(f.Mode)
	m.Perm = &mode
	src, err := open(f)
	if err != nil {
		return err
	}
	set := mode
	if set > 0o777 { // a kind, which Perm says
		set = 0
	}
	sum, err := take(m, src, set)
	src.Close()
	if err == nil && sum != f.SHA256.String() {
		m.DropSpooled()
		err = fault.New(fault.HashDriftOnRead).Hintf("the bytes that were given are not those of the tree")
	}
	return err
}
