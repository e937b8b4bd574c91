package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// planted is a repository in parts: what each file holds when git is to run
// the command that makes mark.
func planted(mark string) map[string]string {
	return map[string]string{
		"HEAD": "ref: refs/heads/main\n", "objects/x": "x", "refs/x": "x",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch '" + mark + "'; false\"\n[alias]\n\tst = \"!touch '" + mark + "'\"\n",
	}
}

// git runs a git command in dir, as an unsuspecting user does, and reports whether mark
// was made.
func git(t testing.TB, dir, mark string, args ...string) bool {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	home := filepath.Dir(mark)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + home,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	cmd.Run()
	if _, err := os.Stat(mark); err != nil {
		return false
	}
	os.Remove(mark)
	return true
}

// plant makes files without a tool.
func plant(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	testbed.Plant(t, dir, 0o644, files)
}

// orders are all orders of a list.
func orders(list []string) [][]string {
	if len(list) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i, first := range list {
		for _, rest := range orders(slices.Delete(slices.Clone(list), i, i+1)) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// ways are the ways in which a file can come to its name.
var ways = map[string]func(t *testing.T, s *rw.Store, path, text string) error{
	"write": func(t *testing.T, s *rw.Store, path, text string) error {
		return errorOf(s.SafeWrite(background, put(path, text, rw.ModeCreate)))
	},
	"halves": func(t *testing.T, s *rw.Store, path, text string) error {
		if _, err := s.SafeWrite(background, put(path, text[:1], rw.ModeCreate)); err != nil {
			return err
		}
		return errorOf(s.SafeWrite(background, put(path, text[1:], rw.ModeAppend)))
	},
	"edit": func(t *testing.T, s *rw.Store, path, text string) error {
		if _, err := s.SafeWrite(background, put(path, "?", rw.ModeCreate)); err != nil {
			return err
		}
		return errorOf(s.Edit(background, rw.EditRequest{Path: path, Edits: []rw.EditOp{{Old: "?", New: text}}}))
	},
	"move": func(t *testing.T, s *rw.Store, path, text string) error {
		if _, err := s.SafeWrite(background, put(path+".tmp", text, rw.ModeOverwrite)); err != nil {
			return err
		}
		return errorOf(s.Move(background, rw.MoveRequest{Path: path + ".tmp", To: path}))
	},
	"move directory": func(t *testing.T, s *rw.Store, path, text string) error {
		aside := "aside " + strings.ReplaceAll(path, "/", "_")
		if _, err := s.SafeWrite(background, put(aside+"/"+filepath.Base(path), text, rw.ModeOverwrite)); err != nil {
			return err
		}
		return errorOf(s.Move(background, rw.MoveRequest{Path: aside, To: filepath.ToSlash(filepath.Dir(path))}))
	},
	"compose": func(t *testing.T, s *rw.Store, path, text string) error {
		session := strings.NewReplacer("/", "-", " ", "-").Replace(path)
		if _, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte(text)}); err != nil {
			return err
		}
		return errorOf(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: path}))
	},
	"undo": func(t *testing.T, s *rw.Store, path, text string) error {
		if _, err := s.SafeWrite(background, put(path, text, rw.ModeCreate)); err != nil {
			return err
		}
		if _, err := s.Delete(background, rw.DeleteRequest{Path: path}); err != nil {
			return err
		}
		return errorOf(s.Undo(background, rw.UndoRequest{}))
	},
}

// TestNoOrderMakesARepository: a repository that runs a command is built in every order
// of its files, cut into commits at every place, by every verb: whichever commits were
// refused, git runs nothing there afterwards.
func TestNoOrderMakesARepository(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	mark := filepath.Join(t.TempDir(), "mark")
	control := t.TempDir()
	plant(t, filepath.Join(control, "d"), planted(mark))
	require(t, git(t, filepath.Join(control, "d"), mark, "status"), "git runs no command in the repository of this test")
	for way, make := range ways {
		t.Run(way, func(t *testing.T) {
			s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
			files := planted(mark)
			for i, order := range testbed.Share(t, orders([]string{"HEAD", "objects/x", "refs/x", "config"}), 4, nil) {
				root := fmt.Sprintf("%s %d", way, i)
				refused := 0
				for _, name := range order {
					err := make(t, s, root+"/"+name, files[name])
					require(t, err == nil || rw.AsError("", err).Detail == rw.ErrProtectedPath, "%v: %s: %v", order, name, err)
					if err != nil {
						refused++
					}
				}
				at := filepath.Join(dir, filepath.FromSlash(root))
				expect(t, refused != 0 && !git(t, at, mark, "status"), "%v: %d refused", order, refused)
			}
		})
	}
}

// TestNoTransactionMakesARepository: the same in transactions of every cut.
func TestNoTransactionMakesARepository(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	mark := filepath.Join(t.TempDir(), "mark")
	files := planted(mark)
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	for i, order := range testbed.Share(t, orders([]string{"HEAD", "objects/x", "refs/x", "config"}), 4, nil) {
		for cut := range 1 << 3 { // bit n cuts after file n
			root := fmt.Sprintf("d%d-%d/sub", i, cut)
			var ops []rw.TxOp
			refused := 0
			for n, name := range order {
				ops = append(ops, rw.TxOp{Op: "write", Path: root + "/" + name, Content: []byte(files[name])})
				if n < 3 && cut>>n&1 == 0 {
					continue
				}
				_, err := s.Tx(background, rw.TxRequest{Ops: ops})
				require(t, err == nil || rw.AsError("", err).Detail == rw.ErrProtectedPath, "%v", err)
				if err != nil {
					refused++
				}
				ops = nil
			}
			expect(t, refused != 0 && !git(t, filepath.Join(dir, filepath.FromSlash(root)), mark, "status"),
				"%v cut at %03b: %d refused", order, cut, refused)
		}
	}
}

// TestRepositoriesOfOtherShapes: a linked work tree's directory, a HEAD that is an
// object id, a directory of objects that is a link or a program, and entries that may
// be in the root of the workspace.
func TestRepositoriesOfOtherShapes(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	mark := filepath.Join(t.TempDir(), "mark")
	base := planted(mark)
	for name, c := range map[string]struct {
		there map[string]string // made without a tool
		links map[string]string
		tools [][2]string // in order; the last one completes
		at    string
		args  []string // of git; status if empty
	}{
		"work tree":         {tools: [][2]string{{"c/objects/x", "x"}, {"c/refs/x", "x"}, {"c/config", base["config"]}, {"w/commondir", "../c\n"}, {"w/HEAD", base["HEAD"]}}, at: "w", args: []string{"st"}},
		"work tree, HEAD 1": {tools: [][2]string{{"w/HEAD", base["HEAD"]}, {"c/objects/x", "x"}, {"c/refs/x", "x"}, {"w/commondir", "../c\n"}, {"c/config", base["config"]}}, at: "w", args: []string{"st"}},
		"common only":       {there: map[string]string{"w/HEAD": base["HEAD"], "w/commondir": "../c\n"}, tools: [][2]string{{"c/objects/x", "x"}, {"c/refs/x", "x"}, {"c/config", base["config"]}}, at: "w", args: []string{"st"}},
		"common, config 1":  {there: map[string]string{"w/HEAD": base["HEAD"], "w/commondir": "../c\n"}, tools: [][2]string{{"c/config", base["config"]}, {"c/refs/x", "x"}, {"c/objects/x", "x"}}, at: "w", args: []string{"st"}},
		"object id":         {tools: [][2]string{{"d/objects/x", "x"}, {"d/refs/x", "x"}, {"d/config", base["config"]}, {"d/HEAD", strings.Repeat("aB", 20) + "\n"}}, at: "d"},
		"spaces":            {tools: [][2]string{{"d/objects/x", "x"}, {"d/refs/x", "x"}, {"d/config", base["config"]}, {"d/HEAD", "ref:\t  refs/heads/x"}}, at: "d"},
		"link to objects":   {there: map[string]string{"o/x": "x", "d/refs/x": "x"}, links: map[string]string{"d/objects": "../o"}, tools: [][2]string{{"d/config", base["config"]}, {"d/HEAD", base["HEAD"]}}, at: "d"},
		"HEAD as a link":    {there: map[string]string{"d/refs/x": "x"}, links: map[string]string{"d/HEAD": "refs/heads/main"}, tools: [][2]string{{"d/config", base["config"]}, {"d/objects/x", "x"}}, at: "d"},
		"existing, config":  {there: map[string]string{"d/HEAD": base["HEAD"], "d/objects/x": "x", "d/refs/x": "x"}, tools: [][2]string{{"d/config", base["config"]}}, at: "d"},
		"through a link":    {there: map[string]string{"real/HEAD": base["HEAD"], "real/objects/x": "x", "real/refs/x": "x"}, links: map[string]string{"d": "real"}, tools: [][2]string{{"d/config", base["config"]}}, at: "d"},
		"the root":          {tools: [][2]string{{"objects/x", "x"}, {"refs/x", "x"}, {"config", strings.Replace(base["config"], "worktree = ..", "worktree = .", 1)}, {"HEAD", base["HEAD"]}}, at: "."},
	} {
		t.Run(name, func(t *testing.T) {
			tools := func(dir string, write func(path, text string) error) (refused int) {
				plant(t, dir, c.there)
				for link, to := range c.links {
					noErr(t, os.Symlink(to, filepath.Join(dir, link)))
				}
				for _, step := range c.tools {
					if write(step[0], step[1]) != nil {
						refused++
					}
				}
				return refused
			}
			control := t.TempDir()
			tools(control, func(path, text string) error {
				plant(t, control, map[string]string{path: text})
				return nil
			})
			if c.args == nil {
				c.args = []string{"status"}
			}
			require(t, git(t, filepath.Join(control, c.at), mark, c.args...), "git runs no command there anyway")
			s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
			refused := tools(dir, func(path, text string) error {
				_, err := s.SafeWrite(background, put(path, text, rw.ModeOverwrite))
				require(t, err == nil || rw.AsError("", err).Detail == rw.ErrProtectedPath, "%v", err)
				return err
			})
			expect(t, refused != 0 && !git(t, filepath.Join(dir, c.at), mark, c.args...), "%d refused", refused)
		})
	}
}

// TestOtherCommandsOfAPlantedRepository: whichever setting runs the program and
// whichever command of git reads it.
func TestOtherCommandsOfAPlantedRepository(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	mark := filepath.Join(t.TempDir(), "mark")
	run := "touch '" + mark + "'; false"
	for name, c := range map[string]struct {
		config string
		extra  map[string]string
		args   []string
	}{
		"sshCommand": {"[core]\n\tsshCommand = \"" + run + "\"\n", nil, []string{"fetch", "ssh://nowhere.invalid/x"}},
		"alias":      {"[alias]\n\tst = \"!" + run + "\"\n", nil, []string{"st"}},
		"filter":     {"[filter \"f\"]\n\tclean = \"" + run + "\"\n", map[string]string{".gitattributes": "*.f filter=f\n", "a.f": "x"}, []string{"--git-dir=.", "--work-tree=..", "add", "../a.f"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := planted(mark)
			files["config"] = "[core]\n\tbare = false\n\tworktree = ..\n" + c.config
			control := t.TempDir()
			plant(t, filepath.Join(control, "d"), files)
			plant(t, control, c.extra)
			require(t, git(t, filepath.Join(control, "d"), mark, c.args...), "git runs no command there anyway")
			s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
			plant(t, dir, c.extra)
			for _, part := range []string{"config", "HEAD", "refs/x", "objects/x"} {
				s.SafeWrite(background, put("d/"+part, files[part], rw.ModeCreate))
			}
			expect(t, !git(t, filepath.Join(dir, "d"), mark, c.args...), "git ran the command")
		})
	}
}

// TestTwoWritersMakeNoRepository: the last two parts are written at the same
// moment, by two openings of the store.
func TestTwoWritersMakeNoRepository(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	for round := range 40 {
		root := fmt.Sprintf("d%d/", round)
		write(t, stores[0], root+"refs/x", "x", rw.ModeCreate)
		var wg sync.WaitGroup
		var errs [2]error
		for i, part := range []rw.SafeWriteRequest{put(root+"HEAD", "ref: refs/heads/x", rw.ModeCreate), put(root+"objects/x", "x", rw.ModeCreate)} {
			wg.Go(func() { _, errs[i] = stores[i].SafeWrite(background, part) })
		}
		wg.Wait()
		require(t, (errs[0] == nil) != (errs[1] == nil), "round %d: %v and %v", round, errs[0], errs[1])
	}
}

// TestOrdinaryDirectoriesPass: names that git uses are ordinary names, and a
// repository that the policy excepts is test data.
func TestOrdinaryDirectoriesPass(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	policy := filepath.Join(t.TempDir(), "p.yaml")
	noErr(t, os.WriteFile(policy, []byte("protect_exceptions: [\"testdata/repos\"]\n"), 0o600))
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, PolicyFile: policy})
	for path, text := range map[string]string{
		"a/HEAD": "# the head of the page", "a/objects/x": "x", "a/refs/x": "x", "a/b/c": "x",
		"b/HEAD": "ref: refs/heads/x", "b/objects": "a list", "b/refs/x": "x",
		"c/HEAD": strings.Repeat("a", 39), "c/objects/x": "x", "c/refs/x": "x",
		"d/objects/x": "x", "d/refs/x": "x", "d/config/x": "x", "d/HEAD/x": "x", "d/config.yaml": "x",
		"e/commondir": "x", "e/config": "x", "e/hooks/pre-commit": "x", "f/head": "ref: refs/heads/x", "f/Objects/x": "x", "f/REFS/x": "x",
		"HEAD": "ref: refs/heads/x", "g/HEADER": "ref: x", "config": "x", "hooks/x": "x",
	} {
		must(s.SafeWrite(background, put(path, text, rw.ModeCreate)))(t, path)
	}
	for _, part := range []string{"HEAD", "config", "objects/x", "refs/x", "hooks/pre-commit"} {
		must(s.SafeWrite(background, put("testdata/repos/one.git/"+part, "ref: x", rw.ModeCreate)))(t, part)
	}
	got, _ := attempt(t, s, put("testdata/.git/config", "x", rw.ModeCreate))
	expect(t, got == rw.ErrProtectedPath, "a repository called .git: %s", got)
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("i/HEAD", "ref: x", ""), txWrite("i/objects/x", "x", ""), txWrite("i-refs/x", "x", "")}}))(t)
	for _, dir := range []string{"l", "m", "n", "o"} { // another spelling does not hide what is there
		must(s.SafeWrite(background, put(dir+"/HEAD", "ref: refs/heads/x", rw.ModeCreate)))(t)
		must(s.SafeWrite(background, put(dir+"/refs/x", "x", rw.ModeCreate)))(t)
	}
	must(s.SafeWrite(background, put("l/head", "x", rw.ModeCreate)))(t)
	for dir, op := range map[string]rw.TxOp{
		"l": {Op: "delete", Path: "l/head"}, "m": txWrite("m/head", "junk", ""), "n": txWrite("n/head/x", "x", ""), "o": txWrite("o/Refs", "x", ""),
	} {
		fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite(dir+"/objects/x", "x", ""), op}}))(t, rw.ErrProtectedPath, dir)
	}
	for _, refs := range []string{"k/REFS/x", "\u212a/refs/x"} { // one directory where names are folded, with or without its content
		fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("k/head", "ref: x", ""), txWrite("k/Objects/x", "x", ""), txWrite(refs, "x", "")}}))(t, rw.ErrProtectedPath)
	}
}

// TestNoFileOfARepositoryIsWritten: any file of a repository that is there, the hooks of
// one whose work tree the workspace is a part of, and a HEAD that is appended to.
func TestNoFileOfARepositoryIsWritten(t *testing.T) {
	t.Parallel()
	top := workspace(t)
	plant(t, top, map[string]string{
		".git/config": "[core]\n\thooksPath = sub/tools\n", "sub/bare/HEAD": "ref: refs/heads/x\n", "sub/bare/objects/x": "x", "sub/bare/refs/x": "x",
		"sub/d/HEAD": "ref: refs/heads/x\n" + strings.Repeat("\n", 1<<20), "sub/d/refs/x": "x",
	})
	s := open(t, filepath.Join(top, "sub"), &rw.Options{Sync: rw.SyncOff})
	for _, path := range []string{"bare/hooks/pre-commit", "bare/x", "tools/pre-commit", "tools/lib/x"} {
		got, _ := attempt(t, s, put(path, "x", rw.ModeCreate))
		equal(t, got, rw.ErrProtectedPath, path)
	}
	fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("d/HEAD", "x\n", rw.ModeAppend), txWrite("d/objects/x", "x", "")}}))(t, rw.ErrProtectedPath)
	must(s.SafeWrite(background, put("hooks/pre-commit", "x", rw.ModeCreate)))(t)
}

// TestAWriteLooksTwiceInEachDirectory pins the cost of the search for repositories: two
// lookups in each directory of the path, once for a commit.
func TestAWriteLooksTwiceInEachDirectory(t *testing.T) {
	t.Parallel()
	fs, s := scenario{before: do(put("a/b/x.txt", "x", rw.ModeCreate))}.prepare(t)
	fs.ResetTrace()
	ops := []rw.TxOp{}
	for _, name := range []string{"a/b/1", "a/b/2", "a/b/3", "a/4"} {
		ops = append(ops, rw.TxOp{Op: "write", Path: name, Content: []byte("x")})
	}
	must(s.Tx(background, rw.TxRequest{Ops: ops}))(t)
	got := map[string]int{}
	for _, op := range fs.Trace() {
		if name := filepath.Base(op.Path); op.Kind == "lstat" && slices.Contains([]string{"HEAD", ".git", "objects", "refs", "commondir", "config"}, name) {
			got[name]++
		}
	}
	want := map[string]int{"HEAD": 3, ".git": 3}
	expect(t, fmt.Sprint(got) == fmt.Sprint(want), "lookups %v, want %v", got, want)
}

// TestRepositoriesByIdentity: the directories that a .git file and commondir refer to
// are protected independently of their names and content, even if they are created
// while the store is open. So is the directory of core.hooksPath.
func TestRepositoriesByIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there   map[string]string
		links   map[string]string
		refused []string
		written []string
	}{
		"gitdir":             {map[string]string{".git": "gitdir: store\n", "store/x": ""}, nil, []string{"store/config", "store/hooks/x", "STORE/../store/y"}, []string{"stores/x", "a/store/x"}},
		"gitdir not there":   {map[string]string{".git": "gitdir: deep/store\n"}, nil, []string{"deep/store/config", "deep/store/a/b"}, []string{"deep/x"}},
		"a link to the same": {map[string]string{".git": "gitdir: store\n", "store/x": ""}, map[string]string{"alias": "store"}, []string{"alias/config"}, nil},
		"gitdir by a link":   {map[string]string{".git": "gitdir: alias\n", "store/x": ""}, map[string]string{"alias": "store"}, []string{"store/config", "alias/config"}, nil},
		".git is a link":     {map[string]string{"store/x": ""}, map[string]string{".git": "store"}, []string{"store/config"}, []string{"x"}},
		"commondir":          {map[string]string{".git": "gitdir: wt\n", "wt/commondir": "../shared\n", "shared/x": ""}, nil, []string{"shared/config", "wt/x"}, nil},
		"nested":             {map[string]string{"sub/.git": "gitdir: .bare\n", "sub/.bare/x": ""}, nil, []string{"sub/.bare/config"}, []string{"sub/x", ".bare/config"}},
		"hooks":              {map[string]string{".git/config": "[core]\n\thooksPath = tools/hooks\n"}, nil, []string{"tools/hooks/pre-commit", "tools/hooks/lib/x", "Tools/Hooks/y", "tools/hooks"}, []string{"tools/x", "hooks/x"}},
		"hooks, odd writing": {map[string]string{".git/config": "# c\n[ CORE ] HooksPath = \"tools/\\\nhooks\" ; c\n"}, nil, []string{"tools/hooks/pre-commit"}, nil},
		"hooks by include":   {map[string]string{".git/config": "[include]\n\tpath = ../more.cfg\n", "more.cfg": "[includeIf \"onbranch:x\"]\npath=\"even more.cfg\"\n", "even more.cfg": "[core]\nhookspath=h\n"}, nil, []string{"h/pre-commit", "more.cfg", "even more.cfg", "Even More.cfg"}, []string{"a/more.cfg"}},
		"an included file":   {map[string]string{".git/config": "[include]\n\tpath = ../alias/x.cfg\n[include]\n\tpath = ../none/y.cfg\n", "real/x.cfg": ""}, map[string]string{"alias": "real"}, []string{"alias/x.cfg", "real/x.cfg", "none/y.cfg", "none/y.cfg/z"}, []string{"real/y.cfg", "none/x.cfg"}},
		"hooks of work tree": {map[string]string{".git/config.worktree": "[core]\nhooksPath=./h/\n"}, nil, []string{"h/pre-commit"}, nil},
		"hooks of gitdir":    {map[string]string{".git": "gitdir: wt\n", "wt/commondir": "../c", "c/config": "[core]\n\thooksPath = ../h\n[core]\n\thooksPath = h2"}, nil, []string{"h2/x"}, []string{"h/x"}},
		"hooks in the root":  {map[string]string{".git/config": "[core]\n\thooksPath = .\n"}, nil, []string{"pre-commit", "Post-Checkout"}, []string{"x", "a/pre-commit"}},
		"hooks, nested":      {map[string]string{"sub/.git/config": "[core]\n\thooksPath = h\n"}, nil, []string{"sub/h/pre-push"}, []string{"h/pre-push"}},
		"hooks by a link":    {map[string]string{".git/config": "[core]\n\thooksPath = alias\n", "real/x": ""}, map[string]string{"alias": "real"}, []string{"real/pre-commit", "alias/pre-commit"}, nil},
	} {
		for _, late := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " later"}[late], func(t *testing.T) {
				dir := workspace(t)
				prepare := func() {
					plant(t, dir, c.there)
					for link, to := range c.links {
						noErr(t, os.Symlink(to, filepath.Join(dir, link)))
					}
				}
				if !late {
					prepare()
				}
				s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
				if late {
					write(t, s, "first.txt", "x", rw.ModeCreate)
					prepare()
				}
				for _, p := range c.refused {
					got, _ := attempt(t, s, put(p, "x", rw.ModeOverwrite))
					expect(t, got == rw.ErrProtectedPath, "%s: %q", p, got)
					_, err := s.Move(background, rw.MoveRequest{Path: "first.txt", To: p, Call: rw.Call{DryRun: true}})
					expect(t, !late || rw.AsError("", err).Detail == rw.ErrProtectedPath, "moved to %s: %v", p, err)
				}
				for _, p := range c.written {
					must(s.SafeWrite(background, put(p, "x", rw.ModeCreate)))(t, p)
				}
			})
		}
	}
}

// TestSettingsAreReadAsGitReadsThem compares our reading of the hook settings in the
// configuration with git's.
func TestSettingsAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	for _, config := range []string{
		"[core]\nhooksPath = h\n", "[core]hooksPath=h", "[CORE]\n  HOOKSPATH\t=\t h  \n", "[core]\nhooksPath = \"h\"\n", "[core]\nhooksPath = h # c\n", "[core]\nhooksPath = \"h\" ; c\n",
		"\ufeff[core]\nhooksPath = h\n", "[core]\r\nhooksPath = h\r\n", "[core]\nhooksPath = x\nhooksPath = h\n", "[core]\nhooksPath = \".\"/h\n", "; c\n\n[a \"b]c\"]\nx = [core]\n[core]\nhooksPath = h",
		"[core]\nhooksPath = \\\nh\n", "[core]\neditor = \"a # b\"\nhooksPath = h\n", "[core]\nsymlinks\nhooksPath = h\n", "[core]\nhooksPath = h\t \n", "[core \"x\"]\nhooksPath = x\n[core]\nhooksPath = h",
	} {
		dir := workspace(t)
		out, err := exec.Command("git", "init", "-q", dir).CombinedOutput()
		require(t, err == nil, "%v: %s", err, out)
		plant(t, dir, map[string]string{".git/config": config})
		mark := filepath.Join(t.TempDir(), "mark")
		plant(t, dir, map[string]string{"h/pre-commit": "#!/bin/sh\ntouch '" + mark + "'\n"})
		os.Chmod(filepath.Join(dir, "h", "pre-commit"), 0o755)
		require(t, git(t, dir, mark, "commit", "--allow-empty", "-m", "x"), "%q: git does not run the hook", config)
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		got, _ := attempt(t, s, put("h/pre-push", "x", rw.ModeCreate))
		expect(t, got == rw.ErrProtectedPath, "%q: %q", config, got)
	}
}

// TestARootInsideARepository: a directory that belongs to a repository is no
// workspace; a work tree that is in one is.
func TestARootInsideARepository(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	plant(t, base, map[string]string{
		"bare.git/HEAD": "ref: refs/heads/x\n", "bare.git/objects/x": "", "bare.git/refs/x": "", "bare.git/hooks/x": "", "bare.git/main/.git": "gitdir: ../worktrees/main\n",
		"w/.git/hooks/x": "", "w/.git/modules/m/hooks/x": "", "w/src/x": "", "hg/.hg/x": "", "not/HEAD": "x", "not/objects/x": "", "not/refs/x": "",
	})
	noErr(t, os.Symlink("bare.git/hooks", filepath.Join(base, "alias")))
	for dir, want := range map[string]rw.Detail{
		"bare.git": rw.ErrUnsafeRoot, "bare.git/hooks": rw.ErrUnsafeRoot, "alias": rw.ErrUnsafeRoot, "w/.git": rw.ErrUnsafeRoot, "w/.git/hooks": rw.ErrUnsafeRoot,
		"w/.git/modules/m/hooks": rw.ErrUnsafeRoot, "hg/.hg": rw.ErrUnsafeRoot, "w": "", "w/src": "", "hg": "", "not": "", "bare.git/main": "",
	} {
		at := filepath.Join(base, filepath.FromSlash(dir))
		s, err := rw.Open(background, at, &rw.Options{Sync: rw.SyncOff})
		if err == nil {
			s.Close(background)
		}
		var got rw.Detail
		if err != nil {
			got = rw.AsError("", err).Detail
		}
		equal(t, got, want, dir)
		if want != "" {
			if s, err = rw.Open(background, at, &rw.Options{Sync: rw.SyncOff, AllowUnsafeRoot: true}); err != nil {
				t.Errorf("%s, allowed: %v", dir, err)
			} else {
				s.Close(background)
			}
		}
	}
}

// TestOtherRepositoriesAreProtected: the directories of other version control
// systems, in every spelling, as any part of a path.
func TestOtherRepositoriesAreProtected(t *testing.T) {
	t.Parallel()
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	for _, name := range []string{".hg", ".jj", ".svn", ".sl", ".bzr", ".HG", ".Svn", "HG~1", ".s\u200dl", ".jj. "} {
		for _, p := range []string{name, name + "/hgrc", "a/" + name + "/hooks/x"} {
			got, _ := attempt(t, s, put(p, "x", rw.ModeCreate))
			expect(t, got == rw.ErrProtectedPath, "%q: %q", p, got)
		}
	}
	for _, p := range []string{".hgignore", ".jjx", "svn", ".sls", "a.hg", "sl~", "bzr~x"} {
		write(t, s, p, "x", rw.ModeCreate)
	}
}

// TestGitConfigThatCannotBeRead: as long as the configuration of git cannot be read, it is
// not known what it makes git run or ignore, and nothing is written or recorded.
func TestGitConfigThatCannotBeRead(t *testing.T) {
	const broken = "/proc/self/mem" // a regular file whose first bytes cannot be read
	if _, err := os.ReadFile(broken); !errors.Is(err, syscall.EIO) {
		t.Skip(err)
	}
	dir := workspace(t)
	config := filepath.Join(dir, ".git", "config")
	noErr(t, errors.Join(os.Mkdir(filepath.Dir(config), 0o755), os.Symlink(broken, config)))
	s := open(t, dir, nil)
	fails(s.SafeWrite(background, put("h/pre-commit", "x", rw.ModeCreate)))(t, rw.ErrIO)
	fails(s.Scan(background, around.ScanRequest{}))(t, rw.ErrIO)
	noErr(t, errors.Join(os.Remove(config), os.WriteFile(config, []byte("[core]\nhooksPath = h\nexcludesFile = /dev/null\n"), 0o644)))
	fails(s.SafeWrite(background, put("h/pre-commit", "x", rw.ModeCreate)))(t, rw.ErrProtectedPath)
	noErr(t, do(put("a", "x", rw.ModeCreate))(s))
	must(s.Scan(background, around.ScanRequest{}))(t)
}
