package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSnapshotRoundTrip: a snapshot is compared and restored byte for byte and
// mode for mode, whichever program changed the files since, with and without a
// repository. The restore is undone as one commit, and changes only what
// differs.
func TestSnapshotRoundTrip(t *testing.T) {
	for _, git := range []bool{true, false} {
		t.Run(fmt.Sprint("git=", git), func(t *testing.T) {
			t.Parallel()
			a := newAround(t)
			a.sh(`printf 'alpha\n' > a.txt; mkdir dir; printf 'b\n' > dir/b.txt; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; echo same > same.txt; : > void`)
			if git {
				a.sh("git init -q; git add .; git commit -qm x")
			}
			a.sh("printf 'dirty\\n' >> dir/b.txt; echo loose > loose.txt")
			before := a.files()
			snap := a.rw(0, "snapshot", "--label", "before")
			if git != (snap["from_git"].(float64) > 0) || git != (snap["base_commit"] != nil) {
				t.Fatal(snap)
			}
			id := snap["id"].(string)
			a.rw(0, "write", "mine.txt", "--from", filepath.Join(a.dir, "a.txt"))
			a.sh("sed -i s/alpha/ALPHA/ a.txt; rm dir/b.txt void; chmod -x run.sh; echo new > new.txt; rm loose.txt")
			a.rw(0, "changes", "--call", "c1")
			after := a.files()
			diff := a.rw(0, "snapshot", "diff", id)
			if diff["created"] != 2.0 || diff["deleted"] != 3.0 || diff["changed"] != 2.0 {
				t.Fatal(diff)
			}
			st, _ := os.Stat(filepath.Join(a.dir, "same.txt"))
			a.rw(0, "snapshot", "restore", id, "--dry-run")
			if d := differing(after, a.files()); len(d) > 0 {
				t.Fatal("the dry run changed ", d)
			}
			restored := a.rw(0, "snapshot", "restore", id)
			if d := differing(before, a.files()); len(d) > 0 || len(restored["results"].([]any)) != 7 {
				t.Fatal(d, restored["results"])
			}
			if now, _ := os.Stat(filepath.Join(a.dir, "same.txt")); !os.SameFile(st, now) {
				t.Error("a file that is the same was replaced")
			}
			if again := a.rw(0, "snapshot", "restore", id); again["status"] != "unchanged" {
				t.Error(again)
			}
			a.rw(0, "undo", "--caller", "operator")
			if d := differing(after, a.files()); len(d) > 0 {
				t.Fatal("not undone: ", d)
			}
			if list := a.rw(0, "snapshot", "list")["snapshots"].([]any); len(list) != 1 {
				t.Fatal(list)
			}
		})
	}
}

// TestSnapshotKeepsLaterEdits: a file that a person changed since is named and
// not replaced unless the call forces it; then history keeps it.
func TestSnapshotKeepsLaterEdits(t *testing.T) {
	a := newAround(t)
	a.sh("echo one > a.txt; echo one > b.txt")
	id := a.rw(0, "snapshot")["id"].(string)
	a.sh("echo two > a.txt")
	a.rw(0, "changes", "--call", "c1")
	a.sh("echo mine > b.txt")
	edited := a.files()
	a.rw(6, "snapshot", "restore", id)
	if d := differing(edited, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
	a.rw(0, "snapshot", "restore", id, "--force")
	if got := a.files(); got["b.txt"] != "-rw-r--r-- one\n" || got["a.txt"] != "-rw-r--r-- one\n" {
		t.Fatal(got)
	}
	a.rw(0, "undo", "--caller", "operator")
	if d := differing(edited, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
	a.rw(4, "snapshot", "restore", "snap_none")
	a.rw(4, "snapshot", "diff", "../../x")
}

// TestSnapshotWhoseCommitIsGone: bytes that only git had and has collected are
// reported as such, and nothing is restored.
func TestSnapshotWhoseCommitIsGone(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q; echo one > a.txt; echo b > b.txt; git add .; git commit -qm x")
	id := a.rw(0, "snapshot")["id"].(string)
	a.sh("echo two > a.txt; rm -rf .git; git init -q")
	after := a.files()
	cmd := a.rw(0, "snapshot", "diff", id)
	if cmd["changed"] != 1.0 {
		t.Fatal(cmd)
	}
	out := a.fails("snapshot", "restore", id, "--force")
	if !strings.Contains(out, `"base_gone":true`) || !strings.Contains(out, "a.txt") {
		t.Fatal(out)
	}
	if d := differing(after, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
}
