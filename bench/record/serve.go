//go:build linux

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
	"unsafe"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"golang.org/x/sys/unix"
)

// A tool that is to be killed runs in a separate process: this program again,
// with armEnv set. It reads orders from stdin and writes the results to stdout.
const (
	armEnv   = "RECORD_ARM"
	dirEnv   = "RECORD_DIR"
	levelEnv = "RECORD_LEVEL"
)

// order is what the benchmark asks of a process.
type order struct {
	Do   string // call, race, watch, inspect
	Call call
	Race racer
}

// findings are the results of an inspection of a store.
type findings struct {
	Clean  bool
	Staged int
}

// job runs this process as a child, if it is one.
func job() (ran bool, err error) {
	if os.Getenv(armEnv) == "" {
		return false, nil
	}
	signal.Ignore(unix.SIGXFSZ) // a write over the limit is an error and does not end the process
	t, err := openArm(os.Getenv(armEnv), os.Getenv(dirEnv), os.Getenv(levelEnv))
	if err != nil {
		return true, err
	}
	return true, serve(t)
}

func serve(t tool) error {
	orders, answers := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	if err := answers.Encode("ready"); err != nil {
		return err
	}
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return closeTool(t)
		}
		if err != nil {
			return err
		}
		var answer any
		switch o.Do {
		case "watch":
			if err := watchMe(); err != nil {
				return err
			}
			answer = "watched"
		case "inspect":
			answer = inspect(t)
		case "race":
			answer = o.Race.run(t)
		default:
			answer = t.Call(context.Background(), o.Call)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func closeTool(t tool) error {
	if c, ok := t.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// inspect checks a store, deep, once everything is settled. For other tools
// there is nothing to check.
func inspect(t tool) findings {
	owner, ok := t.(interface{ checked() *rw.Store })
	if !ok {
		return findings{Clean: true}
	}
	for tries := 0; ; tries++ { // commits at level off settle later
		got, err := owner.checked().Check(context.Background(), admin.CheckRequest{Deep: true})
		if err != nil || got.Counters.Staged == 0 || tries == 1000 {
			return findings{Clean: err == nil && got.Clean, Staged: got.Counters.Staged}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// openArm opens a workspace with the tool of an arm.
func openArm(arm, dir, level string) (tool, error) {
	if make, ok := arms[arm]; ok {
		return make(dir, level)
	}
	return nil, fmt.Errorf("there is no arm %q", arm)
}

// arms are the tools that are compared. Tests add worse ones.
var arms = map[string]func(dir, level string) (tool, error){
	"naive":     func(dir, _ string) (tool, error) { return naiveTool(dir), nil },
	"defensive": func(dir, _ string) (tool, error) { return defensiveTool(dir), nil },
	"resilientwrite": func(dir, level string) (tool, error) {
		return openResilient(dir, rw.Options{Sync: rw.SyncLevel(level)})
	},
}

// isPlain reports whether an arm offers only the verbs of plain. The arms of
// the tests that are not stores are named after the plain arm that they modify.
func isPlain(arm string) bool {
	return strings.HasPrefix(arm, "naive") || strings.HasPrefix(arm, "defensive")
}

// armNames are the arms in the order of the tables.
var armNames = []string{"naive", "defensive", "resilientwrite"}

// watchMe makes every system call of this process that changes files wait for
// the permission of the benchmark: it installs a seccomp(2) filter and sends
// its listener over descriptor 3.
func watchMe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	code := filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	defer unix.Close(int(fd))
	return unix.Sendmsg(3, []byte{1}, unix.UnixRights(int(fd)), nil, 0)
}

// filter consults the listener about the system calls of onFile and onPath, and
// about openat(2) calls that create or truncate a file.
func filter() []unix.SockFilter {
	const (
		number = 0  // offset of the number in struct seccomp_data
		flags  = 32 // of the low half of the third argument, little endian
	)
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_CREAT | unix.O_TRUNC, Jt: uint8(len(watchedCalls()) + 2)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	list := watchedCalls()
	for i, nr := range list {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(list) - i)})
	}
	return append(code,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}
