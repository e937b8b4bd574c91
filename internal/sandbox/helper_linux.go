package sandbox

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// helperName is the name under which a program is started as the helper, with one
// of two arguments.
const (
	helperName   = "resilient-write-exec-helper"
	stageView    = "view"
	stageCommand = "command"
)

// The descriptors of the helper besides the standard ones.
const (
	orderFD  = 3 // the order, then nothing until the other process ends
	reportFD = 4 // lines of report
)

// order is the view that the helper makes.
type order struct {
	Root, Dir, View, Way string
	Bare                 bool // there are no namespaces: the view stays where it is
	Closed, Writable     []string

	view string // where the command sees it
}

// command is the command that the helper runs.
type command struct{ Argv, Env []string }

// report is one line of the helper.
type report struct {
	Missing string `json:"missing,omitempty"` // the isolation could not be made or proved
	Ready   bool   `json:"ready,omitempty"`   // it was: a command may follow the order
	Exit    *Exit  `json:"exit,omitempty"`
}

// Main is the entry point of the helper. If this process was not started as the helper,
// Main returns immediately; otherwise it never returns. A program whose Store runs
// commands must call it first.
//
// The helper makes the view, confines the single thread that does so, and executes
// itself again from that thread. The process that runs the command thus has the rights
// of the command in all its threads.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != helperName {
		return
	}
	// One file for each descriptor: the collector closes that of a file which nothing refers to.
	orders := os.NewFile(orderFD, "order")
	out, in := json.NewEncoder(os.NewFile(reportFD, "report")), gob.NewDecoder(orders)
	if os.Args[1] == stageView {
		var o order
		err := in.Decode(&o)
		if err == nil {
			err = o.isolate()
		}
		if err == nil {
			unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
			err = unix.Exec("/proc/self/exe", []string{helperName, stageCommand}, os.Environ())
		}
		out.Encode(report{Missing: err.Error()})
		os.Exit(1)
	}
	unix.CloseOnExec(orderFD)
	unix.CloseOnExec(reportFD)
	var c command
	out.Encode(report{Ready: true})
	if err := in.Decode(&c); err != nil {
		os.Exit(1)
	}
	go func() { // the other process holds the pipe as long as it lives
		io.Copy(io.Discard, orders)
		killAll()
		os.Exit(1)
	}()
	exit := c.run()
	killAll()
	out.Encode(report{Exit: &exit})
	os.Exit(0)
}

// isolate mounts the view over the workspace, makes everything else read-only,
// and tries whether that is so.
func (o *order) isolate() error {
	runtime.LockOSThread()                       // Landlock holds for a thread and what it starts
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // gives /proc/self to this user
	o.view = o.Root
	if o.Bare {
		o.view = filepath.Join(o.View, upperName)
	}
	lower, err := unix.Open(o.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer unix.Close(lower)
	open := append([]string{filepath.Join(o.View, tmpName), filepath.Join(o.View, probeName)}, o.Writable...)
	if !o.Bare {
		if err := o.mounts(lower, open); err != nil {
			return err
		}
	} else if landlockVersion() < 3 {
		return errors.New("without user namespaces, Landlock of Linux 6.2 is needed")
	}
	if err := os.Chdir(filepath.Join(o.view, o.Dir)); err != nil {
		return fmt.Errorf("the working directory: %w", errors.Unwrap(err))
	}
	writable := append([]string{o.view, filepath.Join(o.View, tmpName), "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/proc/self/fd/1", "/proc/self/fd/2"}, o.Writable...)
	if !o.Bare && !slices.ContainsFunc(append(open, o.Root), func(p string) bool { return relpath.Contains(shared, p) }) && unix.Mount("tmpfs", shared, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777") == nil {
		writable = append(writable, shared)
	}
	if err := confine(writable); err != nil {
		return err
	}
	return o.probe(lower)
}

// shared is memory that processes share. The namespace has its own, unless the
// workspace is there.
const shared = "/dev/shm"

// noMounts is what is missing if nothing may be mounted: it is the first of all mounts.
const noMounts = "private mounts"

// mounts mounts the view over the workspace and makes everything else read-only except
// the open paths.
func (o *order) mounts(lower int, open []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%s: %w", noMounts, err)
	}
	closed, err := clones(o.Closed)
	if err != nil {
		return err
	}
	if o.Way == FuseOverlay { // its daemon writes there as any other process
		open = append([]string{o.View}, open...)
	}
	for _, p := range open {
		if err := bind(p, p); err != nil {
			return err
		}
	}
	if err := o.mount(lower); err != nil {
		return err
	}
	if err := closeRest(append(open, o.Root), o.Closed, closed); err != nil {
		return err
	}
	unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") // it goes without
	return nil
}

// mount makes the view and puts it over the workspace.
func (o *order) mount(lower int) error {
	upper, work := filepath.Join(o.View, upperName), filepath.Join(o.View, workName)
	if o.Way == Reflink || o.Way == Copy {
		return bind(upper, o.Root)
	}
	// Descriptors need no quotes, whatever characters the paths contain.
	args := fmt.Sprintf("lowerdir=/proc/self/fd/%d", lower)
	for _, dir := range []struct{ option, path string }{{"upperdir", upper}, {"workdir", work}} {
		fd, err := unix.Open(dir.path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		args += fmt.Sprintf(",%s=/proc/self/fd/%d", dir.option, fd)
	}
	if o.Way == Overlay {
		if err := unix.Mount("overlay", o.Root, "overlay", 0, args+",userxattr"); err != nil {
			return fmt.Errorf("mounting: %w", err)
		}
		return nil
	}
	program, err := exec.LookPath("fuse-overlayfs")
	if err != nil {
		return errors.New("the program fuse-overlayfs is not installed")
	}
	fuse := exec.Command(program, "-o", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", o.Root, upper, work), o.Root)
	if text, err := fuse.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.200s", err, text)
	}
	return nil
}

// clones returns the mounts of some paths in their current state, to be mounted over
// the view.
func clones(paths []string) (fds []int, err error) {
	for _, p := range paths {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return nil, fmt.Errorf("open_tree: %w", err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// closeRest makes every mount read-only except the open ones; over the closed
// paths it puts their clones.
func closeRest(open, closed []string, clones []int) error {
	for i, p := range closed {
		if err := unix.MoveMount(clones[i], "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("move_mount: %w", err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only mounts: %w", err)
	}
	for _, p := range open {
		if err := unix.MountSetattr(unix.AT_FDCWD, p, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("writable mounts: %w", err)
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind mount: %w", err)
	}
	return nil
}

// probe proves the isolation: a file that is made in the view is in the upper
// directory and not in the workspace, nothing is made in a place that is not
// allowed, although its mount is writable, and none in those that are closed.
func (o *order) probe(lower int) error {
	name := fmt.Sprintf(".rw-probe-%d", os.Getpid()) + filepath.Base(o.View)
	inside := filepath.Join(o.view, name)
	if err := os.WriteFile(inside, []byte("probe"), 0o600); err != nil {
		return fmt.Errorf("the probe could not write to the view: %w", errors.Unwrap(err))
	}
	var st unix.Stat_t
	if unix.Fstatat(lower, name, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT {
		return errors.New("the probe saw its file in the workspace")
	}
	if unix.Lstat(filepath.Join(o.View, upperName, name), &st) != nil {
		return errors.New("the probe did not see its file in the upper directory")
	}
	if err := os.Remove(inside); err != nil {
		return fmt.Errorf("the probe could not remove from the view: %w", errors.Unwrap(err))
	}
	err := os.WriteFile(filepath.Join(o.View, probeName, name), nil, 0o600)
	if !errors.Is(err, unix.EACCES) {
		return errors.New("landlock did not refuse a write outside of the view")
	}
	if o.Bare && !errors.Is(os.WriteFile(filepath.Join(o.Root, name), nil, 0o600), unix.EACCES) {
		return errors.New("landlock did not refuse a write to the workspace")
	}
	for _, p := range o.Closed {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			p = filepath.Join(p, name)
		}
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
			os.Remove(filepath.Join(p, name))
			return errors.New("the probe could write to what is read-only")
		}
	}
	return nil
}

// run runs the command and waits for it; as the first process of its namespace it
// also waits for all other children.
func (c *command) run() Exit {
	os.Clearenv()
	for _, v := range c.Env {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" {
			os.Setenv(name, value)
		}
	}
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // as the first process of a namespace is
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return Exit{Error: errors.Unwrap(err).Error()}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP)
	pid, err := syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return Exit{Error: err.Error()}
	}
	go func() {
		for s := range signals { // the terminal sends the other two to both
			if s == unix.SIGTERM || s == unix.SIGHUP {
				unix.Kill(pid, s.(unix.Signal))
			}
		}
	}()
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return Exit{Error: err.Error()}
		case got != pid:
		case ws.Signaled():
			return Exit{Code: 128 + int(ws.Signal())}
		default:
			return Exit{Code: ws.ExitStatus()}
		}
	}
}

// killAll ends all processes below this one: those whose parents end become its
// children. The first process of a namespace only has to end itself.
func killAll() {
	for own := os.Getpid(); own != 1; {
		found := false
		names, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range names {
			text, _ := os.ReadFile(name)
			var pid, parent int
			var state string
			_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
			fmt.Sscan(rest, &state, &parent)
			fmt.Sscan(filepath.Base(filepath.Dir(name)), &pid)
			if parent == own && state != "Z" {
				found = true
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		if !found {
			return
		}
		for { // the dead make room for their children
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid == 0 {
				break
			}
		}
	}
}
