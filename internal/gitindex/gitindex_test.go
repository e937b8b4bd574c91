package gitindex

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// repo is a work tree made by git.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, args ...string) repo {
	t.Helper()
	testbed.Needs(t, "git")
	dir := testbed.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	r := repo{t, dir}
	r.git(append([]string{"init", "-q"}, args...)...)
	return r
}

func (r repo) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "advice.addEmbeddedRepo=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir)
	for i, v := range cmd.Env {
		if strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_INDEX_FILE=") || strings.HasPrefix(v, "GIT_WORK_TREE=") {
			cmd.Env[i] = "_="
		}
	}
	out, err := cmd.CombinedOutput()
	testbed.Require(r.t, err == nil, "git %v: %v\n%s", args, err, out)
}

func (r repo) write(name, text string) string {
	r.t.Helper()
	p := filepath.Join(r.dir, filepath.FromSlash(name))
	testbed.NoErr(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	testbed.NoErr(r.t, os.WriteFile(p, []byte(text), 0o644))
	return p
}

const policy = "st/policy.yaml"

func (r repo) tracked() bool { return Tracked(filepath.Join(r.dir, filepath.FromSlash(policy)), nil) }

// fill adds files before and after the one that is looked for.
func (r repo) fill(n int) {
	for i := range n {
		r.write(fmt.Sprintf("s/%04d/%s", i, strings.Repeat("x", i%40)), "x")
		r.write(fmt.Sprintf("t%d", i), "x")
	}
}

// TestFormatsOfGit: whatever form git gives the index, a file that it lists is
// tracked and one that it does not list is not.
func TestFormatsOfGit(t *testing.T) {
	for name, row := range map[string]struct {
		init []string
		form [][]string
	}{
		"2":             {nil, [][]string{{"update-index", "--index-version", "2"}}},
		"3":             {nil, [][]string{{"update-index", "--index-version", "3"}, {"update-index", "--skip-worktree", "t1"}}},
		"4":             {nil, [][]string{{"update-index", "--index-version", "4"}}},
		"intent to add": {nil, [][]string{{"reset", "-q"}, {"add", "-N", "."}}},
		"split":         {nil, [][]string{{"update-index", "--split-index"}, {"commit", "-qm", "x", "--allow-empty"}}},
		"sha256":        {[]string{"--object-format=sha256"}, nil},
		"sha256 4":      {[]string{"--object-format=sha256"}, [][]string{{"update-index", "--index-version", "4"}}},
		"sha256 split":  {[]string{"--object-format=sha256"}, [][]string{{"update-index", "--split-index"}}},
		"untracked":     {nil, [][]string{{"config", "core.untrackedCache", "true"}, {"update-index", "--untracked-cache"}, {"status", "-s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, row.init...)
			testbed.Expect(t, !r.tracked(), "tracked in a repository without an index")
			r.fill(60)
			r.git("add", ".")
			r.write(policy, "version: 1\n")
			for _, args := range row.form {
				if name == "intent to add" && args[0] == "add" {
					args = append(args, ":!st")
				}
				r.git(args...)
			}
			testbed.Expect(t, !r.tracked(), "tracked before it was added")
			r.git("add", "-f", policy)
			testbed.Expect(t, r.tracked(), "not tracked after it was added")
			if name == "split" { // also when it is in the shared index
				r.git("update-index", "--split-index")
				testbed.Expect(t, r.tracked(), "not tracked in the shared index")
				shared, _ := filepath.Glob(filepath.Join(r.dir, ".git", "sharedindex.*"))
				for _, s := range shared {
					os.Remove(s)
				}
				os.Remove(filepath.Join(r.dir, "t1"))
				testbed.Expect(t, r.tracked(), "a shared index that is missing is no doubt")
				return
			}
			r.git("rm", "-q", "--cached", policy)
			testbed.Expect(t, !r.tracked(), "still tracked")
		})
	}
}

// TestRepositoriesInEachOther: a linked worktree, a submodule, a repository
// without the file inside one that has it, a sparse index.
func TestRepositoriesInEachOther(t *testing.T) {
	r := newRepo(t)
	r.write(policy, "version: 1\n")
	r.write("sub/x", "x")
	r.git("add", ".")
	r.git("commit", "-qm", "x")
	tree := repo{t, filepath.Join(t.TempDir(), "tree")}
	tree.dir, _ = filepath.EvalSymlinks(filepath.Dir(tree.dir))
	tree.dir = filepath.Join(tree.dir, "tree")
	r.git("worktree", "add", "-q", tree.dir)
	testbed.Expect(t, tree.tracked(), "not tracked in a linked worktree")
	tree.git("rm", "-q", "--cached", policy)
	testbed.Expect(t, !tree.tracked() && r.tracked(), "the worktrees have one index")
	outer := newRepo(t)
	outer.git("submodule", "--quiet", "add", r.dir, "st/mod")
	testbed.Expect(t, Tracked(filepath.Join(outer.dir, "st/mod/st/policy.yaml"), nil), "not tracked in a submodule")
	inner := newRepo(t)
	inner.write(policy, "version: 1\n")
	inner.git("add", ".")
	nested := repo{t, filepath.Join(inner.dir, "st")}
	nested.git("init", "-q")
	testbed.Expect(t, inner.tracked(), "an empty repository hides the one around it")
	sparse := newRepo(t)
	sparse.fill(5)
	sparse.write(policy, "version: 1\n")
	sparse.git("add", ".")
	sparse.git("commit", "-qm", "x")
	_, ok := Read(filepath.Join(sparse.dir, ".git"))
	testbed.Expect(t, ok, "an ordinary index is not read")
	sparse.git("sparse-checkout", "init", "--cone", "--sparse-index")
	sparse.write(policy, "version: 1\n")
	testbed.Expect(t, sparse.tracked(), "not tracked below a directory of a sparse index")
	_, ok = Read(filepath.Join(sparse.dir, ".git"))
	testbed.Expect(t, !ok, "a sparse index is read as if it listed all files")
}

// TestLetterCase: the caller says which names are one.
func TestLetterCase(t *testing.T) {
	r := newRepo(t)
	r.write("ST/Policy.YAML", "version: 1\n")
	r.git("add", ".")
	p := filepath.Join(r.dir, "st", "policy.yaml")
	if Tracked(p, nil) || !Tracked(p, relpath.SameName) {
		t.Errorf("%v %v", Tracked(p, nil), Tracked(p, relpath.SameName))
	}
}

// TestDoubtIsTracked: what is not understood counts as tracked, and nothing of
// it ends or hangs the process.
func TestDoubtIsTracked(t *testing.T) {
	for name, make := range map[string]func(dir string) error{
		"garbage index": func(dir string) error {
			os.Mkdir(filepath.Join(dir, ".git"), 0o755)
			return os.WriteFile(filepath.Join(dir, ".git/index"), []byte("garbage"), 0o644)
		},
		"empty index": func(dir string) error {
			os.Mkdir(filepath.Join(dir, ".git"), 0o755)
			return os.WriteFile(filepath.Join(dir, ".git/index"), nil, 0o644)
		},
		"index is a directory": func(dir string) error { return os.MkdirAll(filepath.Join(dir, ".git/index"), 0o755) },
		"index is a dangling link": func(dir string) error {
			os.Mkdir(filepath.Join(dir, ".git"), 0o755)
			return os.Symlink("none", filepath.Join(dir, ".git/index"))
		},
		"git file of nothing": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: none\n"), 0o644)
		},
		"git file without a gitdir": func(dir string) error { return os.WriteFile(filepath.Join(dir, ".git"), []byte("x"), 0o644) },
		"git is a loop":             func(dir string) error { return os.Symlink(".git", filepath.Join(dir, ".git")) },
		"mercurial":                 func(dir string) error { return os.Mkdir(filepath.Join(dir, ".hg"), 0o755) },
		"subversion":                func(dir string) error { return os.Mkdir(filepath.Join(dir, ".svn"), 0o755) },
		"jj":                        func(dir string) error { return os.Mkdir(filepath.Join(dir, ".jj"), 0o755) },
	} {
		dir := t.TempDir()
		p := filepath.Join(dir, "st", "policy.yaml")
		testbed.Require(t, !Tracked(p, nil), "%s: tracked without a repository", name)
		testbed.NoErr(t, make(dir))
		testbed.Expect(t, Tracked(p, nil), "%s: not tracked", name)
	}
}

// TestDamagedIndexes: an index that is cut off anywhere, or whose counts lie, is
// not understood.
func TestDamagedIndexes(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		r := newRepo(t)
		r.fill(10)
		r.git("add", ".")
		r.git("update-index", "--index-version", version)
		place := filepath.Join(r.dir, ".git", "index")
		whole := testbed.Must(os.ReadFile(place))(t)
		testbed.Require(t, !r.tracked(), "tracked")
		damaged := func(what string, data []byte) {
			t.Helper()
			testbed.NoErr(t, os.WriteFile(place, data, 0o644))
			testbed.Expect(t, r.tracked(), "version %s, %s: understood", version, what)
		}
		for n := 0; n < len(whole); n += 11 {
			damaged(fmt.Sprintf("%d bytes", n), whole[:n])
		}
		for _, n := range []uint32{0, 1, 19, 21, 1 << 31, 1<<32 - 1} {
			data := append([]byte(nil), whole...)
			binary.BigEndian.PutUint32(data[8:], n)
			damaged(fmt.Sprintf("%d entries", n), data)
		}
		for _, v := range []uint32{0, 1, 5, 1 << 20} {
			data := append([]byte(nil), whole...)
			binary.BigEndian.PutUint32(data[4:], v)
			damaged(fmt.Sprintf("format %d", v), data)
		}
	}
}

// listed reports whether an index lists the file with the given names.
func listed(data []byte, hash int, same func(a, b string) bool, names ...string) (found bool, err error) {
	ix := index{data: data, hash: hash, each: func(name []byte, _ int) { found = found || matches(name, names, same) }}
	err = ix.parse()
	return found, err
}

// FuzzIndex: no text ends the process.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range hashSizes {
			listed(data, size, relpath.SameName, "st", "policy.yaml")
		}
	})
}

// TestListing: every file that git lists is found with its object, in each
// format; what it does not list is not.
func TestListing(t *testing.T) {
	for _, row := range []struct {
		name string
		init []string
		form []string
		ok   bool
	}{
		{"2", nil, []string{"update-index", "--index-version", "2"}, true},
		{"4", nil, []string{"update-index", "--index-version", "4"}, true},
		{"sha256", []string{"--object-format=sha256"}, []string{"status"}, true},
		{"split", nil, []string{"update-index", "--split-index"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRepo(t, row.init...)
			r.fill(60)
			r.git("add", ".")
			r.git(row.form...)
			r.write("untracked", "x")
			l, ok := Read(filepath.Join(r.dir, ".git"))
			testbed.Require(t, ok == row.ok, "%v", ok)
			if !ok {
				return
			}
			cmd := exec.Command("git", "ls-files", "-s")
			cmd.Dir = r.dir
			out := testbed.Must(cmd.Output())(t)
			for line := range strings.Lines(string(out)) {
				facts, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				object, ok := l.Find(name)
				testbed.Require(t, ok && hex.EncodeToString([]byte(object)) == strings.Fields(facts)[1], "%s: %x, git says %s", name, object, facts)
			}
			for _, name := range []string{"untracked", "s", "", "zzz", "s/"} {
				_, ok := l.Find(name)
				testbed.Expect(t, !ok, "%q is listed", name)
			}
			testbed.Expect(t, l.Below("s") && l.Below("s/0001") && !l.Below("t") && !l.Below("untracked"), "directories")
		})
	}
	l, ok := Read(t.TempDir())
	testbed.Expect(t, ok && !l.Below("x"), "a repository without an index lists nothing")
}

// FuzzLinear: reading an index takes work in proportion to its length, also
// where an entry of a few bytes repeats the long name of the one before.
func FuzzLinear(f *testing.F) {
	f4 := func(name string) string {
		entry := make([]byte, statBytes+20+2)
		binary.BigEndian.PutUint16(entry[statBytes+20:], uint16(min(len(name), nameBits)))
		return string(entry) + "\x00" + name + "\x00"
	}
	seeds := []string{f4("a"), f4("st/policy.yaml"), f4(""), "link", "\x00\x00\x00\x08"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		for version := uint32(2); version <= 4; version++ {
			for _, count := range []uint32{0, uint32(len(text) / 64), 1 << 31} {
				head := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
				data := append(binary.BigEndian.AppendUint32(head, count), text...)
				listed(data, 20, relpath.SameName, "st", "policy.yaml")
			}
		}
		return 0
	})
}

// TestLongNamesOfFormat4: entries that repeat a name of the greatest length
// cost in proportion to it and to their number.
func TestLongNamesOfFormat4(t *testing.T) {
	testbed.Linear(t, "entries of a few bytes", 32<<10, 20*time.Microsecond, func(n int) int {
		data := binary.BigEndian.AppendUint32([]byte("DIRC"), 4)
		data = binary.BigEndian.AppendUint32(data, uint32(1+n/64))
		entry := make([]byte, statBytes+20+2)
		binary.BigEndian.PutUint16(entry[statBytes+20:], nameBits)
		data = append(append(append(data, entry...), 0), make([]byte, 0, maxPath)...)
		for range maxPath / 2 {
			data = append(data, "a/"...)
		}
		data = append(data, 0)
		for range n / 64 {
			data = append(append(data, entry...), 0, 0)
		}
		data = append(data, make([]byte, 20)...)
		compared := 0
		found, err := listed(data, 20, func(a, b string) bool {
			compared += len(a) + len(b)
			return a == b
		}, "a", "a", "b")
		testbed.Require(t, err == nil && !found, "%v %v", err, found)
		return compared
	})
}

func TestMain(m *testing.M) { testbed.Main(m) }
