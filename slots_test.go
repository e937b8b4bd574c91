package resilientwrite_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// slotDirs are the directories of slots at the top of a workspace.
func slotDirs(t *testing.T, fs *simfs.FS) (list []string) {
	t.Helper()
	names := must(fs.Foreign().Names())(t)
	for _, name := range names {
		if strings.HasPrefix(name, relpath.SlotsPrefix) {
			list = append(list, name)
		}
	}
	return list
}

// removeSlots removes a directory of slots, as git clean -fdx does.
func removeSlots(t *testing.T, fs *simfs.FS, name string) {
	t.Helper()
	root := fs.Foreign()
	dir := must(root.OpenDir(name))(t)
	names, err := dir.Names()
	for _, n := range names {
		err = errors.Join(err, dir.Remove(n))
	}
	noErr(t, errors.Join(err, root.Rmdir(name)))
}

// elsewhereStore makes a store whose state is on another file system, with the file
// a.txt.
func elsewhereStore(t *testing.T) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := openElsewhere(t, fs, "0001")
	write(t, s, "a.txt", "one", rw.ModeCreate)
	return fs, s
}

func openElsewhere(t *testing.T, fs *simfs.FS, nonce string) *rw.Store {
	t.Helper()
	s := must(rw.OpenSim(fs, &rw.Options{}, rw.Sim{Nonce: nonce, Mount: true}))(t)
	return s
}

// TestSlotsRemovedWhileOpen: a directory of slots that goes away under an open store
// is made again, under another name, and nothing is lost.
func TestSlotsRemovedWhileOpen(t *testing.T) {
	fs, s := elsewhereStore(t)
	before := slotDirs(t, fs)
	if len(before) != 1 || fs.Mode(before[0]) != 0o700 {
		t.Fatalf("directories of slots: %v", before)
	}
	if ignore, _ := fs.ReadFile(before[0] + "/.gitignore"); string(ignore) != "*\n" {
		t.Errorf(".gitignore holds %q", ignore)
	}
	removeSlots(t, fs, before[0])
	write(t, s, "a.txt", "two", rw.ModeOverwrite)
	write(t, s, "a.txt", "three", rw.ModeOverwrite)
	if after := slotDirs(t, fs); len(after) != 1 || after[0] == before[0] {
		t.Errorf("directories of slots: %v, before %v", after, before)
	}
	must(s.Undo(background, rw.UndoRequest{}))(t)
	if got, _ := fs.ReadFile("a.txt"); string(got) != "two" {
		t.Errorf("after the undo: %q", got)
	}
	check(t, s, true)
	noErr(t, s.Close(background))
}

// TestSlotsThatAreNotOurs: an entry of another program in the place of a directory of slots
// is not followed, not used and not changed.
func TestSlotsThatAreNotOurs(t *testing.T) {
	const other = 4711
	for what, plant := range map[string]func(fs *simfs.FS, name string){
		"a link":             func(fs *simfs.FS, name string) { fs.MkdirAll("trap"); fs.Symlink(name, "trap") },
		"a file":             func(fs *simfs.FS, name string) { fs.WriteFile(name, []byte("text"), 0o600) },
		"another user's":     func(fs *simfs.FS, name string) { fs.MkdirAll(name); fs.Own(name, other, 0o700) },
		"writable by others": func(fs *simfs.FS, name string) { fs.MkdirAll(name); fs.Own(name, 0, 0o777) },
		"ours, with entries": func(fs *simfs.FS, name string) {
			fs.WriteFile(name+"/witness-1", nil, 0o600)
			fs.WriteFile(name+"/abc-0-1", []byte("planted"), 0o600)
			fs.Own(name, 0, 0o700)
		},
	} {
		t.Run(what, func(t *testing.T) {
			fs, s := elsewhereStore(t)
			name := slotDirs(t, fs)[0]
			s.Close(background)
			removeSlots(t, fs, name)
			plant(fs, name)
			before := below(fs, name, "trap")
			s = openElsewhere(t, fs, "0002")
			write(t, s, "a.txt", "two", rw.ModeOverwrite)
			write(t, s, "a.txt", "three", rw.ModeOverwrite)
			s.Close(background)
			s = openElsewhere(t, fs, "0003")
			after := below(fs, name, "trap")
			if what == "ours, with entries" { // it had no witness, so another one took its place
				before = map[string]string{}
			}
			if !maps.Equal(before, after) {
				t.Errorf("what was there became %v, before %v", after, before)
			}
			if dirs := slotDirs(t, fs); dirs[len(dirs)-1] == name {
				t.Errorf("directories of slots: %v", dirs)
			}
			check(t, s, true)
		})
	}
}

// below returns the files of a disk under one of some names.
func below(fs *simfs.FS, names ...string) map[string]string {
	all := fs.Tree()
	maps.DeleteFunc(all, func(p, _ string) bool {
		top, _, _ := strings.Cut(p, "/")
		return !slices.Contains(names, top)
	})
	return all
}

// TestSlotsAreProtected: no path of a call leads into a directory of slots, in any
// spelling, and a scan does not see it.
func TestSlotsAreProtected(t *testing.T) {
	fs, s := elsewhereStore(t)
	name := slotDirs(t, fs)[0]
	fs.Symlink("way", name)
	root := fs.Foreign()
	if err := root.Rename(name, root, "renamed"); err != nil { // recognized by identity
		t.Fatal(err)
	}
	for _, p := range []string{
		name + "/x", strings.ToUpper(name) + "/x", name + ".", "d/" + name + "/x", relpath.SlotsPrefix + "other/x", relpath.SlotsPrefix, "way/x", "renamed/x",
		strings.Replace(name, "s", "ſ", 1) + "/x", ".rw\u200c" + name[3:] + "/x",
	} {
		for verb, call := range map[string]func() error{
			"write":  func() error { _, err := s.SafeWrite(background, put(p, "x", rw.ModeCreate)); return err },
			"move":   func() error { return move("a.txt", p, false)(s) },
			"delete": func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: p}); return err },
			"read":   func() error { _, err := s.Read(background, rw.ReadRequest{Path: p}); return err },
		} {
			isErr(t, call(), rw.ErrProtectedPath, verb, " ", p)
		}
	}
	noErr(t, root.Rename("renamed", root, name))
	fs.Remove("way")
	must(s.Scan(background, rw.ScanRequest{}))(t)
	fs.WriteFile(name+"/planted", []byte("x"), 0o600)
	r, err := s.Scan(background, rw.ScanRequest{Calls: []string{"c"}})
	if err != nil || r.Seq != 0 {
		t.Errorf("a scan records what is in a directory of slots: %+v %v", r, err)
	}
}

// TestTopThatCannotBeWritten: the slots of a user who cannot write at the top of a file
// system are in the nearest directory that can hold them.
func TestTopThatCannotBeWritten(t *testing.T) {
	fs := simfs.New()
	fs.MkdirAll("a/b")
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "mkdir" && (op.Path == "a" || strings.HasPrefix(op.Path, relpath.SlotsPrefix) || strings.HasPrefix(op.Path, "a/"+relpath.SlotsPrefix)) {
			return simfs.Fault{Err: syscall.EACCES}
		}
		return simfs.Fault{}
	})
	s := openElsewhere(t, fs, "0001")
	write(t, s, "a/b/c.txt", "one", rw.ModeCreate)
	write(t, s, "a/b/c.txt", "two", rw.ModeOverwrite)
	names := slices.Sorted(maps.Keys(below(fs, "a")))
	if len(names) != 7 || !strings.HasPrefix(names[2], "a/b/"+relpath.SlotsPrefix) {
		t.Errorf("found %v", names)
	}
	check(t, s, true)
}

// TestSlotsOfASecret: Erase leaves a secret in no directory of slots, also where
// another program has the file that was replaced open.
func TestSlotsOfASecret(t *testing.T) {
	fs, s := elsewhereStore(t)
	secret := strings.Join([]string{"a word", "nobody may read"}, " ")
	write(t, s, "a.txt", secret, rw.ModeOverwrite)
	f := must(fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0))(t)
	write(t, s, "a.txt", "harmless", rw.ModeOverwrite)
	f.Close()
	must(s.Admin().Erase(background, rw.EraseRequest{Secret: []byte(secret)}))(t)
	for p, text := range fs.Tree() {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds the secret", p)
		}
	}
	check(t, s, true)
}
