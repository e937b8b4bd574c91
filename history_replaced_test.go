package resilientwrite_test

import (
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// moveOver moves a file or a directory over an existing one.
func moveOver(t *testing.T, s *rw.Store, path, to string) {
	t.Helper()
	must(s.Move(background, rw.MoveRequest{Path: path, To: to, Overwrite: true}))(t)
}

// replacing are ways in which several files have the same path over time. The history
// is the expected one: row, path, origin, content.
var replacing = []struct {
	name string
	run  func(t *testing.T, s *rw.Store)
	want string
}{
	{"a move over a file", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		write(t, s, "tmp", "t1", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
	}, "3 real<tmp t1, 2 tmp t1, 1 real r1"},
	{"a move over a move over a deletion", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		deleted(t, s, "real")
		write(t, s, "t1", "one", rw.ModeCreate)
		renamed(t, s, "t1", "real")
		write(t, s, "t2", "two", rw.ModeCreate)
		write(t, s, "t2", "+", rw.ModeAppend)
		moveOver(t, s, "t2", "real")
		deleted(t, s, "real")
		write(t, s, "real", "r2", rw.ModeCreate)
	}, "9 real r2, 8 real -, 7 real<t2 two+, 6 t2 two+, 5 t2 two, 4 real<t1 one, 3 t1 one, 2 real -, 1 real r1"},
	{"saves by way of one name", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r0", rw.ModeCreate)
		for i := 1; i <= 3; i++ {
			write(t, s, "tmp", fmt.Sprint("v", i), rw.ModeCreate)
			moveOver(t, s, "tmp", "real")
		}
	}, "7 real<tmp v3, 6 tmp v3, 5 real<tmp v2, 4 tmp v2, 3 real<tmp v1, 2 tmp v1, 1 real r0"},
	{"another file that had the name before went elsewhere", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "another", rw.ModeCreate)
		renamed(t, s, "tmp", "elsewhere")
		write(t, s, "tmp", "t1", rw.ModeCreate)
		write(t, s, "real", "r1", rw.ModeCreate)
		write(t, s, "real", "+", rw.ModeAppend)
		moveOver(t, s, "tmp", "real")
	}, "6 real<tmp t1, 5 real r1+, 4 real r1, 3 tmp t1"},
	{"the first one went elsewhere", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		renamed(t, s, "real", "old")
		write(t, s, "old", "+", rw.ModeAppend)
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "real")
	}, "5 real<tmp t1, 4 tmp t1, 2 real -, 1 real r1"},
	{"to and fro", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "real")
		renamed(t, s, "real", "tmp")
		write(t, s, "tmp", "+", rw.ModeAppend)
		renamed(t, s, "tmp", "real")
	}, "5 real<tmp t1+, 4 tmp t1+, 3 tmp<real t1, 2 real<tmp t1, 1 tmp t1"},
	{"what went elsewhere was put back", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "elsewhere")
		undone(t, s, 1)
		renamed(t, s, "tmp", "real")
	}, "4 real<tmp t1, 3 tmp t1, 1 tmp t1"},
	{"two files that one commit wrote", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		noErr(t, transact(s, rw.TxOp{Op: "write", Path: "tmp", Content: []byte("t2"), Mode: rw.ModeOverwrite}, rw.TxOp{Op: "write", Path: "real", Content: []byte("r2")}))
		moveOver(t, s, "tmp", "real")
	}, "3 real<tmp t2, 2 real r2, 2 tmp t2, 1 tmp t1"},
	{"a deletion in the commit that wrote what came", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		noErr(t, transact(s, rw.TxOp{Op: "write", Path: "tmp", Content: []byte("t2")}, rw.TxOp{Op: "delete", Path: "real"}))
		renamed(t, s, "tmp", "real")
	}, "3 real<tmp t2, 2 real -, 2 tmp t2, 1 real r1"},
	{"what came had replaced another file where it was", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "not of this file", rw.ModeCreate)
		write(t, s, "first", "f1", rw.ModeCreate)
		moveOver(t, s, "first", "tmp")
		write(t, s, "real", "r1", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
	}, "5 real<tmp f1, 4 real r1, 3 tmp<first f1, 2 first f1"},
	{"over a copy of itself", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "same", rw.ModeCreate)
		write(t, s, "tmp", "same", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
		write(t, s, "real", "+", rw.ModeAppend)
	}, "4 real same+, 3 real<tmp same, 2 tmp same, 1 real same"},
}

// TestReplacedFilesKeepTheirVersions: all files that were at a path are listed, newest
// first, and every listed version can be read, compared and restored by its number.
func TestReplacedFilesKeepTheirVersions(t *testing.T) {
	for _, c := range replacing {
		t.Run(c.name, func(t *testing.T) {
			s, dir := quick(t, nil)
			c.run(t, s)
			everyVersion(t, s, dir, "real", c.want)
			check(t, s, true)
		})
	}
}

// TestReplacedByADirectory: each file of a directory that is moved over
// another one has both lives.
func TestReplacedByADirectory(t *testing.T) {
	s, dir := quick(t, nil)
	for _, p := range []string{"e/x", "e/s/y", "d/x", "d/s/y", "d/z"} {
		write(t, s, p, p, rw.ModeCreate)
	}
	write(t, s, "e/x", "+", rw.ModeAppend)
	moveOver(t, s, "d", "e")
	everyVersion(t, s, dir, "e/s/y", "7 e/s/y<d/s/y d/s/y, 4 d/s/y d/s/y, 2 e/s/y e/s/y")
	everyVersion(t, s, dir, "e/z", "7 e/z<d/z d/z, 5 d/z d/z")
	everyVersion(t, s, dir, "e/x", "7 e/x<d/x d/x, 6 e/x e/x+, 3 d/x d/x, 1 e/x e/x")
	check(t, s, true)
}

// everyVersion compares the history of a path, and reads, compares and restores each
// version of it; each restoration is undone.
func everyVersion(t *testing.T, s *rw.Store, dir, path, want string) {
	t.Helper()
	list := versionsOf(t, s, path)
	var got []string
	meant := map[uint64]string{} // content of the version that a number means
	var numbers []uint64
	for _, v := range list {
		content := contentOf(t, s, v)
		from := ""
		if v.From != "" {
			from = "<" + v.From
		}
		got = append(got, fmt.Sprintf("%d %s%s %s", v.Version, v.Path, from, content))
		if !v.Available {
			t.Errorf("%s: version %d is not available", path, v.Version)
		}
		if _, ok := meant[v.Version]; !ok {
			meant[v.Version] = content
			numbers = append(numbers, v.Version)
		}
	}
	if text := strings.Join(got, ", "); text != want {
		t.Fatalf("%s:\n     %s\nwant %s", path, text, want)
	}
	for n := 1; n < len(list); n++ {
		h, err := s.History(background, rw.HistoryRequest{Path: path, N: n})
		if err != nil || len(h.Versions) != n || !h.More || h.Versions[n-1] != list[n-1] {
			t.Errorf("%s: the newest %d: %v %+v", path, n, err, h)
		}
	}
	now := meant[numbers[0]]
	for _, version := range numbers {
		content := meant[version]
		r, err := s.Read(background, rw.ReadRequest{Path: path, Version: version})
		if content == "-" {
			if err == nil {
				t.Errorf("%s: version %d reads %q", path, version, r.Content)
			}
		} else if err != nil || string(r.Content) != content {
			t.Errorf("%s: version %d reads %q %v, want %q", path, version, r.Content, err, content)
		}
		d, err := s.Diff(background, rw.DiffRequest{Path: path, From: version})
		if err != nil || d.From != version || d.Identical != (content == now) || !d.Identical && content != "-" && !strings.Contains(d.Diff, "-"+content+"\n") {
			t.Errorf("%s: version %d compares %+v %v", path, version, d, err)
		}
		if d, err = s.Diff(background, rw.DiffRequest{Path: path, From: numbers[0], To: version}); err != nil || d.To != version || d.Identical != (content == now) {
			t.Errorf("%s: the newest against version %d: %+v %v", path, version, d, err)
		}
	}
	for _, version := range numbers {
		if r := restored(t, s, path, version); r.Version != version {
			t.Errorf("%s: restored %d, want %d", path, r.Version, version)
		} else if meant[version] == "-" {
			gone(t, dir, path)
		} else if fileIs(t, dir, path, meant[version]); r.Status == rw.StatusUnchanged {
			continue
		}
		undone(t, s, 1)
		fileIs(t, dir, path, now)
	}
}

// contentOf finds the name of a version in the test by its hash; "-" for absent.
func contentOf(t *testing.T, s *rw.Store, v rw.FileVersion) string {
	t.Helper()
	if v.SHA256.String() == "" {
		return "-"
	}
	r, err := s.Read(background, rw.ReadRequest{Path: v.Path, Version: v.Version})
	if err != nil || r.SHA256 != v.SHA256 {
		t.Fatalf("version %d at %s: %v %s, want %s", v.Version, v.Path, err, r.SHA256, v.SHA256)
	}
	return string(r.Content)
}

// TestDiffFindsWhatAMoveReplaced: without version arguments, the diff of a move over a
// file is that of the bytes at the path; the origin of a version is never from the
// other file.
func TestDiffFindsWhatAMoveReplaced(t *testing.T) {
	s, _ := quick(t, nil)
	write(t, s, "tmp", "t1\n", rw.ModeCreate)
	write(t, s, "real", "r1\n", rw.ModeCreate)
	write(t, s, "tmp", "t2\n", rw.ModeOverwrite)
	write(t, s, "real", "r2\n", rw.ModeOverwrite)
	moveOver(t, s, "tmp", "real")
	for _, c := range []struct {
		to, from uint64
		want     string
	}{
		{0, 4, "-r2\n+t2\n"}, {5, 4, "-r2\n+t2\n"}, {4, 2, "-r1\n+r2\n"}, {3, 1, "-t1\n+t2\n"}, {2, 0, "+r1\n"}, {1, 0, "+t1\n"},
	} {
		d, err := s.Diff(background, rw.DiffRequest{Path: "real", To: c.to})
		if err != nil || d.From != c.from || d.To != c.to || !strings.HasSuffix(d.Diff, "@@\n"+c.want) {
			t.Errorf("to %d: %v %+v", c.to, err, d)
		}
	}
}

// TestVersionsOfPathsThatCannotBeNow: the history of a file is there although
// a file has the place of its directory, or a directory its own.
func TestVersionsOfPathsThatCannotBeNow(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "d/x", "inner\n", rw.ModeCreate)
	renamed(t, s, "d", "e")
	write(t, s, "d", "outer", rw.ModeCreate)
	write(t, s, "f", "file\n", rw.ModeCreate)
	deleted(t, s, "f")
	write(t, s, "f/x", "below", rw.ModeCreate)
	for path, c := range map[string]struct {
		version uint64
		content string
		refusal rw.Detail
	}{"d/x": {1, "inner\n", rw.ErrNotADirectory}, "f": {4, "file\n", rw.ErrIsADirectory}} {
		if list := versionsOf(t, s, path); len(list) != 2 || list[0].SHA256.String() != "" || list[1].Version != c.version || !list[1].Available {
			t.Errorf("%s: %+v", path, list)
		}
		if r, err := s.Read(background, rw.ReadRequest{Path: path, Version: c.version}); err != nil || string(r.Content) != c.content {
			t.Errorf("%s: %v %q", path, err, r.Content)
		}
		if d, err := s.Diff(background, rw.DiffRequest{Path: path}); err != nil || d.From != c.version || d.ToSHA256.String() != "" || !strings.Contains(d.Diff, "-"+c.content) {
			t.Errorf("%s: %v %+v", path, err, d)
		}
		deny(t, s, dir, path, c.refusal, func() error {
			_, err := s.Restore(background, rw.RestoreRequest{Path: path, Version: c.version})
			return err
		})
	}
	// A path without a history is refused with the reason.
	for path, want := range map[string]rw.Detail{"e": rw.ErrIsADirectory, "d/y": rw.ErrNotADirectory} {
		deny(t, s, dir, path, want, func() error { _, err := s.Diff(background, rw.DiffRequest{Path: path}); return err })
	}
}

// TestUndoOfWhatWasLeftAsItWas: a commit that also names a file with unchanged bytes is
// undone, although the file was moved since.
func TestUndoOfWhatWasLeftAsItWas(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "kept", rw.ModeCreate)
	write(t, s, "b.txt", "old", rw.ModeCreate)
	noErr(t, transact(s,
		rw.TxOp{Op: "write", Path: "a.txt", Content: []byte("kept"), Mode: rw.ModeOverwrite},
		rw.TxOp{Op: "write", Path: "b.txt", Content: []byte("new"), Mode: rw.ModeOverwrite},
	))
	renamed(t, s, "a.txt", "c.txt")
	undone(t, s, 2)
	fileIs(t, dir, "a.txt", "kept")
	fileIs(t, dir, "b.txt", "old")
	gone(t, dir, "c.txt")
}
