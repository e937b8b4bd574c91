// Package observe finds what other programs changed in the workspace. A scan
// compares the stat of every file with the index of the last scan, reads what
// differs, keeps the new bytes in history, and writes one row about it.
package observe

import (
	"context"
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitignore"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	secrets "github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// Dir is the part of the state directory with the stat index and the snapshots.
const (
	Dir       = "observe"
	indexFile = "index"
	MaxIndex  = 1 << 30 // bytes
)

// Limits of what is kept of one file, in bytes.
const (
	MaxFile    = 8 << 20
	MaxIgnored = 1 << 20 // of one that git ignores, outside of ignored directories
)

// What must be free for bytes to be kept: a part of the disk, of a large one less.
const (
	freePart  = 20
	freeBytes = 10 << 30
)

// Layer observes the workspace of an engine.
type Layer struct {
	*engine.Engine
}

// Request configures a scan.
type Request struct {
	Session string
	Host    string // the program that runs the tool calls
	Calls   []string
	Command string
	Until   time.Time // no file is read after it; zero: no limit
	// Inspect is called with the bytes of a file that changed, before they are
	// recorded, and returns what is wrong with them and was not with the version before;
	// nil if they must not be inspected. It may be called concurrently.
	Inspect func(path string, data []byte, before func() []byte) []secrets.Finding
	Capture Capture
	// Recording is called with the findings, if there are any, before the row is
	// written; nil for nothing.
	Recording func([]around.ObservedFinding) error
	// Attribute sets Session, Host, Calls and Command when the row is written, under the
	// locks of its paths; nil for nothing. A call that ends records its changes under
	// these locks before it is removed from the open ones. So what no row records yet was
	// made during the calls that are open now, not during one that has ended since the
	// scan began.
	Attribute func(*Request)
}

const maxNames = 100 // of each list of a result

func note(list *[]string, name string) {
	if len(*list) < maxNames {
		*list = append(*list, name)
	}
}

// scan is one scan in progress.
type scan struct {
	*Layer
	ctx  context.Context
	req  Request
	root string // the workspace, absolute; "" in tests
	old  *Index
	home fsx.Stat // of the workspace, where this system sets the time stamps

	mu        sync.Mutex // what follows
	out       around.ScanResult
	fresh     Index
	found     []*change
	unseen    []string // directories, including everything below them
	left      []string // directories that were entered by the last scan and are not recorded any more
	pending   []engine.Bytes
	batch     int // of them
	weight    int64
	touched   bool // the index is not as it was
	explained map[string]dirState
	dirs      []journal.Mutation // directories that came, went, or have another mode
}

// change is a file that differs from its index entry.
type change struct {
	path  string
	dir   string
	was   *Entry // nil: not known
	now   *Entry // nil: gone
	fresh bool   // not recorded: the index keeps the old entry
}

// Scan scans the whole workspace and records the changes.
func (l *Layer) Scan(ctx context.Context, req Request) (around.ScanResult, *Index, error) {
	s := &scan{
		Layer: l, ctx: ctx, req: req, root: l.RealRoot, batch: min(batchFiles, max(1, fsx.DescriptorLimit()/8)),
		out: around.ScanResult{Files: []around.ObservedFile{}, Findings: []around.ObservedFinding{}},
	}
	err := s.run()
	s.out.Directories = s.fresh.Directories
	return s.out, &s.fresh, err
}

func (s *scan) run() error {
	l, ctx, req := s.Layer, s.ctx, &s.req
	dir, err := l.OpenPart(Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	s.out.DiskLow = l.DiskLow()
	if vol, err := l.Disk.Root.Volume(); err == nil && vol.Type != "" && !vol.Remote {
		if s.home, err = l.Disk.Root.Stat(); err != nil {
			return err
		}
	}
	if err := s.load(dir); err != nil {
		return err
	}
	s.fresh = Index{Scanned: l.Now().UnixNano(), Seq: l.Log.Head(), dirs: make(map[string][]Entry, len(s.old.dirs))}
	at := outermost(s.root)
	if at.repo.err != nil {
		return at.repo.err
	}
	s.fresh.modes = make(map[string]uint32, len(s.old.dirs))
	s.fresh.Rules, s.fresh.Tracked = at.repo.sum^req.Capture.sum(), at.repo.stamp()
	at.rulesKnown = !s.out.Baseline && s.fresh.Rules == s.old.Rules
	at.filesKnown = at.rulesKnown && s.fresh.Tracked == s.old.Tracked
	s.touched = s.out.Baseline || !at.filesKnown
	if err := tree.Walk(ctx, l.Disk.Root, at, s.visit, s.notSeen); err != nil {
		return err
	}
	if err := s.missing(); err != nil {
		return err
	}
	if err := s.flush(0); err != nil {
		return err
	}
	s.directories()
	if err := s.record(); err != nil {
		return err
	}
	s.out.Watched = s.fresh.Files()
	s.fresh.Growing = s.out.Partial && (s.out.Baseline || s.old.Growing)
	s.out.Baseline = s.out.Baseline || s.old.Growing
	if s.touched || s.fresh.Growing != s.old.Growing {
		return s.save(dir)
	}
	return nil
}

// DiskLow reports whether too little of the disk is free for bytes to be kept.
func (l *Layer) DiskLow() bool {
	if l.Disk.State == nil { // there is no store yet
		return false
	}
	vol, err := l.Disk.State.Volume()
	return err == nil && isLow(vol)
}

func isLow(v fsx.Volume) bool { return v.Size > 0 && v.Free < min(v.Size/freePart, freeBytes) }

// load reads the index, then the journal: the index may refer to rows that another
// process has just written. An index that is damaged, or that refers to rows that
// do not exist, is ignored.
func (s *scan) load(dir fsx.Dir) error {
	data, err := durable.ReadFile(dir, indexFile, MaxIndex)
	if engine.IsUnread(err) {
		return err
	}
	if err == nil {
		s.old, err = decodeIndex(data)
	}
	if err := s.Log.CatchUp(); err != nil {
		return err
	}
	if err != nil || s.old.Seq > s.Log.Head() {
		s.old, s.out.Baseline = &Index{}, true
	}
	return nil
}

// save replaces the index that the scan began with. One that another scan saved
// meanwhile stays: what this scan recorded has rows, so the next one does not
// record it again.
func (s *scan) save(dir fsx.Dir) error {
	return s.Alone("scan", func() error {
		if at, ok := scannedAt(dir); ok && at != s.old.Scanned {
			return nil
		}
		if st, err := dir.Lstat(indexFile); err == nil && st.Kind == fsx.Directory {
			return engine.Misplaced(Dir + "/" + indexFile)
		}
		return durable.WriteFile(dir, indexFile, s.fresh.encode(), 0o600)
	})
}

// scannedAt is when the scan of the stored index began.
func scannedAt(dir fsx.Dir) (int64, bool) {
	f, err := dir.Open(indexFile, fsx.Read, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	head := make([]byte, len(magic)+8)
	if n, _ := f.ReadAt(head, 0); n < len(head) || !isIndex(head) {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(head[len(magic):])), true
}

// late reports whether no more files are to be read.
func (s *scan) late() bool { return !s.req.Until.IsZero() && time.Now().After(s.req.Until) }

// partly records that the next scan must read more, and keeps the entries of directories.
func (s *scan) partly(dirs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Partial, s.unseen = true, append(s.unseen, dirs...)
}

// notSeen keeps the entries of a directory that cannot be read.
func (s *scan) notSeen(p string, _ *place, err error) {
	if engine.IsShortage(err) {
		s.partly(p)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = append(s.unseen, p)
	note(&s.out.Unseen, p)
}

// visit compares one directory with the index.
func (s *scan) visit(d *tree.Dir[*place]) (err error) {
	if s.late() {
		s.partly(d.Path)
		return nil
	}
	v := visit{scan: s, d: d, old: s.old.dirs[d.Path], now: make([]Entry, 0, len(d.Entries))}
	if v.at, err = v.enter(d.Of); err != nil { // what git ignores is not known
		s.notSeen(d.Path, d.Of, err)
		return nil
	}
	v.files = sync.OnceValue(v.at.files)
	at := 0
	for i := range d.Entries {
		e := &d.Entries[i]
		for at < len(v.old) && v.old[at].Name < e.Name {
			v.gone(&v.old[at])
			at++
		}
		var was *Entry
		if at < len(v.old) && v.old[at].Name == e.Name {
			was = &v.old[at]
			at++
		}
		if err := v.entry(e, was); err != nil {
			return err
		}
	}
	for ; at < len(v.old); at++ {
		v.gone(&v.old[at])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh.dirs[d.Path] = append(s.fresh.dirs[d.Path], v.now...)
	s.found = append(s.found, v.found...)
	for _, e := range v.entered {
		s.fresh.modes[tree.Join(d.Path, e.Name)] = fsx.ModeDir | e.Mode
	}
	s.touched = s.touched || v.touched
	return nil
}

// visit is one directory.
type visit struct {
	*scan
	d       *tree.Dir[*place]
	at      *place
	repo    *Entry // marks a repository for the next scan
	files   func() []gitignore.File
	old     []Entry
	now     []Entry
	found   []*change
	entered []*tree.Entry
	touched bool
}

// gone notes that a name is not there any more.
func (v *visit) gone(was *Entry) {
	v.touched = true
	if was.kept() {
		v.found = append(v.found, &change{path: tree.Join(v.d.Path, was.Name), dir: v.d.Path, was: was})
	}
}

// entry compares one name.
func (v *visit) entry(e *tree.Entry, was *Entry) error {
	if e.Name == ".git" && v.repo != nil {
		v.now = append(v.now, *v.repo)
	}
	if e.Name == ".git" || v.Own(e.Name, e.Stat) {
		return nil
	}
	p := tree.Join(v.d.Path, e.Name)
	switch {
	case v.req.Capture.excludes(p) || v.at.hidden && e.Kind != fsx.Directory && !v.req.Capture.Includes(p):
		v.touched = v.touched || was != nil
		v.leave(p)
		return nil
	case e.Kind == fsx.Directory:
		v.directory(p, e, was)
		return nil
	case !recorded(e.Kind):
		if was != nil {
			v.gone(was)
		}
		return nil
	}
	if was != nil && was.Flags&Directory != 0 {
		was = nil
	}
	ignored := v.ignored(p, was, false)
	if was != nil && ignored == (was.Flags&Ignored != 0) && was.same(&e.Stat) && !v.racy(was, &e.Stat) {
		v.now = append(v.now, *was)
		return nil
	}
	return v.file(p, e, was, ignored)
}

// racy reports whether the index entry of a file may be older than the file, although
// its stat is the same.
func (s *scan) racy(was *Entry, st *fsx.Stat) bool {
	return was.racy(s.old.Scanned, st.Dev == s.home.Dev)
}

// recorded reports whether the content of an entry is recorded. The content of a
// symbolic link is its target.
func recorded(kind fsx.Kind) bool { return kind == fsx.Regular || kind == fsx.Symlink }

// ignored reports whether git ignores a name; for most names the index has the answer.
func (v *visit) ignored(p string, was *Entry, dir bool) bool {
	if was != nil && v.at.rulesKnown && (v.at.filesKnown || was.Flags&Ignored == 0) {
		return was.Flags&Ignored != 0
	}
	if v.req.Capture.Includes(p) {
		return false
	}
	return v.at.hidden || v.at.ignores(v.files(), p, dir)
}

// leave notes a directory that is not recorded any more, if it was.
func (v *visit) leave(p string) {
	if v.scan.entered(p) {
		v.mu.Lock()
		v.left = append(v.left, p)
		v.mu.Unlock()
	}
}

// directory has a directory entered, unless git ignores it.
func (v *visit) directory(p string, e *tree.Entry, was *Entry) {
	if was != nil && was.Flags&Directory == 0 {
		v.gone(was)
		was = nil
	}
	// A directory that was entered is not in the index of its parent.
	known := was == nil && v.at.rulesKnown && v.scan.entered(p) && len(v.req.Capture.Include) == 0
	if known || !v.ignored(p, was, true) {
		v.touched = v.touched || was != nil
		at := v.at
		if was != nil { // git ignored it until now, and nothing of it is known
			met := *at
			at, met.met = &met, true
		}
		if v.d.Enter(e.Name, at); !at.met && !at.hidden {
			v.entered = append(v.entered, e)
		}
		return
	}
	v.leave(p)
	if v.req.Capture.mayHold(p) { // entered for some of its files
		hidden := *v.at
		hidden.hidden = true
		v.d.Enter(e.Name, &hidden)
		return
	}
	if v.at.hidden {
		return
	}
	now := Entry{Name: e.Name, Flags: Ignored | Directory}
	now.take(&e.Stat)
	if !v.out.Baseline && (was == nil || !was.same(&e.Stat)) {
		v.touched = true
		v.mu.Lock()
		note(&v.out.Ignored, p)
		v.mu.Unlock()
	}
	v.now = append(v.now, now)
}

// entered reports whether the last scan entered a directory.
func (s *scan) entered(p string) bool {
	_, ok := s.old.dirs[p]
	return ok
}

// missing finds the files that went with their directories, and those that a
// commit made after the last scan.
func (s *scan) missing() error {
	for dir, list := range s.old.dirs {
		if _, visited := s.fresh.dirs[dir]; visited {
			continue
		}
		if below(s.unseen, dir) {
			s.fresh.dirs[dir], s.fresh.modes[dir] = list, s.old.modes[dir]
			continue
		}
		s.touched = true
		if below(s.left, dir) {
			continue
		}
		for i := range list {
			if list[i].kept() {
				s.found = append(s.found, &change{path: tree.Join(dir, list[i].Name), dir: dir, was: &list[i]})
			}
		}
	}
	return s.missingCommits()
}

// below reports whether a directory is one of a list or in one.
func below(list []string, dir string) bool {
	return slices.ContainsFunc(list, func(u string) bool { return u == "" || dir == u || strings.HasPrefix(dir, u+"/") })
}

// missingCommits finds files that a commit made since the last scan and that
// are gone.
func (s *scan) missingCommits() error {
	seen := map[string]bool{}
	return s.Log.Range(s.old.Seq+1, func(rec *journal.Record, _ journal.Pos) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if rec.Kind != journal.KindCommit && rec.Kind != journal.KindConflict {
			return nil
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			p := m.Identity()
			s.explain(m)
			if m.Class != "" || m.SHA256 == "" || seen[p] {
				continue
			}
			seen[p] = true
			dir := engine.ParentOf(p)
			if name := path.Base(p); !below(s.unseen, dir) && !s.req.Capture.excludes(p) && find(s.fresh.dirs[dir], name) == nil && find(s.old.dirs[dir], name) == nil {
				s.found = append(s.found, &change{path: p, dir: dir})
			}
		}
		return nil
	})
}

// recordable reports whether the journal can hold a path.
func (s *scan) recordable(p string) bool {
	clean, _, err := relpath.Clean(p, s.Tree.Rules)
	return err == nil && clean == p
}
