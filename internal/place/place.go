// Package place decides where the state of a workspace is stored: in the common git
// directory of its repository, in the directory of the user's state, or in the
// workspace. An existing store is used where it is.
//
// A root is recognized by data that is stored with it, never by its path alone: one in
// a repository by the git directory that it belongs to, a linked worktree by an
// identifier in its own part of that directory, any other one by inode and time of
// creation, which the store records.
package place

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Kind is the kind of location of a state directory.
type Kind string

const (
	Tree Kind = "tree" // in the workspace
	Git  Kind = "git"  // in the common git directory
	XDG  Kind = "xdg"  // in the directory of the user's state
	Dir  Kind = "dir"  // where the caller says
)

// Kinds are the places that need no directory to be named.
func Kinds() []Kind { return []Kind{Git, XDG, Tree} }

// The warnings of this package.
const (
	WarnInTree    = "state_in_tree"
	WarnSeveral   = "several_state_dirs"
	WarnOtherRoot = "state_of_other_root"
)

const (
	// TreeName is the state directory in a workspace.
	TreeName = ".resilient_write"
	// RecordName is the file of a store that identifies its root.
	RecordName = "root.json"

	app      = "resilientwrite" // holds the stores in a git or state directory
	mainTree = "main"           // the store of the main work tree
	known    = "known"          // lists the stores elsewhere, in the directory of the user's state
	limit    = 64 << 10
)

// Place is one state directory.
type Place struct {
	Kind Kind
	Path string // absolute
	base string // holds app; "" in the tree

	admin string // of a linked worktree that has no identifier yet
	sub   string // what follows it
}

// Record identifies the root of a store.
type Record struct {
	Root  string `json:"root"`
	Inode uint64 `json:"inode,omitempty"`
	Born  int64  `json:"born,omitempty"` // nanoseconds since the epoch
}

// Workspace is a root and the data by which it is recognized.
type Workspace struct {
	Record
	err         error // why it is not known whether there is a store in one of the places
	stray       bool  // a worktree with a store that git does not confirm
	passing     bool  // inode and time of creation do not last
	self, owner int   // the user ids of this process and of the root's owner; negative if there are none
}

// Look describes the workspace root, which is absolute and without links.
func Look(root string) (*Workspace, error) {
	w := &Workspace{Record: Record{Root: root}, self: os.Geteuid(), owner: -1}
	d, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return nil, err
	}
	vol, err := d.Volume()
	if err != nil {
		return nil, err
	}
	w.Inode, w.Born, w.passing = st.Ino, born(root), slices.Contains(passing, vol.Type)
	if w.self == 0 {
		w.owner = st.UID
	}
	return w, nil
}

// ours reports whether files written by the user uid are trusted.
func (w *Workspace) ours(uid int) bool {
	return w.self < 0 || uid == w.self || uid == 0 || w.self == 0 && uid == w.owner
}

// Of is the place of a kind, "" in Path where the workspace has none.
func (w *Workspace) Of(kind Kind) Place {
	switch kind {
	case Tree:
		return Place{Kind: Tree, Path: filepath.Join(w.Root, TreeName)}
	case Git:
		return w.git()
	case XDG:
		return w.xdg()
	}
	return Place{}
}

// Found lists the stores that the workspace has, the one to use first.
func (w *Workspace) Found() (list []Place) {
	for _, kind := range []Kind{Tree, Git, XDG} {
		if p := w.Of(kind); p.Path != "" && p.admin == "" && w.exists(p) {
			list = append(list, p)
		}
	}
	return list
}

// failed notes an error of the system, unless it says that nothing is there for this user.
func (w *Workspace) failed(err error) {
	var no syscall.Errno
	if errors.As(err, &no) && !fsx.Nothing(err) && w.err == nil {
		w.err = err
	}
}

// At returns the state directory of a workspace; if there is none, the one that it
// would have in the tree. The error is why it is not known whether there is one.
func At(root string) (string, error) {
	if abs, err := filepath.Abs(root); err == nil {
		if dir := real(abs); dir != "" {
			root = dir
		}
	}
	w, err := Look(root)
	if err == nil {
		found := w.Found()
		if err = w.err; err == nil && len(found) > 0 {
			return found[0].Path, nil
		}
	}
	if fsx.Nothing(err) {
		err = nil
	}
	return filepath.Join(root, TreeName), err
}

// Has reports whether the directory root, absolute and without links, has a store
// of its own. The error is why it is not known.
func Has(root string) (bool, error) {
	w, err := Look(root)
	if fsx.Nothing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found := w.Found()
	return len(found) > 0, w.err
}

// exists reports whether there is a store. In the workspace, where any program may have
// created a directory of that name, it must contain a part of a store. Anything but a
// directory counts, so that it is refused rather than ignored.
func (w *Workspace) exists(p Place) bool {
	st, err := os.Lstat(p.Path)
	w.failed(err)
	if err != nil || !st.IsDir() {
		return err == nil
	}
	if w.waits(p.Path) {
		return false
	}
	return p.Kind != Tree || w.isStore(p.Path)
}

// IsStore reports whether a directory has a part that only stores have, or is what a move
// or removal left of one.
func IsStore(dir string) bool { return new(Workspace).isStore(dir) }

func (w *Workspace) isStore(dir string) bool {
	return isAside(dir) || slices.ContainsFunc([]string{"meta.json", "journal", "journal.jsonl"}, func(part string) bool {
		_, err := os.Lstat(filepath.Join(dir, part))
		w.failed(err)
		return err == nil
	})
}

var (
	openRoot   = openInheriting // tests observe it
	worktreeID = regexp.MustCompile(`^[0-9a-f]{16}$`)
	errNone    = errors.New("the workspace has no such place")
)

// openInheriting opens a directory in which root creates what belongs to its owner.
func openInheriting(path string) (fsx.Dir, error) {
	d, err := fsx.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if _, err := fsx.Inherit(d); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// git returns the place in the common git directory of the repository that contains the
// workspace. A .git that refers to another directory counts only if git's own side
// confirms it: any program can create a file of that name anywhere.
func (w *Workspace) git() Place {
	top := gitdir.Top(w.Root)
	dot := filepath.Join(top, ".git")
	st, err := os.Lstat(dot)
	if top == "" || err != nil {
		w.failed(err)
		return Place{}
	}
	return w.gitAt(top, dot, st)
}

func (w *Workspace) gitAt(top, dot string, st fs.FileInfo) Place {
	common, admin := "", ""
	switch {
	case st.IsDir():
		common = dot
	case st.Mode().IsRegular():
		if common, admin = w.led(top, dot); common == "" {
			id := w.small(filepath.Join(real(gitdir.Pointed(w.small(dot), top)), app))
			w.stray = worktreeID.MatchString(id)
		}
	}
	if common == "" || !w.mayUse(common) {
		return Place{}
	}
	p := Place{Kind: Git, base: common}
	if rel, err := filepath.Rel(top, w.Root); err != nil {
		return Place{}
	} else if rel != "." {
		p.sub = "-" + digest(filepath.ToSlash(rel))
	}
	id := mainTree
	if admin != "" {
		if id = w.small(filepath.Join(admin, app)); !worktreeID.MatchString(id) {
			p.admin, id = admin, "" // it is made with the store
		}
	}
	p.Path = filepath.Join(common, app, id+p.sub)
	return p
}

// led follows a .git file to the common git directory; admin is the worktree's
// own part of it.
func (w *Workspace) led(top, dot string) (common, admin string) {
	admin = real(gitdir.Pointed(w.small(dot), top))
	if admin == "" {
		return "", ""
	}
	to := w.small(filepath.Join(admin, gitdir.Common))
	if to == "" { // a submodule
		if relpath.Contains(top, admin) || real(gitdir.WorkTree(admin)) != top {
			return "", ""
		}
		return admin, ""
	}
	common = real(under(admin, to))
	back := under(admin, w.small(filepath.Join(admin, "gitdir")))
	if common == "" || relpath.Contains(top, common) || filepath.Join(common, "worktrees", filepath.Base(admin)) != admin || real(back) != dot {
		return "", ""
	}
	return common, admin
}

// Worktrees lists the other existing work trees of the repository whose work tree
// begins at root.
func Worktrees(root string) (list []string) {
	w, err := Look(root)
	if err != nil {
		return nil
	}
	p := w.git()
	if p.base == "" || p.sub != "" {
		return nil
	}
	add := func(top string) {
		if top != root && top != "" {
			list = append(list, top)
		}
	}
	if filepath.Base(p.base) == ".git" {
		add(real(filepath.Dir(p.base)))
	}
	entries, _ := os.ReadDir(filepath.Join(p.base, "worktrees"))
	for _, e := range entries {
		admin := filepath.Join(p.base, "worktrees", e.Name())
		dot := real(under(admin, w.small(filepath.Join(admin, "gitdir"))))
		if common, _ := w.led(filepath.Dir(dot), dot); dot != "" && common == p.base {
			add(filepath.Dir(dot))
		}
	}
	return list
}

// mayUse reports whether a directory is a repository's own and ours.
func (w *Workspace) mayUse(dir string) bool {
	d, err := openRoot(dir)
	if err != nil {
		w.failed(err)
		return false
	}
	defer d.Close()
	is, err := gitdir.Is(d)
	if err != nil || !is {
		w.failed(err)
		return false
	}
	st, err := d.Stat()
	w.failed(err)
	return err == nil && w.ours(st.UID)
}

// passing are the file systems whose directories get another inode or time of creation:
// overlayfs copies one to its upper layer with the first change in it, and those without
// inode numbers of their own make them up when a directory is looked at.
var passing = []string{"overlay", "vfat", "exfat"}

// xdg is the place in the directory of the user's state. Where the file system keeps no
// time of creation, or not for long, a root cannot be recognized, and no store is made
// there.
func (w *Workspace) xdg() Place {
	base := StateHome()
	if base == "" || w.Born == 0 {
		return Place{}
	}
	name := digest(fmt.Sprintf("%d:%d", w.Inode, w.Born))
	for i := range 100 {
		p := Place{Kind: XDG, base: base, Path: filepath.Join(base, app, name)}
		if i > 0 {
			p.Path += fmt.Sprint("-", i)
		}
		if _, err := os.Lstat(p.Path); err != nil {
			w.failed(err)
			if w.passing {
				return Place{}
			}
			return p
		}
		r, err := ReadRecord(p.Path)
		w.failed(err)
		if errors.Is(err, fs.ErrNotExist) || err == nil && r.Inode == w.Inode && r.Born == w.Born {
			return p
		}
	}
	return Place{}
}

// StateHome is where a user's programs keep their state, "" where that is not
// known.
func StateHome() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	home, err := os.UserHomeDir()
	switch {
	case runtime.GOOS == "windows":
		return os.Getenv("LocalAppData")
	case err != nil || !filepath.IsAbs(home):
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support")
	}
	return filepath.Join(home, ".local", "state")
}

// Opened is a place whose parent is open.
type Opened struct {
	Place
	Parent fsx.Dir // nil for the workspace itself
	Name   string
	Found  bool     // there was a store
	Notes  []string // reasons of warnings
}

// OpenDir is OpenAt for a directory that the caller names.
func OpenDir(dir string) (o Opened, err error) {
	o.Place, o.Name = Place{Kind: Dir, Path: dir}, filepath.Base(dir)
	o.Parent, err = openRoot(filepath.Dir(dir))
	return o, err
}

// Open opens what holds the store of the workspace. Without a store it chooses
// the first place that is on a local file system and can be written, unless
// only readers ask.
func (w *Workspace) Open(readOnly bool) (Opened, error) {
	found := w.Found()
	if w.err != nil { // no store is begun, or used, in place of one that may be there
		return Opened{}, w.err
	}
	if len(found) > 0 {
		o, err := w.OpenAt(found[0], false)
		o.Found = true
		if len(found) > 1 {
			o.Notes = append(o.Notes, WarnSeveral)
		}
		return o, err
	}
	var notes []string
	if w.hasNamesake() || w.stray {
		notes = []string{WarnOtherRoot}
	}
	if readOnly {
		o, err := w.OpenAt(w.Of(Tree), false)
		o.Notes = notes
		return o, err
	}
	for _, remote := range []bool{false, true} {
		for _, kind := range []Kind{Git, XDG} {
			p := w.Of(kind)
			if p.Path == "" || !remote && isRemote(p.base) {
				continue
			}
			o, err := w.OpenAt(p, true)
			var f *fault.Fault
			if err == nil || errors.As(err, &f) {
				o.Notes = notes
				return o, err
			}
		}
		if !remote && !isRemote(w.Root) {
			break
		}
	}
	o, err := w.OpenAt(w.Of(Tree), true)
	o.Notes = append(notes, WarnInTree)
	return o, err
}

// OpenAt opens the directory of the store of a place, and creates it if make is set.
// The directory belongs to this user, and no other user can write to it.
func (w *Workspace) OpenAt(p Place, make bool) (o Opened, err error) {
	if p.Path == "" {
		return o, errNone
	}
	o.Place, o.Name = p, filepath.Base(p.Path)
	if p.base == "" {
		return o, nil
	}
	base, err := openBase(p.base, make)
	if err != nil {
		return o, err
	}
	defer base.Close()
	if make {
		o.Parent, err = durable.Mkdir(base, app, 0o700)
	} else {
		o.Parent, err = base.OpenDir(app)
	}
	if err == nil {
		err = w.keep(o.Parent)
	}
	if err == nil && make {
		if err = Writable(filepath.Join(p.base, app)); err == nil && p.admin != "" {
			err = o.identify()
		}
	}
	if err != nil && o.Parent != nil {
		o.Parent.Close()
		o.Parent = nil
	}
	return o, err
}

// keep refuses a directory that others own, and takes the rights of others from
// one of ours.
func (w *Workspace) keep(d fsx.Dir) error {
	st, err := d.Stat()
	if err != nil || w.self < 0 {
		return err
	}
	if w.ours(st.UID) && st.Mode&0o022 != 0 {
		if err := d.Chmod(0o700); err != nil {
			return err
		}
		if st, err = d.Stat(); err != nil {
			return err
		}
		st.Mode &^= 0o022 // where modes are not kept the store warns
	}
	if w.ours(st.UID) && st.Mode&0o022 == 0 {
		return nil
	}
	return fault.New(fault.BadStateDir).With("part", app).With("owner", fmt.Sprintf("uid %d", st.UID)).
		Hintf("the directory %s that holds the state belongs to another user; choose another one with --state-dir or Options.StateDir", app)
}

// identify gives a linked worktree its identifier, in the part of the git
// directory that git removes with the worktree. Of two at a time one wins.
func (o *Opened) identify() error {
	d, err := openRoot(o.admin)
	if err != nil {
		return err
	}
	defer d.Close()
	var id [8]byte
	rand.Read(id[:])
	temp := durable.TempName(app)
	if err := durable.Place(d, temp, temp+durable.TempSuffix, 0o600, func(f fsx.File) error {
		_, err := f.Write([]byte(hex.EncodeToString(id[:])))
		return err
	}); err != nil {
		return err
	}
	err = d.Link(temp, d, app)
	d.Remove(temp)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	name := readSmall(filepath.Join(o.admin, app))
	if !worktreeID.MatchString(name) {
		return fault.New(fault.BadStateDir).With("part", app).Hintf("the identifier of this worktree in its git directory is damaged; remove the file %s there", app)
	}
	o.Name = name + o.sub
	o.Path, o.admin = filepath.Join(o.base, app, o.Name), ""
	return nil
}

// openBase opens a directory, and makes it durably with those above it.
func openBase(dir string, make bool) (fsx.Dir, error) {
	d, err := openRoot(dir)
	if !make || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
		return d, err
	}
	up, err := openBase(filepath.Dir(dir), true)
	if err != nil {
		return nil, err
	}
	defer up.Close()
	return durable.Mkdir(up, filepath.Base(dir), 0o700)
}

// isRemote reports whether a directory, or what of it exists, is on a network or
// FUSE file system.
func isRemote(dir string) bool {
	d, err := openRoot(dir)
	if err != nil {
		return filepath.Dir(dir) != dir && isRemote(filepath.Dir(dir))
	}
	defer d.Close()
	vol, err := d.Volume()
	return err == nil && vol.Remote
}

// Note records in an open store which root it belongs to, and records its location for
// [All]. A store that cannot be recorded is still found, except in the list.
func (w *Workspace) Note(p Place, state fsx.Dir) error {
	have, err := durable.ReadFile(state, RecordName, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, _ := json.Marshal(w.Record)
	data = append(data, '\n')
	if string(have) != string(data) {
		if err := durable.WriteFile(state, RecordName, data, 0o600); err != nil {
			return err
		}
	}
	if err := settle(state); err != nil {
		return err
	}
	if p.Kind != XDG {
		register(p.Path)
	}
	return nil
}

// ReadRecord reads which root a store belongs to.
func ReadRecord(dir string) (r Record, err error) {
	d, err := openRoot(dir)
	if err != nil {
		return r, err
	}
	defer d.Close()
	data, err := durable.ReadFile(d, RecordName, limit)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// hasNamesake reports whether there is a store of another root that had the
// path of this one.
func (w *Workspace) hasNamesake() bool {
	for _, kind := range []Kind{Git, XDG} {
		p := w.Of(kind)
		if p.Path == "" {
			continue
		}
		for _, dir := range w.inside(filepath.Join(p.base, app)) {
			if r, err := ReadRecord(dir); err == nil && r.Root == w.Root && !isAside(dir) {
				return true
			}
		}
	}
	return false
}

// inside are the directories in one that may be stores, or what is left of one.
func (w *Workspace) inside(dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	w.failed(err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != known {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// readSmall returns the text of a small regular file without the final line end, or ""
// if there is none.
func readSmall(name string) string { return new(Workspace).small(name) }

// small is readSmall that notes why it is not known whether there is one.
func (w *Workspace) small(name string) string {
	var data []byte
	dir, err := openRoot(filepath.Dir(name))
	if err == nil {
		defer dir.Close()
		data, err = durable.ReadFile(dir, filepath.Base(name), limit)
	}
	if err != nil {
		w.failed(err)
		return ""
	}
	return strings.TrimRight(string(data), "\r\n")
}

// real returns a path without links, or "" if it leads to nothing.
func real(name string) string {
	if !filepath.IsAbs(name) {
		return ""
	}
	out, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	return out
}

// under makes a path absolute that is relative to dir.
func under(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
