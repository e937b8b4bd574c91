package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// damaged is a store with four damages: a lost cache, a stray file, a changed
// object of the scratchpad and a row that was changed.
func damaged(t *testing.T) shell {
	t.Helper()
	s := newShell(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		s.with(name).ok("write", name)
	}
	r := s.with("raw material").ok("scratch", "put")
	sha := r.doc["sha256"].(string)
	state := filepath.Join(s.dir, ".resilient_write")
	for name, text := range map[string]string{"meta.json": "{", "history/notes.txt": "stray", "scratch/" + sha + ".bin": "damage"} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// changeRow changes one row of the journal behind the store's back.
func (s shell) changeRow(from, to string) {
	s.t.Helper()
	segments, _ := filepath.Glob(filepath.Join(s.dir, ".resilient_write", "journal", "*.jsonl"))
	for _, name := range segments {
		data, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.Contains(string(data), from) {
			if err := os.WriteFile(name, []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
	s.t.Fatalf("no row holds %s", from)
}

// TestRepairMends: what check names is put right, nothing is deleted, and the
// code says when something is left.
func TestRepairMends(t *testing.T) {
	s := damaged(t)
	if r := s.run("check", "--deep"); r.code != rw.CodeStorage || r.doc["clean"] != false {
		t.Fatalf("code %d: %s", r.code, r.out)
	}
	before := everyFile(t, s.dir)
	if r := s.ok("check", "--repair", "--dry-run"); r.doc["status"] != "succeeded" {
		t.Errorf("%s", r.out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, ".resilient_write", "history", "notes.txt")); err != nil {
		t.Errorf("a dry run moved it: %v", err)
	}
	r, got := s.resultOf("check", "--repair", "--caller", "night job")
	if r.code != rw.CodeOK || r.doc["clean"] != true || got.status() != "succeeded" || !strings.Contains(r.out, `"set_aside"`) {
		t.Errorf("code %d: %s", r.code, r.out)
	}
	kept := map[string]bool{}
	for _, text := range everyFile(t, s.dir) {
		kept[text[len(text)-min(64, len(text)):]] = true
	}
	for name, text := range before {
		if part := filepath.Base(filepath.Dir(name)); (part == "history" || part == "scratch") && strings.Contains(filepath.Base(name), ".") && filepath.Ext(name) != ".jsonl" && !kept[text[len(text)-64:]] {
			t.Errorf("the bytes of %s are gone", filepath.Base(name))
		}
	}
	s.clean()
	if r := s.ok("check", "--repair"); r.doc["status"] != "unchanged" {
		t.Errorf("again: %s", r.out)
	}
}

// TestRepairForPeople: a person reads tables of the problems, of what was done
// and of what is left, each with its code.
func TestRepairForPeople(t *testing.T) {
	s := damaged(t)
	s.with("y\n").ok("write", "d.txt")
	if err := os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	asPerson(t)
	s.extra = []string{"--color", "never"}
	for _, row := range []struct {
		args string
		code rw.Code
		want []string
	}{
		{"check --deep", rw.CodeStorage, []string{"PROBLEM", "DETAIL", "unknown_file", "history/notes.txt", "scratch_damaged", "file_differs", "problems; check --repair --dry-run"}},
		{"check --repair --dry-run", rw.CodeStorage, []string{"WOULD BE", "set aside", "unknown_file", "LEFT", "WHY", "file_differs"}},
		{"check --repair", rw.CodeStorage, []string{"DID", "set aside", "scratch_damaged", "LEFT", "a.txt", "repaired, 1 left"}},
		{"restore a.txt --version 1", 0, nil},
	} {
		r := s.run(strings.Fields(row.args)...)
		if row.want == nil {
			continue
		}
		if r.code != row.code || strings.HasPrefix(r.out, "{") {
			t.Errorf("%s: code %d: %s", row.args, r.code, r.out)
		}
		for _, want := range row.want {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s: no %q in\n%s", row.args, want, r.out)
			}
		}
	}
}
