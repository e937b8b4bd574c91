package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hub"
)

// write writes a file through a store.
func write(t *testing.T, root, path, text string) {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := rw.Open(t.Context(), root, &rw.Options{StateDir: ".resilient_write"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if _, err := s.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite}); err != nil {
		t.Fatal(err)
	}
}

// TestCommand runs two directories and a hub with the command alone, and checks
// what each call prints, and its code.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	key := filepath.Join(dir, "hub.key")
	write(t, one, "a.txt", "one\n")
	env := func(name string) string {
		return map[string]string{"RW_STATE_DIR": ".resilient_write"}[name]
	}
	secret := "the name of the " + "customer"
	for _, c := range []struct {
		before func()
		args   string
		code   rw.Code
		want   string // in the reply
	}{
		{args: "status", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "HUB nonsense", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "HUB ship --every", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "HUB ship --root ONE --task t --lease -1s", code: rw.CodeUsage, want: `--lease is too short`},
		{args: "HUB resume t --into TWO --lease 10ms", code: rw.CodeUsage, want: `--lease is too short`},
		{args: "HUB resume t --root TWO --into TWO", code: rw.CodeNotFound, want: `"error":"hub_not_found"`},
		{args: "HUB ship --root ONE", want: `"rows":1`},
		{args: "HUB ship --root ONE --task t", want: `"uploaded":1`},
		{args: "HUB resume t --into TWO", code: rw.CodePrecondition, want: `"error":"hub_leased"`},
		{args: "HUB resume t --into TWO --force", want: `"epoch":2`},
		{before: func() { write(t, one, "a.txt", "late\n") }, args: "HUB ship --root ONE", code: rw.CodePrecondition, want: `"error":"hub_fenced"`},
		{args: "HUB status --root ONE", want: `"lost_task":"t"`},
		{before: func() { write(t, two, "b.txt", secret+"\n") }, args: "HUB ship --root TWO --task t", want: `"published":{"task":"t","epoch":2`},
		{args: "HUB verify", want: `"problems":[]`},
		{args: "HUB erase --root TWO --secret-stdin", want: `"tasks":["t"]`},
		{args: "HUB gc", want: `"deleted":0`},
		{args: "HUB verify", want: `"problems":[]`},
		{args: "HUB ship --root ONE --restart --task u", want: `"task":"u"`},
		{before: func() { os.WriteFile(filepath.Join(dir, "hub", "tasks", "t", "head.json"), []byte("null"), 0o600) }, args: "HUB status", code: rw.CodeStorage, want: `{"code":"hub_damaged","key":"tasks/t/head.json"`},
		{args: "HUB status", code: rw.CodeStorage, want: `"task":"u"`},
		{before: func() { os.RemoveAll(filepath.Join(dir, "hub", "objects")) }, args: "HUB verify", code: rw.CodeStorage, want: `"code":"hub_not_found"`},
		{args: "HUB resume u --into THREE --force", code: rw.CodeNotFound, want: `"error":"hub_not_found"`},
		{args: "keygen KEY", want: `"recipient":"age1`},
		{args: "keygen KEY", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "SECRET ship --root TWO --recipient nonsense", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "--hub ENCRYPTED ship --root TWO --recipient age1", code: rw.CodeUsage, want: `"error":"usage"`},
		{args: "HUB verify --identity KEY", code: rw.CodePermission, want: `"error":"hub_locked"`},
		{args: "SECRET ship --root TWO --restart --task t", want: `"uploaded":2`},
		{args: "SECRET resume t --into FOUR --force", want: `"written":2`},
		{args: "--hub ENCRYPTED verify", code: rw.CodePermission, want: `"error":"hub_locked"`},
		{args: "SECRET verify", want: `"problems":[]`},
		{args: "--hub s3://no_bucket verify", code: rw.CodeStorage, want: `"error":"hub_unusable"`},
	} {
		if c.before != nil {
			c.before()
		}
		line := strings.NewReplacer("SECRET", "--identity "+key+" --hub "+filepath.Join(dir, "encrypted"), "ENCRYPTED", filepath.Join(dir, "encrypted"), "KEY", key, "FOUR", filepath.Join(dir, "four"), "HUB", "--hub "+filepath.Join(dir, "hub"), "ONE", one, "TWO", two, "THREE", filepath.Join(dir, "three")).Replace(c.args)
		var out, errs bytes.Buffer
		code := run(strings.Fields(line), env, strings.NewReader(secret+"\n"), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.want) || !json.Valid(out.Bytes()) || (code != 0) != (errs.Len() > 0) {
			t.Errorf("%s: %d\n%s%s", c.args, code, out.String(), errs.String())
		}
		if strings.Contains(out.String()+errs.String(), dir) {
			t.Errorf("%s: the reply holds a path of the machine", c.args)
		}
	}
	if data, err := os.ReadFile(filepath.Join(two, "a.txt")); err != nil || string(data) != "one\n" {
		t.Errorf("%v %q", err, data)
	}
}

// TestStatusForPeople: status prints a line for each store and task, and one if the hub has none.
func TestStatusForPeople(t *testing.T) {
	stores := []hub.Head{{Store: "s", Seq: 1}}
	for _, c := range []struct {
		status hub.Status
		want   string
	}{
		{hub.Status{}, "the hub has no stores and no tasks\n"},
		{hub.Status{Stores: stores}, "store s    1 row  Z\n"},
	} {
		var out strings.Builder
		(&app{out: &out}).showStatus(statusReply{Status: c.status})
		if out.String() != c.want {
			t.Errorf("%q, not %q", out.String(), c.want)
		}
	}
}

// TestMain runs the command instead of the tests in the processes that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv("RW_HUB_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestHangup: a hangup ends the command as SIGTERM does, and one that the parent ignores,
// as nohup does, stays ignored.
func TestHangup(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no such signal on Windows")
	}
	for _, c := range []struct {
		shell   string
		signals []syscall.Signal
	}{
		{`exec "$0" "$@"`, []syscall.Signal{syscall.SIGHUP}},
		{`exec "$0" "$@"`, []syscall.Signal{syscall.SIGTERM}},
		{`trap "" HUP; exec "$0" "$@"`, []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}},
	} {
		if signal.Ignored(syscall.SIGHUP) && c.signals[0] == syscall.SIGHUP && len(c.signals) == 1 {
			continue // by nohup
		}
		dir := t.TempDir()
		cmd := exec.Command("sh", "-c", c.shell, os.Args[0], "ship", "--follow", "--every", "100ms", "--hub", filepath.Join(dir, "hub"), "--root", filepath.Join(dir, "w"))
		cmd.Env = append(os.Environ(), "RW_HUB_TEST_COMMAND=1", "RW_STATE_DIR=.resilient_write")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		write(t, filepath.Join(dir, "w"), "a.txt", "one")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		lines := bufio.NewReader(out)
		for i, sig := range c.signals {
			if i > 0 { // the process ships this although it got a signal
				write(t, filepath.Join(dir, "w"), "b.txt", "two")
			}
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"rows":`) {
				t.Fatalf("%v, signal %d: %v %q %s", c, i, err, line, &errs)
			}
			cmd.Process.Signal(sig)
		}
		rest, _ := io.ReadAll(lines)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != int(rw.CodeOK) || errs.Len() > 0 {
			t.Errorf("%v: %d %s %s", c, code, rest, &errs)
		}
	}
}
