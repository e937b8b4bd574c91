package observe

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Limits of what a group records of the calls during which it was made.
const (
	MaxCommand = 64 << 10 // bytes of a command line that are examined
	MaxCalls   = 64
)

// record writes the row of the changes that were found, under the locks of their paths.
func (s *scan) record() error {
	if len(s.found)+len(s.dirs) == 0 {
		return nil
	}
	slices.SortFunc(s.found, func(a, b *change) int { return strings.Compare(a.path, b.path) })
	paths := make([]string, len(s.found), len(s.found)+len(s.dirs))
	for i, c := range s.found {
		paths[i] = c.path
	}
	for i := range s.dirs {
		paths = append(paths, s.dirs[i].Path)
	}
	slices.SortFunc(s.out.Findings, func(a, b around.ObservedFinding) int { return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line) })
	if s.req.Recording != nil && len(s.out.Findings) > 0 {
		if err := s.req.Recording(s.out.Findings); err != nil {
			return err
		}
	}
	rec := &journal.Record{}
	if err := s.Observe(s.ctx, rec, paths, func() ([]journal.Mutation, error) { return s.judge(rec) }); err != nil {
		return err
	}
	recorded := map[string]bool{}
	if rec.Seq > 0 {
		listChanges(&s.out, rec)
		s.fresh.Seq = max(s.fresh.Seq, rec.Seq)
		for i := range rec.Muts {
			recorded[rec.Muts[i].Path] = rec.Muts[i].Class == ""
		}
	}
	s.out.Findings = slices.DeleteFunc(s.out.Findings, func(f around.ObservedFinding) bool { return !recorded[f.Path] })
	s.out.Findings = s.out.Findings[:min(len(s.out.Findings), maxListed)]
	s.settle()
	return nil
}

// attribute makes the row of the scan, without its mutations.
func (s *scan) attribute(rec *journal.Record) {
	r := &s.req
	if r.Attribute != nil {
		r.Attribute(r)
	}
	*rec = journal.Record{Caller: around.CallerOutside, Session: r.Session, Via: &journal.Via{Client: r.Host, Thread: r.Session}}
	if r.Host == "" && len(r.Calls) == 0 {
		rec.Via = &journal.Via{Client: around.CallerOutside}
	}
	if len(r.Calls) == 1 {
		rec.Via.Call = r.Calls[0]
	}
	if len(r.Calls) > 0 || r.Command != "" || s.out.Partial || len(s.out.Ignored) > 0 {
		rec.Group = &journal.Group{Calls: r.Calls, Command: r.Command, Partial: s.out.Partial, Ignored: s.out.Ignored}
	}
}

func (c *change) name() string { return strings.TrimPrefix(c.path[len(c.dir):], "/") }

// settle keeps the old index entries of changes that were not recorded because the file
// was changed again.
func (s *scan) settle() {
	for _, c := range s.found {
		if !c.fresh {
			continue
		}
		note(&s.out.Busy, c.path)
		list := s.fresh.dirs[c.dir]
		name := c.name()
		i, ok := slices.BinarySearchFunc(list, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		switch {
		case ok && c.was != nil:
			list[i] = *c.was
		case ok:
			s.fresh.dirs[c.dir] = slices.Delete(list, i, i+1)
		case c.was != nil:
			s.fresh.dirs[c.dir] = slices.Insert(list, i, *c.was)
		}
	}
}

// judge makes the row of the changes that were found and returns its mutations, from
// their state under the locks.
func (s *scan) judge(rec *journal.Record) ([]journal.Mutation, error) {
	s.attribute(rec)
	look := looker{root: s.Disk.Root}
	defer look.close()
	rows := s.NewNewest()
	muts, from := make([]journal.Mutation, 0, len(s.found)), make([]*change, 0, len(s.found))
	for _, c := range s.found {
		if !look.still(c) {
			c.fresh = c.was != nil || c.now != nil // else it is a file of a commit, in a directory that git ignores
			continue
		}
		m, err := s.mutation(c, rows)
		if err != nil {
			return nil, err
		}
		if m != nil {
			muts, from = append(muts, *m), append(from, c)
		}
	}
	pairMoves(muts, from)
	dirs, err := s.directoryRows(rows, muts)
	return append(muts, dirs...), err
}

// mutation returns what the journal records of a change; nil if the journal has it
// already.
func (s *scan) mutation(c *change, rows *engine.Newest) (*journal.Mutation, error) {
	last, _, known, err := rows.Of(c.path)
	if err != nil {
		return nil, err
	}
	m := &journal.Mutation{Path: c.path, Rev: uint64(last.Rev) + 1, PrevSeq: last.Seq}
	switch {
	case known != nil:
		m.PrevSHA256, m.PrevBytes = known.SHA256, known.Bytes
		if fsx.KindOf(known.Mode) != fsx.Directory {
			m.PrevMode = known.Mode
		}
		if c.was != nil && last.Seq <= s.old.Seq {
			m.PrevMode = c.was.Mode
		}
	case c.was != nil:
		m.PrevSHA256, m.PrevBytes, m.PrevMode = hex.EncodeToString(c.was.SHA[:]), c.was.Size, c.was.Mode
	}
	if c.was != nil && m.PrevSHA256 == hex.EncodeToString(c.was.SHA[:]) {
		m.PrevGit = hex.EncodeToString([]byte(c.was.Git))
	}
	if c.now != nil {
		m.SHA256, m.Bytes, m.Mode = hex.EncodeToString(c.now.SHA[:]), c.now.Size, c.now.Mode
	}
	modeChanged := c.now != nil && m.PrevMode != 0 && m.PrevMode != m.Mode
	other := modeChanged && fsx.KindOf(m.PrevMode) != fsx.KindOf(m.Mode) // a link in place of a file, or a file of a link
	switch {
	case m.SHA256 == m.PrevSHA256 && !modeChanged:
		return nil, nil
	case m.SHA256 == m.PrevSHA256 && !other:
		m.Op = "chmod"
	case m.PrevSHA256 == "":
		m.Op = "create"
	case m.SHA256 == "":
		m.Op, m.Mode, m.PrevMode = "delete", m.PrevMode, 0
	default:
		m.Op = "overwrite"
	}
	if !modeChanged {
		m.PrevMode = 0
	}
	return m, nil
}

// pairMoves makes moves of files that are gone and files that came with the
// same inode and content.
func pairMoves(muts []journal.Mutation, of []*change) {
	gone := map[uint64]int{}
	for i := range muts {
		if muts[i].Op == "delete" && of[i].was != nil {
			gone[of[i].was.Ino] = i
		}
	}
	for i := range muts {
		if muts[i].Op != "create" && muts[i].Op != "overwrite" || of[i].now == nil {
			continue
		}
		j, ok := gone[of[i].now.Ino]
		if ok && muts[j].PrevSHA256 == muts[i].SHA256 {
			muts[i].Op, muts[i].From, muts[j].Op = "move", muts[j].Path, "move"
			delete(gone, of[i].now.Ino)
		}
	}
}

// looker reads files again, in the order of their paths. It keeps the directory of the
// last file open.
type looker struct {
	root fsx.Dir
	path string
	dir  fsx.Dir // nil when it could not be opened, because of err
	err  error
	done func() // closes dir; nil before the first file
}

func (l *looker) close() {
	if l.done != nil {
		l.done()
	}
}

// still reports whether a file is as the scan found it.
func (l *looker) still(c *change) bool {
	if l.done == nil || l.path != c.dir {
		l.close()
		l.path = c.dir
		l.dir, l.done, l.err = fsx.OpenPath(l.root, c.dir)
	}
	if l.dir == nil {
		return c.now == nil && (engine.IsAbsent(l.err) || fsx.NotDir(l.err))
	}
	st, err := l.dir.Lstat(c.name())
	switch {
	case err != nil || !recorded(st.Kind):
		return c.now == nil && (err == nil || engine.IsAbsent(err))
	case c.now == nil: // another spelling of the path may have been found
		return !listed(l.root, c.path)
	}
	return c.now.same(&st)
}

// listed reports whether the directories of a path list its names in this spelling.
func listed(root fsx.Dir, path string) bool {
	for ; path != ""; path = engine.ParentOf(path) {
		dir, done, err := fsx.OpenPath(root, engine.ParentOf(path))
		if err != nil {
			return true
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		actual := relpath.Listed(dir, name)
		done()
		if actual != name {
			return false
		}
	}
	return true
}

// A group is the changes of one observed row. Its identifier names the row; the
// identifier of a tool call names the groups that were made during the call.

// GroupID returns the identifier of the group of a row.
func GroupID(seq uint64) string { return fmt.Sprint("obs_", seq) }

// InGroup reports whether a row belongs to the group that an identifier names.
func InGroup(rec *journal.Record, id string) bool {
	if rec.Kind != journal.KindObserved {
		return false
	}
	return GroupID(rec.Seq) == id || rec.Group != nil && slices.Contains(rec.Group.Calls, id)
}

// CheckGroup refuses a group that belongs to several calls if it is named by one of
// them.
func CheckGroup(recs []*journal.Record, id string) error {
	for _, rec := range recs {
		if rec.Group != nil && len(rec.Group.Calls) > 1 && GroupID(rec.Seq) != id {
			return fault.New(fault.InvalidArgument).With("argument", "group").With("calls", rec.Group.Calls).
				Hintf("the changes were made while several calls were open; pass %s to undo all of them", GroupID(rec.Seq))
		}
	}
	return nil
}

// maxListed is how many files, directories and findings are listed.
const maxListed = 1000

// listChanges adds the changes of the row of a scan to its result.
func listChanges(out *around.ScanResult, rec *journal.Record) {
	out.Seq, out.Group, out.Dirs = rec.Seq, GroupID(rec.Seq), DirsIn(rec)
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Class != "" {
			continue
		}
		switch {
		case m.Op == "create":
			out.Created++
		case m.Op == "overwrite":
			out.Changed++
		case m.Op == "delete":
			out.Deleted++
		case m.Op == "chmod":
			out.Modes++
		case m.From != "":
			out.Moved++
		default:
			continue // the old name of a move
		}
		if len(out.Files) < maxListed {
			f := around.ObservedFile{Path: m.Path, Op: m.Op, From: m.From, Bytes: m.Bytes, Link: m.Link()}
			f.SHA256.UnmarshalText([]byte(m.SHA256)) // "" for none
			f.PrevSHA256.UnmarshalText([]byte(m.PrevSHA256))
			out.Files = append(out.Files, f)
		}
	}
}

// DirsIn returns the directories that a row records.
func DirsIn(rec *journal.Record) (list []around.ObservedDir) {
	change := map[string]string{"mkdir": "created", "rmdir": "deleted", "chmod": "mode"}
	for i := range rec.Muts {
		if d, ok := rec.Muts[i].Directory(); ok && len(list) < maxListed {
			list = append(list, around.ObservedDir{Path: d.Path, Change: change[engine.DirectoryOp(&d)]})
		}
	}
	return list
}
