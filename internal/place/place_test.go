package place_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// git runs git in a directory, without the configuration of the user.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	testbed.Require(t, err == nil, "git %v: %v: %s", args, err, out)
}

// ground is a directory for workspaces, and one of the user's state.
type ground struct {
	*testing.T
	dir, state string
}

func newGround(t *testing.T) ground {
	dir := testbed.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	g := ground{t, dir, filepath.Join(dir, "state")}
	t.Setenv("XDG_STATE_HOME", g.state)
	return g
}

func (g ground) mkdir(name string) string {
	g.Helper()
	dir := filepath.Join(g.dir, name)
	testbed.NoErr(g, os.MkdirAll(dir, 0o755))
	return dir
}

func (g ground) file(name, text string) {
	g.Helper()
	testbed.Plant(g, g.dir, 0o644, map[string]string{name: text})
}

// repo makes a repository with one commit.
func (g ground) repo(name string) string {
	g.Helper()
	dir := g.mkdir(name)
	git(g.T, dir, "init", "-q")
	git(g.T, dir, "commit", "-q", "--allow-empty", "-m", "x")
	return dir
}

// open makes or finds the store of a workspace, as an opened one does it.
func (g ground) open(root string) place.Opened {
	g.Helper()
	return testbed.Must(g.try(root))(g, root)
}

func (g ground) try(root string) (place.Opened, error) {
	g.Helper()
	w := testbed.Must(place.Look(root))(g)
	o, err := w.Open(false)
	if err != nil {
		return o, err
	}
	testbed.NoErr(g, os.MkdirAll(filepath.Join(o.Path, "journal"), 0o700))
	state := testbed.Must(fsx.OpenRoot(o.Path))(g)
	defer state.Close()
	if o.Parent != nil {
		defer o.Parent.Close()
	}
	return o, w.Note(o.Place, state)
}

// TestOrder: an existing store is used where it is, in the tree before the git
// directory before the user's state; without one the new one is in the git
// directory, else in the user's state, else in the tree, with a warning.
func TestOrder(t *testing.T) {
	g := newGround(t)
	repo, plain := g.repo("repo"), g.mkdir("plain")
	o := g.open(repo)
	testbed.Expect(t, o.Kind == place.Git && o.Path == filepath.Join(repo, ".git", "resilientwrite", "main") && len(o.Notes) == 0, "%+v", o)
	o = g.open(plain)
	testbed.Expect(t, o.Kind == place.XDG && filepath.Dir(o.Path) == filepath.Join(g.state, "resilientwrite") && len(o.Notes) == 0, "%+v", o)
	for _, name := range []string{"repo", "plain"} {
		g.file(name+"/.resilient_write/policy.yaml", "version: 1\n") // not a store
		o := g.open(filepath.Join(g.dir, name))
		testbed.Expect(t, o.Kind != place.Tree, "%+v", o)
		g.file(name+"/.resilient_write/journal.jsonl", "") // of the first edition
		o = g.open(filepath.Join(g.dir, name))
		testbed.Expect(t, o.Kind == place.Tree && slices.Equal(o.Notes, []string{place.WarnSeveral}), "%+v", o)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(g.dir, "plain", "a.file"))
	g.file("plain/a.file", "")
	o = g.open(g.mkdir("none"))
	testbed.Expect(t, o.Kind == place.Tree && slices.Equal(o.Notes, []string{place.WarnInTree}), "%+v", o)
}

// TestNoSecondStore: whichever directories cannot be opened, because too many are open, a
// workspace that has a store is not opened, or with that one.
func TestNoSecondStore(t *testing.T) {
	g := newGround(t)
	repo := g.repo("repo")
	linked := filepath.Join(g.dir, "linked")
	git(t, repo, "worktree", "add", "-q", linked)
	for _, root := range []string{repo, linked, g.mkdir("plain")} {
		g.noOther(root, g.open(root).Path, false)
	}
}

// noOther checks that no other store than that of a workspace is opened while directories
// cannot be.
func (g ground) noOther(root, want string, readOnly bool) {
	g.Helper()
	for i, more := 0, true; more; i++ {
		more = false
		for last := i; last < i+8; last++ {
			n, open := -1, *place.OpenRoot
			*place.OpenRoot = func(path string) (fsx.Dir, error) {
				if n++; n >= i && n <= last {
					more = true
					return nil, &os.PathError{Op: "open", Path: path, Err: syscall.EMFILE}
				}
				return open(path)
			}
			if w, err := place.Look(root); err == nil {
				o, err := w.Open(readOnly)
				testbed.Expect(g, err != nil || o.Path == want, "%s, %d to %d: %s, want %s", root, i, last, o.Path, want)
				if err == nil && o.Parent != nil {
					o.Parent.Close()
				}
			}
			*place.OpenRoot = open
		}
	}
}

// TestRootIsRecognized by what is stored with it: moved, it keeps its store;
// another directory under its path gets another one, and that is said.
func TestRootIsRecognized(t *testing.T) {
	g := newGround(t)
	plain := g.mkdir("plain")
	was := g.open(plain).Path
	w := testbed.Must(place.Look(plain))(t)
	for _, change := range []func(*place.Record){func(r *place.Record) { r.Inode++ }, func(r *place.Record) { r.Born++ }} {
		other, of := *w, w.Record
		change(&other.Record)
		testbed.Expect(t, w.Born != 0 && other.Of(place.XDG).Path != was, "two roots have one place: %+v", other.Record)
		change(&of) // as if another root had the place
		testbed.NoErr(t, os.WriteFile(filepath.Join(was, place.RecordName), testbed.Must(json.Marshal(of))(t), 0o600))
		testbed.Equal(t, w.Of(place.XDG).Path, was+"-1")
	}
	state := testbed.Must(fsx.OpenRoot(was))(t)
	defer state.Close()
	testbed.NoErr(t, w.Note(place.Place{Kind: place.XDG, Path: was}, state))
	testbed.Equal(t, w.Of(place.XDG).Path, was)
	w.Born = 0
	testbed.Equal(t, w.Of(place.XDG).Path, "")
	for _, vol := range []string{"overlay", "vfat", "exfat"} { // its identity does not last
		dir := g.mkdir(vol)
		open := *place.OpenRoot
		*place.OpenRoot = func(path string) (fsx.Dir, error) {
			d, err := open(path)
			return volumeDir{d, vol}, err
		}
		w, there := testbed.Must(place.Look(dir))(t), testbed.Must(place.Look(plain))(t)
		*place.OpenRoot = open
		testbed.Equal(t, w.Of(place.XDG).Path, "")
		testbed.Equal(t, there.Of(place.XDG).Path, was) // what is there is used
	}
	os.Rename(plain, filepath.Join(g.dir, "moved"))
	testbed.Expect(t, g.open(filepath.Join(g.dir, "moved")).Path == was, "a directory that was moved lost its store")
	g.mkdir("plain")
	if o := g.open(plain); o.Path == was || len(o.Notes) != 0 {
		t.Errorf("%+v", o) // the record of the moved one names its new path
	}
	was = g.open(plain).Path
	os.Remove(plain)
	g.mkdir("plain")
	now := testbed.Must(place.Look(plain))(t)
	reads, err := now.Open(true)
	testbed.Expect(t, err == nil && slices.Equal(reads.Notes, []string{place.WarnOtherRoot}), "of a reader: %+v %v", reads, err)
	o := g.open(plain)
	testbed.Expect(t, o.Path != was && slices.Equal(o.Notes, []string{place.WarnOtherRoot}), "%+v", o)
	repo := g.repo("repo")
	linked := filepath.Join(g.dir, "linked")
	git(t, repo, "worktree", "add", "-q", linked)
	was = g.open(linked).Path
	again := g.open(linked)
	testbed.Expect(t, again.Path == was && filepath.Dir(was) == filepath.Join(repo, ".git", "resilientwrite"), "%+v", again)
	git(t, repo, "worktree", "remove", linked)
	git(t, repo, "worktree", "add", "-q", linked, "HEAD")
	o = g.open(linked)
	testbed.Expect(t, o.Path != was && slices.Equal(o.Notes, []string{place.WarnOtherRoot}), "a new worktree of the same name: %+v", o)
	_, err = os.Stat(was)
	testbed.Expect(t, err == nil, "the state of the removed worktree is gone")
	sub := g.mkdir("repo/pkg/a")
	o = g.open(sub)
	testbed.Expect(t, o.Kind == place.Git && o.Path != g.open(repo).Path && o.Path != g.open(g.mkdir("repo/pkg/b")).Path, "a directory of a repository: %+v", o)
}

// volumeDir is on a file system of another type.
type volumeDir struct {
	fsx.Dir
	volume string
}

func (d volumeDir) Volume() (fsx.Volume, error) {
	v, err := d.Dir.Volume()
	v.Type = d.volume
	return v, err
}

// TestGitFileIsConfirmed: a .git file counts only where git's own side names this
// work tree. What a tree brings along does not lead into another repository.
func TestGitFileIsConfirmed(t *testing.T) {
	g := newGround(t)
	repo := g.repo("repo")
	git(t, repo, "worktree", "add", "-q", filepath.Join(g.dir, "linked"))
	g.open(filepath.Join(g.dir, "linked"))
	admin := filepath.Join(repo, ".git", "worktrees", "linked")
	g.file("own/x/worktrees/w/gitdir", filepath.Join(g.dir, "own", ".git")+"\n")
	g.file("own/x/worktrees/w/commondir", filepath.Join(repo, ".git")+"\n")
	for _, row := range []struct{ name, text string }{
		{"file", "gitdir: " + filepath.Join(repo, ".git")},
		{"another's worktree", "gitdir: " + admin},
		{"own", "gitdir: x/worktrees/w"},
		{"inside", "gitdir: bare"},
		{"none", "gitdir: /nothing/here"},
		{"empty", ""},
	} {
		g.file(row.name+"/.git", row.text+"\n")
	}
	git(t, g.mkdir("inside"), "init", "-q", "--bare", "bare")
	os.Mkdir(filepath.Join(g.dir, "linked-dir"), 0o755)
	os.Symlink(filepath.Join(repo, ".git"), filepath.Join(g.dir, "linked-dir", ".git"))
	os.MkdirAll(filepath.Join(g.dir, "shape", ".git"), 0o755)
	for _, name := range []string{"file", "another's worktree", "own", "inside", "none", "empty", "linked-dir", "shape"} {
		o := g.open(filepath.Join(g.dir, name))
		testbed.Expect(t, o.Kind == place.XDG, "%s: %+v", name, o)
	}
	os.Rename(filepath.Join(g.dir, "linked"), filepath.Join(g.dir, "strayed"))
	o := g.open(filepath.Join(g.dir, "strayed"))
	testbed.Expect(t, o.Kind == place.XDG && slices.Equal(o.Notes, []string{place.WarnOtherRoot}), "a worktree that was moved without git: %+v", o)
	super := g.repo("super")
	git(t, super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repo, "part")
	o = g.open(filepath.Join(super, "part"))
	testbed.Expect(t, o.Kind == place.Git && strings.HasPrefix(o.Path, filepath.Join(super, ".git", "modules", "part")), "a submodule: %+v", o)
}

// TestHostileParent: what holds the stores is no link, belongs to this user, and
// no other user writes there.
func TestHostileParent(t *testing.T) {
	g := newGround(t)
	repo := g.repo("repo")
	app := filepath.Join(repo, ".git", "resilientwrite")
	elsewhere := g.mkdir("elsewhere")
	os.Symlink(elsewhere, app)
	o := g.open(repo)
	testbed.Expect(t, o.Kind != place.Git, "a link was followed: %+v", o)
	left, _ := os.ReadDir(elsewhere)
	testbed.Expect(t, len(left) == 0, "%v", left)
	other := g.repo("other")
	app = filepath.Join(other, ".git", "resilientwrite")
	os.Mkdir(app, 0o700)
	os.Chmod(app, 0o777)
	g.open(other)
	st, _ := os.Stat(app)
	testbed.Expect(t, st.Mode().Perm() == 0o700, "mode %v", st.Mode())
	if os.Geteuid() != 0 {
		return // chown is root's
	}
	os.Chown(app, 4711, 4711)
	var f *fault.Fault
	_, err := g.try(other)
	testbed.Expect(t, errors.As(err, &f) && f.Code == fault.BadStateDir, "of another user: %v", err)
	third := g.repo("third")
	os.Chown(filepath.Join(third, ".git"), 4711, 4711)
	o = g.open(third)
	testbed.Expect(t, o.Kind == place.XDG, "a repository of another user: %+v", o)
}

// TestAll lists every store with its root, and keeps those whose root is gone.
func TestAll(t *testing.T) {
	g := newGround(t)
	repo, plain, gone := g.repo("repo"), g.mkdir("plain"), g.mkdir("gone")
	roots := map[string]string{g.open(repo).Path: repo, g.open(plain).Path: plain, g.open(gone).Path: gone}
	g.file("tree/.resilient_write/meta.json", "{}")
	roots[g.open(filepath.Join(g.dir, "tree")).Path] = filepath.Join(g.dir, "tree")
	os.Remove(gone)
	length := len(testbed.Must(os.ReadDir(filepath.Join(g.state, "resilientwrite", "known")))(t))
	testbed.Expect(t, length == 2, "%d stores are registered; those of the user's state need not be", length)
	for range 2 {
		list := testbed.Must(place.All(nil))(t)
		for _, s := range list {
			testbed.Expect(t, roots[s.Path] == s.Root && s.Gone == (s.Root == gone) && !s.Used.IsZero() && s.Bytes != 0, "%+v", s)
		}
		testbed.Expect(t, len(list) == len(roots), "%d of %d", len(list), len(roots))
	}
}
