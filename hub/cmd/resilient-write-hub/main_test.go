package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestCommand runs two directories and a hub with the command alone, and checks
// what each call prints, and its code.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	key := filepath.Join(dir, "hub.key")
	os.Mkdir(one, 0o755)
	write := func(root, path, text string) {
		t.Helper()
		s, err := rw.Open(t.Context(), root, &rw.Options{StateDir: ".resilient_write"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		if _, err := s.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite}); err != nil {
			t.Fatal(err)
		}
	}
	write(one, "a.txt", "one\n")
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
		{args: "HUB resume t --root TWO --into TWO", code: rw.CodeNotFound, want: `"error":"hub_not_found"`},
		{args: "HUB ship --root ONE", want: `"rows":1`},
		{args: "HUB ship --root ONE --task t", want: `"uploaded":1`},
		{args: "HUB resume t --into TWO", code: rw.CodePrecondition, want: `"error":"hub_leased"`},
		{args: "HUB resume t --into TWO --force", want: `"epoch":2`},
		{before: func() { write(one, "a.txt", "late\n") }, args: "HUB ship --root ONE", code: rw.CodePrecondition, want: `"error":"hub_fenced"`},
		{args: "HUB status --root ONE", want: `"lost_task":"t"`},
		{before: func() { write(two, "b.txt", secret+"\n") }, args: "HUB ship --root TWO --task t", want: `"published":{"task":"t","epoch":2`},
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
