package sandbox

import (
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// grace is the time that a command has to end after SIGTERM.
const grace = 3 * time.Second

// helper is a started helper.
type helper struct {
	cmd     *exec.Cmd
	orders  *os.File // when it is closed, the helper and all others end
	reports *os.File
}

// start starts the helper in namespaces of its own, or in those of this process.
func start(ctx context.Context, j Job, apart bool) (*helper, error) {
	received, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer received.Close()
	reports, answer, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer answer.Close()
	h := &helper{exec.CommandContext(ctx, cmp.Or(j.Helper, "/proc/self/exe")), orders, reports}
	cmd := h.cmd
	cmd.Args, cmd.Env, cmd.Dir = []string{helperName, stageView}, []string{"PATH=" + os.Getenv("PATH")}, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = j.Stdin, j.Stdout, j.Stderr
	cmd.ExtraFiles = []*os.File{received, answer}
	cmd.WaitDelay = 2 * grace
	cmd.Cancel = func() error {
		time.AfterFunc(grace, func() { orders.Close() })
		return cmd.Process.Signal(unix.SIGTERM)
	}
	if apart {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
			UidMappings: identity("/proc/self/uid_map", os.Getuid()),
			GidMappings: identity("/proc/self/gid_map", os.Getgid()),
			// What overlayfs does, it does with the rights of the helper.
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID},

			GidMappingsEnableSetgroups: os.Getuid() == 0,
		}
	}
	if err := cmd.Start(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *helper) close() {
	h.orders.Close()
	h.reports.Close()
}

// run starts the helper, which makes the view and starts the command. started
// reports whether it came to that.
func (v *View) run(ctx context.Context, j Job) (exit Exit, started bool, err error) {
	if mountsBelow(j.Root) {
		return exit, false, &missingError{what: "another file system is mounted in the workspace, which the view would not show", always: true}
	}
	h, err := start(ctx, j, !v.bare)
	if err != nil && !v.bare {
		return exit, false, &missingError{what: "user namespaces are not allowed here (" + plain(err) + ")", mounts: true}
	}
	if err != nil {
		return exit, false, err
	}
	defer h.close()
	if v.Way == Reflink || v.Way == Copy {
		if err := v.copyTree(j); err != nil {
			h.close()
			h.cmd.Wait()
			return exit, false, err
		}
	}
	tmp := filepath.Join(v.Dir, tmpName)
	env := append(j.Env[:len(j.Env):len(j.Env)], "TMPDIR="+tmp, "TMP="+tmp, "TEMP="+tmp)
	send := func(order any) { gob.NewEncoder(h.orders).Encode(order) } // each to a process of its own, and byte by byte
	send(order{Root: j.Root, Dir: j.Dir, View: v.Dir, Way: v.Way, Bare: v.bare, Closed: j.Closed, Writable: j.Writable})
	var last report
	for lines := json.NewDecoder(h.reports); lines.Decode(&last) == nil; {
		if last.Ready && !started {
			started = true
			send(command{j.Argv, env})
		}
	}
	werr := h.cmd.Wait()
	switch {
	case last.Exit != nil:
		return *last.Exit, true, nil
	case ctx.Err() != nil:
		return Exit{Code: 128 + int(unix.SIGKILL)}, started, ctx.Err()
	case last.Missing != "":
		return exit, false, &missingError{what: last.Missing, mounts: strings.HasPrefix(last.Missing, noMounts)}
	case !started:
		return exit, false, &missingError{what: "the helper did not start (" + plain(cmp.Or(werr, io.ErrUnexpectedEOF)) + ")"}
	}
	return exit, true, errors.New("the process that ran the command was killed")
}

// identity maps every id to itself: for root all ids that this process can map, for
// other users only their own, because more is not allowed.
func identity(file string, own int) (list []syscall.SysProcIDMap) {
	data, err := os.ReadFile(file)
	if os.Getuid() != 0 || err != nil {
		return []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}
	}
	for line := range strings.Lines(string(data)) {
		var from, to, size int
		if n, _ := fmt.Sscan(line, &from, &to, &size); n == 3 {
			list = append(list, syscall.SysProcIDMap{ContainerID: from, HostID: from, Size: size})
		}
	}
	return list
}

// plain is an error without a path.
func plain(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// mountsBelow reports whether something is mounted below a directory.
func mountsBelow(root string) bool {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	unquote := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 {
			if p := unquote.Replace(f[4]); p != root && relpath.Contains(root, p) {
				return true
			}
		}
	}
	return false
}

// lockFile opens a file and locks it until it is closed or the process ends.
func lockFile(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("flock: %w", err)
		}
	}
}
