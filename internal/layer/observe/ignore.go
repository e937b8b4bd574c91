package observe

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/gitignore"
	"github.com/resilientwrite/resilientwrite/internal/gitindex"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// The ignore rules are read from the files of git, because every git command may run
// programs that the repository configures. A tracked file is not ignored.

const maxIgnore = 256 << 10 // bytes of a file with patterns

// repo is the repository that contains some directories; its zero value means none.
type repo struct {
	dir     string   // its top relative to the workspace, if the workspace holds it
	inside  string   // the workspace relative to the top, if the repository holds that
	git     string   // its own directory, absolute; "" for none
	dirs    []string // that, and the one it shares with other work trees
	rules   []gitignore.File
	sum     uint64 // of the texts of rules
	err     error  // why rules could not be read, although there may be some
	listing func() *gitindex.Listing
}

// name is a path of the workspace in the repository.
func (r *repo) name(p string) string {
	switch {
	case r.dir != "":
		return strings.TrimPrefix(strings.TrimPrefix(p, r.dir), "/")
	case r.inside == "" || p == "":
		return r.inside + p
	}
	return r.inside + "/" + p
}

// newRepo reads the repository at top, which is an absolute directory.
func newRepo(top string) *repo {
	r := &repo{}
	r.listing = sync.OnceValue(func() *gitindex.Listing {
		if r.git == "" {
			return &gitindex.Listing{}
		}
		l, _ := gitindex.Read(r.git)
		return l
	})
	if top == "" {
		return r
	}
	found := gitdir.Find(top, gitdir.ThisUser())
	if found == nil {
		return r
	}
	if r.err = found.Err; len(found.Dirs) == 0 {
		return r
	}
	r.git, r.dirs = found.Dirs[0], found.Dirs
	r.addRules("", cmp.Or(found.Excludes, defaultExcludes()))
	r.addRules("", filepath.Join(found.Dirs[len(found.Dirs)-1], "info", "exclude"))
	return r
}

// addRules reads a file with patterns that is not in the workspace.
func (r *repo) addRules(dir, file string) {
	text, err := patterns(file)
	r.err = cmp.Or(r.err, err)
	r.rules = append(r.rules, gitignore.Parse(dir, text))
	sum := fnv.New64a()
	sum.Write(binary.LittleEndian.AppendUint64(text, r.sum))
	r.sum = sum.Sum64()
}

func defaultExcludes() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "git", "ignore")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config", "git", "ignore")
}

// patterns reads a file of git by its path. It is empty where git reads none either.
func patterns(name string) ([]byte, error) {
	text, err := durable.ReadRegular(name, maxIgnore)
	if isNone(err) {
		return nil, nil
	}
	return text, err
}

// isNone reports whether an error says that there is no file for git.
func isNone(err error) bool {
	return engine.IsOdd(err) || fsx.Nothing(err)
}

// place is what holds for the files of a directory.
type place struct {
	repo *repo
	up   *place
	file func() gitignore.File // the patterns of the directory itself; nil for none
	// rulesKnown means that the patterns are those of the last scan, and filesKnown
	// that git tracks the same files.
	rulesKnown, filesKnown bool
	// hidden means that git ignores the directory: only those of its files are recorded
	// that the policy includes.
	hidden bool
	// met means that git ignored the directory at the last scan: what is in it is
	// counted as known, as by a first scan.
	met bool
}

// files are the patterns that count here, the weakest first.
func (p *place) files() []gitignore.File {
	var list []gitignore.File
	if p.up != nil {
		list = p.up.files()
	} else {
		list = append(list, p.repo.rules...)
	}
	if p.file != nil {
		list = append(list, p.file())
	}
	return list
}

// ignores reports whether git ignores an entry of the directory.
func (p *place) ignores(files []gitignore.File, at string, dir bool) bool {
	name := p.repo.name(at)
	return gitignore.Hides(files, name, dir) && !p.tracks(name, dir)
}

func (p *place) tracks(name string, dir bool) bool {
	if dir {
		return p.repo.listing().Below(name)
	}
	_, ok := p.repo.listing().Find(name)
	return ok
}

// outermost returns the place of the workspace as the directories above it define it:
// the repository that contains it, and the patterns from there down to it.
func outermost(root string) *place {
	top := ""
	if root != "" {
		top = gitdir.Top(root)
	}
	r := newRepo(cmp.Or(top, root))
	if rel, err := filepath.Rel(top, root); top != "" && err == nil && rel != "." {
		r.inside = filepath.ToSlash(rel)
		dir := ""
		for name := range strings.SplitSeq(r.inside, "/") {
			r.addRules(dir, filepath.Join(top, filepath.FromSlash(dir), engine.IgnoreName))
			dir = path.Join(dir, name)
		}
	}
	return &place{repo: r}
}

// stamp changes when the index of the repository does.
func (r *repo) stamp() uint64 {
	st, err := os.Stat(filepath.Join(r.git, "index"))
	if r.git == "" || err != nil {
		return 0
	}
	return uint64(st.ModTime().UnixNano()) ^ uint64(st.Size())<<40
}

// enter is the place of a directory below p. It fails if the patterns cannot be read.
func (v *visit) enter(p *place) (*place, error) {
	here, d, old := p, v.d, v.old
	if d.Path != "" && v.root != "" && entryOf(d.Entries, ".git") != nil {
		r := newRepo(filepath.Join(v.root, filepath.FromSlash(d.Path)))
		if r.err != nil {
			return nil, r.err
		}
		r.dir = d.Path
		now, was := Entry{Name: ".git", Flags: Ignored | Directory, Mtime: int64(r.sum ^ v.req.Capture.sum()), Ctime: int64(r.stamp())}, find(old, ".git")
		here = &place{repo: r, rulesKnown: was != nil && was.Mtime == now.Mtime, hidden: p.hidden, met: p.met, filesKnown: was != nil && was.Ctime == now.Ctime}
		v.repo = &now
	}
	st := entryOf(d.Entries, engine.IgnoreName)
	if st == nil || st.Kind != fsx.Regular || st.Size > maxIgnore {
		if find(old, engine.IgnoreName) == nil {
			return here, nil
		}
		out := *here // there was one
		out.rulesKnown = false
		return &out, nil
	}
	text, err := durable.ReadFile(d.Dir, engine.IgnoreName, maxIgnore)
	if err != nil && !isNone(err) {
		return nil, err
	}
	was := find(old, engine.IgnoreName)
	return &place{
		repo: here.repo, up: here, filesKnown: here.filesKnown, hidden: here.hidden, met: here.met,
		rulesKnown: here.rulesKnown && was != nil && was.same(&st.Stat) && !v.racy(was, &st.Stat),
		file:       sync.OnceValue(func() gitignore.File { return gitignore.Parse(here.repo.name(d.Path), text) }),
	}, nil
}

func entryOf(list []tree.Entry, name string) *tree.Entry {
	i, ok := slices.BinarySearchFunc(list, name, func(e tree.Entry, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil
	}
	return &list[i]
}

// Ignored returns a function that reports whether git ignores a path of the
// workspace as its rules are now: the path itself, or below that is set a directory
// that it is in.
func (l *Layer) Ignored() func(p string, dir bool) (ignored, below bool) {
	known := map[string]*place{}
	var at func(dir string) *place
	at = func(dir string) *place {
		if known[dir] == nil {
			known[dir] = l.placeOf(dir, at)
		}
		return known[dir]
	}
	return func(p string, dir bool) (bool, bool) {
		in := at(engine.ParentOf(p))
		return in.hidden || in.ignores(in.files(), p, dir), in.hidden
	}
}

// placeOf is what holds for the files of a directory; at is the same of the one above it.
func (l *Layer) placeOf(dir string, at func(string) *place) *place {
	if dir == "" {
		return withPatterns(outermost(l.RealRoot), l.RealRoot, dir)
	}
	up := at(engine.ParentOf(dir))
	if up.hidden || up.ignores(up.files(), dir, true) {
		return &place{hidden: true}
	}
	abs := filepath.Join(l.RealRoot, filepath.FromSlash(dir))
	if _, err := os.Lstat(filepath.Join(abs, ".git")); err == nil {
		up = &place{repo: newRepo(abs)}
		up.repo.dir = dir
	}
	return withPatterns(up, abs, dir)
}

// withPatterns adds the patterns of a directory itself.
func withPatterns(up *place, abs, dir string) *place {
	name := filepath.Join(abs, engine.IgnoreName)
	if st, err := os.Lstat(name); err != nil || !st.Mode().IsRegular() {
		return up
	}
	text, _ := patterns(name)
	file := gitignore.Parse(up.repo.name(dir), text)
	return &place{repo: up.repo, up: up, file: func() gitignore.File { return file }}
}

// Repositories are the directories of an index that are repositories of their
// own, without the workspace itself.
func (x *Index) Repositories() (list []string) {
	for dir, entries := range x.dirs {
		if e := find(entries, ".git"); e != nil && dir != "" {
			list = append(list, dir)
		}
	}
	return list
}

// Capture selects the files for which the policy decides instead of git. The globs
// match paths relative to the workspace; a glob of a directory covers its content.
type Capture struct {
	Include []string // recorded although git ignores them
	Exclude []string // not recorded at all
}

// sum changes with the globs. It is 0 for none.
func (c *Capture) sum() uint64 {
	if len(c.Include)+len(c.Exclude) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, list := range [][]string{c.Include, c.Exclude} {
		for _, glob := range list {
			h.Write([]byte(glob + "\x00"))
		}
		h.Write([]byte{1})
	}
	return h.Sum64()
}

func (c *Capture) excludes(p string) bool { return policyfile.Within(c.Exclude, p) }

func (c *Capture) Includes(p string) bool { return policyfile.Within(c.Include, p) }

// mayHold reports whether a directory is included or may hold something that is.
func (c *Capture) mayHold(dir string) bool {
	return c.Includes(dir) || slices.ContainsFunc(c.Include, func(glob string) bool {
		parts := strings.Split(glob, "/")
		for i, name := range strings.Split(dir, "/") {
			switch {
			case i == len(parts):
				return false
			case parts[i] == "**":
				return true
			case !policyfile.Match(parts[i], name):
				return strings.ContainsAny(parts[i], "{}") // an alternative may hold a /
			}
		}
		return true
	})
}
