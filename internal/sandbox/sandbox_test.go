//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) {
	if os.Args[0] == helperName {
		go collect()
	}
	Main()
	if len(os.Args) == 2 && os.Args[1] == "type" {
		typeText()
		os.Exit(0)
	}
	testbed.Main(m)
}

// collect has the collector close, in every helper of these tests, what the helper has
// open without referring to it.
func collect() {
	for {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

// place is a workspace and a directory for views.
type place struct {
	t          *testing.T
	root, base string
	out        bytes.Buffer
	more       func(*Job)
}

func newPlace(t *testing.T) *place { return newPlaceIn(t, t.TempDir()) }

// newPlaceFor makes a place where one way works: copies that share blocks need
// a file system of their own.
func newPlaceFor(t *testing.T, way string) *place {
	dir := t.TempDir()
	if way == Reflink {
		image := filepath.Join(t.TempDir(), "image")
		for _, args := range [][]string{
			{"truncate", "-s", "320M", image},
			{"mkfs.xfs", "-q", "-m", "reflink=1", image},
			{"mount", "-o", "loop", image, dir},
		} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Skipf("NOT RUN: no file system that shares blocks: %v: %v: %s", args, err, out)
			}
		}
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	return newPlaceIn(t, dir)
}

func newPlaceIn(t *testing.T, dir string) *place {
	dir = testbed.Must(filepath.EvalSymlinks(dir))(t)
	p := &place{t: t, root: filepath.Join(dir, "ws"), base: filepath.Join(dir, "views")}
	for name, text := range map[string]string{"a.txt": "alpha\n", "dir/b.txt": "beta\n", "dir/c.txt": "gamma\n", ".git/HEAD": "ref\n"} {
		p.write(name, text)
	}
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.root, name)
	testbed.NoErr(p.t, os.MkdirAll(filepath.Dir(name), 0o755))
	testbed.NoErr(p.t, os.WriteFile(name, []byte(text), 0o644))
}

// run runs a script over a view made in one way.
func (p *place) run(way, script string) (*View, Exit) {
	p.t.Helper()
	p.out.Reset()
	j := Job{
		Root: p.root, Base: p.base, Argv: []string{"sh", "-c", script}, Env: os.Environ(), Only: way, Copy: true,
		Closed: []string{filepath.Join(p.root, ".git")}, Stdout: &p.out, Stderr: &p.out,
	}
	if p.more != nil {
		p.more(&j)
	}
	v, exit, err := Run(context.Background(), j)
	var no *Unavailable
	if errors.As(err, &no) {
		if way == FuseOverlay { // it needs a program
			p.t.Skip("NOT RUN: " + no.Error())
		}
		testbed.NotRun(p.t, no.Error())
	}
	testbed.NoErr(p.t, err)
	p.t.Cleanup(func() { v.Remove() })
	return v, exit
}

func list(t *testing.T, v *View) (all []string) {
	t.Helper()
	names := map[Kind]string{Gone: "gone", File: "file", Directory: "dir", Link: "link", Other: "other"}
	err := v.Changes(func(c Change) error {
		all = append(all, fmt.Sprintf("%s %s", names[c.Kind], c.Path))
		return nil
	})
	testbed.NoErr(t, err)
	slices.Sort(all)
	return all
}

var ways = []string{Overlay, FuseOverlay, Reflink, Copy}

func TestChanges(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			p := newPlaceFor(t, way)
			p.write("old/x", "1")
			p.write("old/y", "2")
			p.write("whole/z", "3")
			p.write("kind", "4")
			p.write("kinds/in/z", "5")
			p.write("old/again", "6")
			p.write("private/y", "7")
			testbed.NoErr(t, errors.Join(os.Symlink("a.txt", filepath.Join(p.root, "alias")), unix.Mkfifo(filepath.Join(p.root, "queue"), 0o600)))
			v, exit := p.run(way, `set -e
echo more >> a.txt
mv dir/b.txt new.txt
mkdir -p made/deep; echo 1 > made/deep/f; chmod 755 made/deep/f
rm -r old; mkdir old; echo 3 > old/w; echo 6 > old/again
chmod 700 private
test "$(readlink alias)" = a.txt
rm -r whole
ln -s a.txt link
rm kind; mkdir kind; echo 4 > kind/f; rm -r kinds; echo 5 > kinds
mkfifo pipe
cat dir/c.txt > /dev/null
test "$(cat a.txt | tr -d '\n')" = alphamore`)
			testbed.MustEqual(t, exit, (Exit{}), "exit ", p.out.String())
			want := []string{
				"dir kind", "dir made", "dir made/deep", "dir private", "file a.txt", "file kind/f", "file kinds", "file made/deep/f", "file new.txt", "file old/again", "file old/w",
				"gone dir/b.txt", "gone kind", "gone kinds", "gone kinds/in", "gone kinds/in/z", "gone old/x", "gone old/y", "gone whole", "gone whole/z", "link link", "other pipe",
			}
			got := list(t, v)
			testbed.Expect(t, slices.Equal(got, want), "got  %q\nwant %q", got, want)
			testbed.Holds(t, filepath.Join(p.root, "a.txt"), "alpha\n", "the workspace has")
		})
	}
}

func TestConfined(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			p := newPlaceFor(t, way)
			outside := filepath.Join(filepath.Dir(p.root), "outside")
			cache := filepath.Join(filepath.Dir(p.root), "cache")
			os.Mkdir(outside, 0o755)
			os.Mkdir(cache, 0o755)
			os.WriteFile(filepath.Join(outside, "f"), []byte("x"), 0o644)
			p.more = func(j *Job) { j.Writable = []string{cache} }
			_, exit := p.run(way, fmt.Sprintf(`cd %s
no() { if "$@" 2>/dev/null; then echo "allowed: $*"; fi; }
no touch %[2]s/new
no sh -c 'echo y > %[2]s/f'
no rm %[2]s/f
no chmod 777 %[2]s/f
no ln -s x %[2]s/l
no mv a.txt %[2]s/a
no touch .git/new
no sh -c 'echo y > .git/HEAD'
no rm .git/HEAD
no mv .git gone
no umount .git
no umount %[1]s
no mount -o remount,rw .git
no touch %[4]s/x
no mount -t tmpfs x /mnt
if [ $(id -u) != 0 ]; then grep -q 'CapEff:.0000000000000000' /proc/self/status || echo "it has capabilities"; fi
grep -q 'NoNewPrivs:.1' /proc/self/status || echo "it may get privileges"
echo c > %[3]s/ok || echo "no cache"
echo t > "$TMPDIR/ok" || echo "no tmp"
echo n > /dev/null || echo "no null"
`, p.root, outside, cache, p.base))
			testbed.Expect(t, exit == (Exit{}) && p.out.Len() == 0, "exit %+v: %s", exit, p.out.String())
		})
	}
}

// TestOutput: a command may open its output again, whatever it is.
func TestOutput(t *testing.T) {
	p := newPlace(t)
	name := filepath.Join(filepath.Dir(p.root), "out")
	f := testbed.Must(os.Create(name))(t)
	defer f.Close()
	p.more = func(j *Job) { j.Stdout = f }
	_, exit := p.run(Overlay, `echo one; echo two >> /dev/stdout; echo three > /dev/stderr`)
	testbed.Expect(t, exit == (Exit{}) && p.out.String() == "three\n", "exit %+v: %s", exit, p.out.String())
	testbed.Holds(t, name, "one\ntwo\n")
}

// TestBytes: paths, arguments and variables need not be UTF-8.
func TestBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "\xff")
	testbed.NoErr(t, os.Mkdir(dir, 0o755))
	p := newPlaceIn(t, dir)
	p.more = func(j *Job) { j.Env, j.Argv = append(j.Env, "ODD=\xfe"), append(j.Argv, "sh", "\xfd") }
	_, exit := p.run(Overlay, `printf %s "$ODD" "$1"`)
	testbed.Expect(t, exit == (Exit{}) && p.out.String() == "\xfe\xfd", "exit %+v: %q", exit, p.out.String())
}

// TestOrdersStayOpen: a garbage collection while the command runs does not close the pipe
// by which the helper finds that the other process has ended.
func TestOrdersStayOpen(t *testing.T) {
	p := newPlace(t)
	_, exit := p.run(Overlay, `for i in $(seq 100); do readlink /proc/$PPID/fd/3 | grep -q pipe || exit 1; done`)
	testbed.Expect(t, exit == (Exit{}), "exit %+v: %s", exit, p.out.String())
}

// TestOfOthers: root changes files of other users, as it does without a view.
func TestOfOthers(t *testing.T) {
	testbed.SkipIf(t, os.Getuid() != 0, "only root has files of others")
	p := newPlace(t)
	for _, name := range []string{"", "a.txt", "dir", "dir/b.txt"} {
		if err := os.Lchown(filepath.Join(p.root, name), 1234, 1234); err != nil {
			t.Skip(err)
		}
	}
	v, exit := p.run(Overlay, `echo x >> a.txt; rm dir/b.txt; chmod 600 dir/c.txt`)
	got := list(t, v)
	testbed.Expect(t, exit == (Exit{}) && slices.Equal(got, []string{"file a.txt", "file dir/c.txt", "gone dir/b.txt"}), "exit %+v: %s %q", exit, p.out.String(), got)
}

// TestWithoutNamespaces: where user namespaces are not allowed, copies are still
// confined by Landlock, and no process outlives the command.
func TestWithoutNamespaces(t *testing.T) {
	if os.Getenv("RW_BARE") == "" {
		cmd := exec.Command("sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -test.v -test.run "^TestWithoutNamespaces$"`, os.Args[0])
		cmd.Env = append(os.Environ(), "RW_BARE=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: identity("/proc/self/uid_map", os.Getuid()), GidMappings: identity("/proc/self/gid_map", os.Getgid()),
		}
		testbed.SkipIf(t, os.Getuid() != 0, "only root forbids namespaces for a while")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		} else if bytes.Contains(out, []byte("SKIP")) {
			testbed.NotRun(t, string(out))
		}
		return
	}
	withoutMounts(t)
}

// TestWithoutMounts: the same where namespaces are allowed and nothing may be
// mounted in them.
func TestWithoutMounts(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := confine([]string{"/"}); err != nil {
		testbed.NotRun(t, err.Error())
	}
	withoutMounts(t)
}

func withoutMounts(t *testing.T) {
	p := newPlace(t)
	outside := filepath.Join(filepath.Dir(p.root), "outside")
	os.Mkdir(outside, 0o755)
	v, exit := p.run(Copy, fmt.Sprintf(`no() { if "$@" 2>/dev/null; then echo "allowed: $*"; fi; }
no touch %[1]s/new
no touch %[2]s/new
no sh -c 'echo x > %[2]s/a.txt'
no rm %[2]s/a.txt
no touch %[2]s/.git/x
grep -q %[2]s/.git .git || echo "no .git"
(trap '' HUP TERM; setsid sleep 34567.891) &
echo x >> a.txt; rm dir/b.txt; echo t > "$TMPDIR/t"`, outside, p.root))
	got := list(t, v)
	testbed.Expect(t, exit == (Exit{}) && p.out.Len() == 0 && v.bare && slices.Equal(got, []string{"file a.txt", "gone dir/b.txt"}), "exit %+v, bare %v: %s %q", exit, v.bare, p.out.String(), got)
	ctx, cancel := context.WithCancel(t.Context())
	r, w, _ := os.Pipe()
	go func() {
		r.Read(make([]byte, 1))
		cancel()
	}()
	v, exit, err := Run(ctx, Job{Root: p.root, Base: p.base, Only: Copy, Copy: true, Env: os.Environ(), Stdout: w,
		Argv: []string{"sh", "-c", "(trap '' HUP TERM; setsid sleep 34567.891) & echo; sleep 34567.891"}})
	testbed.Require(t, v != nil && exit.Code == 143, "%+v %v", exit, err)
	v.Remove()
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n > 0 || err == nil { // it ends when the last process does
		t.Error("a process is left")
	}
}

// TestUserNobody: who is not root has the same view.
func TestUserNobody(t *testing.T) {
	testbed.SkipIf(t, os.Getuid() != 0, "the other tests are not run by root")
	dir := testbed.Must(os.MkdirTemp("/tmp", "rw-other-"))(t)
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	program := filepath.Join(dir, "sandbox.test")
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	testbed.NoErr(t, err)
	cmd := exec.Command(program, "-test.v", "-test.run", "^(TestChanges|TestConfined|TestOutput)$")
	cmd.Dir, cmd.Env = "/tmp", []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=/tmp", "RW_CI_FULL="}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	testbed.Require(t, err == nil, "%v\n%s", err, out)
	if bytes.Contains(out, []byte("SKIP: TestChanges/overlayfs")) {
		testbed.NotRun(t, string(out))
	}
}

// typeText tries to type into a terminal, and to paste into a console, in both ways
// to write the number of the request, and says how that fails. Standard input is no
// terminal: the system refuses with another error.
func typeText() {
	for _, request := range []uintptr{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSTI | ^uintptr(0xffffffff), unix.TIOCGWINSZ} {
		text := [8]byte{'x'}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&text[0])))
		fmt.Print(errno.Error(), "; ")
	}
}

// TestTypesNothing: the shell of the user would run what a command types into the
// terminal.
func TestTypesNothing(t *testing.T) {
	for _, way := range []string{Overlay, Copy} {
		p := newPlace(t)
		_, exit := p.run(way, "exec '"+testbed.Must(os.Executable())(t)+"' type")
		no, other := unix.EPERM.Error()+"; ", unix.ENOTTY.Error()+"; "
		testbed.Expect(t, exit.Code == 0 && p.out.String() == no+no+no+other, "%s: %+v %q", way, exit, p.out.String())
	}
}
