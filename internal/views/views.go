// Package views turns the changes that a command made in a view of the workspace into
// the mutations of one commit, and applies those that no commit can express.
package views

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/sandbox"
)

// held is how much content is kept in memory, in bytes. More is staged at once.
const held = 64 << 20

// maxFiles is how many files a commit may change.
const maxFiles = 100_000

// maxNamed is how many paths an error lists.
const maxNamed = 20

// Builder makes a plan. Its fields are its input.
type Builder struct {
	Layer   *observe.Layer
	Commit  *engine.Commit
	View    *sandbox.View
	Start   *observe.Index // the workspace when the command began
	Capture observe.Capture

	plan    *Plan
	start   map[string]observe.File
	ignored func(string, bool) (bool, bool)
	memory  int64
	special []string // changes that no commit can express
	bad     []string // names that no commit can contain
	kept    []string // files of a repository or of the state directory
	made    []*file
	gone    []*file
}

// file is a file that is new, or one that is gone.
type file struct {
	m    *engine.Mutation
	sha  string
	mode uint32
}

// Plan lists what happens to each difference.
type Plan struct {
	Muts    []*engine.Mutation
	Dirs    []journal.Mutation // of the commit
	Loose   []sandbox.Change   // what git ignores: applied after the commit, without versions
	Ignored int                // files among them
}

// Build makes the plan, and fails where the differences hold something that would
// be lost. The mutations that it made are in it also then.
func (b *Builder) Build(ctx context.Context) (*Plan, error) {
	b.plan, b.start, b.ignored = &Plan{}, b.Start.All(), b.Layer.Ignored()
	err := b.View.Changes(func(c sandbox.Change) error {
		if err := ctx.Err(); err != nil {
			return fault.New(fault.Canceled).Because(err)
		}
		return b.take(ctx, c)
	})
	if err == nil {
		err = b.refuse()
	}
	b.pair()
	return b.plan, err
}

// refuse names what would be lost.
func (b *Builder) refuse() error {
	for _, x := range []struct {
		code fault.Code
		list []string
		hint string
	}{
		{fault.NotARegularFile, b.special, "the command made a FIFO, a socket or a device, which cannot be committed; do that outside of exec, or in a directory that git ignores"},
		{fault.InvalidPath, b.bad, "the command made files whose names cannot be recorded; use names that are valid UTF-8"},
		{fault.ProtectedPath, b.kept, "the command changed a git repository or a state directory; do that outside of exec, or make the repository in a directory that git ignores"},
	} {
		if len(x.list) > 0 {
			e := fault.New(x.code).With("paths", x.list[:min(len(x.list), maxNamed)]).With("count", len(x.list)).Hintf("%s", x.hint)
			e.Path = x.list[0]
			return e
		}
	}
	return nil
}

// take decides about one difference.
func (b *Builder) take(ctx context.Context, c sandbox.Change) error {
	clean, _, err := relpath.Clean(c.Path, b.Layer.Tree.Rules)
	named := err == nil && clean == c.Path
	f, known := b.start[c.Path]
	was := file{}
	if known {
		was = file{sha: f.Hex(), mode: f.Mode}
	}
	dir := c.Kind == sandbox.Directory || c.Dir
	ignored, below := false, false
	if !known && !(named && b.careful(c.Path)) {
		ignored, below = b.ignored(c.Path, dir)
	}
	if !known && !ignored && !dir && named {
		var err error
		if was, known, err = b.unlisted(c.Path); err != nil {
			return b.about(c, err)
		}
	}
	loose := ignored && (below || dir || c.Kind != sandbox.File && c.Kind != sandbox.Link || c.Size > observe.MaxIgnored)
	switch {
	case dir && named && b.careful(c.Path):
		return nil // its files are refused
	case loose:
		b.plan.Loose = append(b.plan.Loose, c)
		if !dir {
			b.plan.Ignored++
		}
	case errors.Is(err, relpath.ErrProtected):
		b.kept = append(b.kept, c.Path)
	case !named:
		b.bad = append(b.bad, shown(c.Path))
	case dir:
		b.directory(c)
	case c.Kind == sandbox.Gone:
		b.delete(c, was, known)
	case c.Kind == sandbox.File || c.Kind == sandbox.Link:
		return b.write(ctx, c, was, known)
	default:
		b.special = append(b.special, c.Path)
	}
	return nil
}

// careful reports whether a path may be changed only by a commit.
func (b *Builder) careful(path string) bool {
	_, guarded := protect.Match(path)
	return guarded || b.Capture.Includes(path) || b.Layer.Host.Permitted(path) != nil
}

// unlisted is a file that the index does not list, because of the policy or because git
// ignores it, and that has not changed since the command began. It fails if the file
// cannot be read.
func (b *Builder) unlisted(p string) (was file, known bool, err error) {
	unread := func(err error) error {
		switch b.Layer.ErrorOf(err).Code {
		case fault.PermissionError, fault.IOError, fault.TooManyFiles:
			return err
		}
		return nil
	}
	t, err := b.Layer.LocateEntry(p)
	if err != nil {
		return was, false, unread(err)
	}
	defer t.Close()
	if !t.Exists() || t.Path != p {
		return was, false, nil
	}
	f, err := fsx.OpenEntry(t.Parent, t.Name)
	if err != nil {
		return was, false, unread(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Ctime >= b.View.Began() {
		return was, false, err
	}
	sha, _, err := engine.HashFile(f)
	return file{sha: sha, mode: st.Mode}, err == nil, err
}

// about is an error of the file of a difference.
func (b *Builder) about(c sandbox.Change, err error) error {
	f := b.Layer.ErrorOf(err)
	f.Path = c.Path
	return f
}

// shown is a name as an error may hold it.
func shown(p string) string { return string([]rune(p)) }

// directory has the commit make or remove a directory, or change its mode.
func (b *Builder) directory(c sandbox.Change) {
	d := journal.Mutation{Path: c.Path, PrevMode: b.Start.DirMode(c.Path)}
	if c.Kind == sandbox.Directory {
		d.Mode = fsx.ModeDir | c.Mode
	}
	b.plan.Dirs = append(b.plan.Dirs, d)
}

func (f file) link() bool { return fsx.KindOf(f.mode) == fsx.Symlink }

// delete takes a file away that was there at the start. One that came later stays.
func (b *Builder) delete(c sandbox.Change, was file, known bool) {
	if !known {
		st, err := os.Lstat(filepath.Join(b.Layer.RealRoot, filepath.FromSlash(c.Path)))
		if err == nil && !st.Mode().IsRegular() {
			b.special = append(b.special, c.Path)
		}
		return
	}
	m := &engine.Mutation{Path: c.Path, Op: engine.OpDelete, Force: true, Expected: &was.sha, NoFollow: true, WasLink: was.link()}
	b.plan.Muts = append(b.plan.Muts, m)
	if was.link() {
		return
	}
	b.gone = append(b.gone, &file{m, was.sha, was.mode & 0o777})
}

// write adds the bytes of a file, unless they are unchanged.
func (b *Builder) write(ctx context.Context, c sandbox.Change, was file, known bool) error {
	if c.Size > b.Layer.Opts.MaxContentBytes {
		return b.about(c, fault.New(fault.TooLarge).With("bytes", c.Size).With("max_bytes", b.Layer.Opts.MaxContentBytes).
			Hintf("the command wrote a file that is too large for a commit; let git ignore its directory, or write it outside of exec"))
	}
	m := &engine.Mutation{Path: c.Path, Op: engine.OpOverwrite, Force: true, AllowShrink: true, Expected: &was.sha, NoFollow: true, WasLink: was.link()}
	mode := c.Mode & 0o777
	if c.Kind == sandbox.Link {
		mode = fsx.ModeLink
	} else if known && !was.link() {
		mode |= was.mode &^ 0o777
	}
	if !known || mode != was.mode || c.Kind == sandbox.Link {
		m.Perm = &mode
	}
	sum, err := b.content(ctx, m, c)
	if err != nil {
		return b.about(c, err)
	}
	if known && sum == was.sha && mode == was.mode {
		m.DropSpooled()
		return nil
	}
	b.plan.Muts = append(b.plan.Muts, m)
	if !known && !m.Link() {
		b.made = append(b.made, &file{m, sum, mode & 0o777})
	}
	if len(b.plan.Muts) > maxFiles {
		return fault.New(fault.TooLarge).With("max_files", maxFiles).
			Hintf("the command changed more than %d files, which is more than one commit takes; let git ignore what is generated, or run it in parts", maxFiles)
	}
	return nil
}

// content reads a file of the view and returns its hash.
func (b *Builder) content(ctx context.Context, m *engine.Mutation, c sandbox.Change) (string, error) {
	if c.Kind == sandbox.Link {
		target, err := os.Readlink(b.View.Path(c.Path))
		return m.Hold([]byte(target)), err
	}
	f, err := os.Open(b.View.Path(c.Path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	src := engine.NewStoppable(ctx, f)
	if c.Size <= engine.InMemory && b.memory+c.Size <= held {
		data, err := io.ReadAll(io.LimitReader(src, engine.InMemory+1))
		if err != nil {
			return "", err
		}
		b.memory += int64(len(data))
		return m.Hold(data), nil
	}
	b.Commit.Expects = len(b.plan.Muts)
	in, err := b.Commit.Spool(ctx, src)
	if err != nil {
		return "", err
	}
	m.TakeSpooled(in)
	return in.Got.Digest.Hex(), nil
}

// pair makes a move of a file that is gone and a new one with its bytes and its
// mode, so that history follows it.
func (b *Builder) pair() {
	alike, turning := map[file][]*engine.Mutation{}, b.turning()
	for _, f := range b.gone {
		if !turning(f.m.Path) {
			key := file{sha: f.sha, mode: f.mode}
			alike[key] = append(alike[key], f.m)
		}
	}
	for _, f := range b.made {
		key := file{sha: f.sha, mode: f.mode}
		if turning(f.m.Path) || len(alike[key]) == 0 || f.m.Content.Size() == 0 {
			continue
		}
		from := alike[key][0]
		alike[key] = alike[key][1:]
		f.m.DropSpooled()
		from.Kind, from.Forgotten = string(engine.OpMove), true
		*f.m = engine.Mutation{Path: f.m.Path, Op: engine.OpMove, Kind: string(engine.OpMove), Force: true, Source: from, Ungated: true, AllowShrink: true}
	}
	slices.SortStableFunc(b.plan.Muts, func(x, y *engine.Mutation) int { return order(x) - order(y) }) // a move before the name it takes
}

// turning reports whether a path is a directory in one of the two states and a file in
// the other, or below such a path. There files are deleted and made, never moved.
func (b *Builder) turning() func(path string) bool {
	dirs := map[string]bool{}
	for i := range b.plan.Dirs {
		dirs[b.plan.Dirs[i].Path] = true
	}
	turns := map[string]bool{}
	for _, m := range b.plan.Muts {
		if dirs[m.Path] {
			turns[m.Path] = true
		}
	}
	return func(path string) bool {
		for ; path != "" && len(turns) > 0; path = engine.ParentOf(path) {
			if turns[path] {
				return true
			}
		}
		return false
	}
}

func order(m *engine.Mutation) int {
	if m.Source != nil {
		return 0
	}
	return 1
}

// Apply applies the changes that no commit contains: those of files that git ignores. It
// returns the paths for which this failed.
func (p *Plan) Apply(l *observe.Layer, v *sandbox.View) (failed []string) {
	apply := func(c sandbox.Change) {
		if v.Apply(l.Disk.Root, c) != nil && !(c.Kind == sandbox.Gone && c.Dir) { // one that others put something into stays
			failed = append(failed, shown(c.Path))
		}
	}
	for _, c := range slices.Backward(p.Loose) {
		if c.Kind == sandbox.Gone {
			apply(c)
		}
	}
	for _, c := range p.Loose {
		if c.Kind != sandbox.Gone {
			apply(c)
		}
	}
	return failed
}
