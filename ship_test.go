package resilientwrite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestMaterialize: a tree replaces what git has too, in one commit that can be
// undone, and nothing else.
func TestMaterialize(t *testing.T) {
	file := func(path, text string, mode uint32) admin.TreeFile {
		return admin.TreeFile{Path: path, SHA256: digest(hash(text)), Bytes: int64(len(text)), Mode: mode}
	}
	contents := map[string]string{"new.txt": "new", "run.sh": "#!/bin/sh\n", "kept.txt": "kept", "lib/x": "x"}
	files := []admin.TreeFile{file("run.sh", contents["run.sh"], 0o755), file("new.txt", "new", 0o644), file("kept.txt", "kept", 0o644), file("lib/x", "x", 0o644)}
	for name, c := range map[string]struct {
		before  map[string]string
		git     bool
		base    string
		keep    []string
		opened  map[string]string
		files   string // in the error
		want    map[string]string
		written int
	}{
		"empty":              {want: contents, written: 4},
		"existing files":     {before: map[string]string{"kept.txt": "kept"}, want: contents, written: 3},
		"own file":           {before: map[string]string{"own.txt": "own"}, files: "[own.txt]"},
		"own bytes":          {before: map[string]string{"new.txt": "own"}, files: "[new.txt]"},
		"own file, kept":     {before: map[string]string{"own.txt": "own"}, keep: []string{"own.txt"}, want: map[string]string{"own.txt": "own", "new.txt": "new"}, written: 4},
		"checkout":           {before: map[string]string{"old.txt": "old", "new.txt": "old"}, git: true, want: map[string]string{"new.txt": "new", "kept.txt": "kept"}, written: 4},
		"ignored file":       {before: map[string]string{".gitignore": "*.log\n", "own.log": "own"}, git: true, want: map[string]string{"own.log": "own", "new.txt": "new"}, written: 4},
		"other kinds":        {before: map[string]string{"lib": "old", "new.txt/in/x": "old", "kept.txt/y": "y"}, git: true, want: contents, written: 4},
		"another commit":     {before: map[string]string{"old.txt": "old"}, git: true, base: strings.Repeat("0", 40), files: "<nil>"},
		"bytes of something": {opened: map[string]string{"new.txt": "old"}, files: "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t)
			for path, text := range c.before {
				os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755)
				os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644)
			}
			if c.git {
				gitIn(t, dir, "init", "-q")
				gitIn(t, dir, "add", ".")
				gitIn(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "one")
			}
			s := open(t, dir, nil)
			var order []string
			r, err := s.Admin().Materialize(background, admin.MaterializeRequest{Tree: admin.Tree{Files: files}, Base: c.base, Keep: c.keep, Open: func(f admin.TreeFile) (io.ReadCloser, error) {
				order = append(order, f.Path)
				text, ok := c.opened[f.Path]
				if !ok {
					text = contents[f.Path]
				}
				return io.NopCloser(strings.NewReader(text)), nil
			}})
			if c.files != "" {
				var e *rw.Error
				require(t, errors.As(err, &e) && fmt.Sprint(e.Context["files"]) == c.files, "%v", err)
				for path, text := range c.before {
					fileIs(t, dir, path, text)
				}
				return
			}
			require(t, err == nil && r.Written == c.written && r.Seq != 0, "%v %+v", err, r)
			for path, text := range c.want {
				fileIs(t, dir, path, text)
			}
			st := must(os.Stat(filepath.Join(dir, "run.sh")))(t)
			expect(t, st.Mode().Perm() == 0o755, "%v", st)
			expect(t, order[0] == "run.sh" && order[1] == "new.txt", "the files were opened in the order %v", order)
			must(s.Undo(background, rw.UndoRequest{}))(t)
			for path, text := range c.before {
				fileIs(t, dir, path, text)
			}
			gone(t, dir, "run.sh")
			check(t, s, true)
		})
	}
}

// TestTreesOfEveryKind: empty directories, their modes, and symbolic links come with
// a tree, directories that it does not have go, and undo takes both back.
func TestTreesOfEveryKind(t *testing.T) {
	from := workspace(t)
	for _, dir := range []string{"empty/in/empty", "closed", "src"} {
		os.MkdirAll(filepath.Join(from, dir), 0o755)
	}
	os.WriteFile(filepath.Join(from, "src/a.txt"), []byte("a"), 0o640)
	os.WriteFile(filepath.Join(from, "closed/b.txt"), []byte("b"), 0o400)
	for name, target := range map[string]string{"src/link": "a.txt", "dangling": "no/where", "dir": "src"} {
		noErr(t, os.Symlink(target, filepath.Join(from, name)))
	}
	os.Chmod(filepath.Join(from, "empty"), 0o700)
	os.Chmod(filepath.Join(from, "closed"), 0o711)
	a := open(t, from, nil)
	snap := must(a.Snapshot(background, around.SnapshotRequest{}))(t)
	tree := must(a.Admin().SnapshotTree(background, snap.ID))(t)
	to := workspace(t)
	os.MkdirAll(filepath.Join(to, "other/empty"), 0o755)
	before := contentsBelow(t, to)
	b := open(t, to, nil)
	take := func() admin.MaterializeResult {
		t.Helper()
		r := must(b.Admin().Materialize(background, admin.MaterializeRequest{Tree: tree, Open: func(f admin.TreeFile) (io.ReadCloser, error) {
			data, err := a.Admin().Content(background, admin.ContentRequest{Path: f.Path, SHA256: f.SHA256, Bytes: f.Bytes})
			return io.NopCloser(bytes.NewReader(data)), err
		}}))(t)
		return r
	}
	r := take()
	expect(t, r.Written == 5 && r.Dirs == 7, "%+v", r)
	if x, y := contentsBelow(t, from), contentsBelow(t, to); !maps.Equal(x, y) {
		t.Errorf("%v, and here %v", x, y)
	}
	equal(t, take().Seq, 0, "again")
	must(b.Undo(background, rw.UndoRequest{}))(t)
	now := contentsBelow(t, to)
	expect(t, maps.Equal(before, now), "%v, and after undo %v", before, now)
	check(t, b, true)
}

// contentsBelow returns everything below a directory except the state: kinds, modes,
// bytes, and targets of links.
func contentsBelow(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for e := range testbed.Entries(t, root, rw.StateDirName) {
		out[e.Path] = fmt.Sprint(e.Info.Mode(), " ", e.Text)
	}
	return out
}

// TestRowsAreTheSameBytes: rows that are exported by number are the same bytes
// whenever that is done, and continue each other.
func TestRowsAreTheSameBytes(t *testing.T) {
	s := open(t, workspace(t), nil)
	export := func(after, upto uint64) (string, admin.ExportResult) {
		var b bytes.Buffer
		r := must(s.Admin().Export(background, admin.ExportRequest{W: &b, After: after, Upto: upto, Same: true}))(t)
		return b.String(), r
	}
	for i := range 5 {
		write(t, s, "a.txt", fmt.Sprint("text ", i, "\n"), rw.ModeOverwrite)
	}
	early, first := export(1, 3)
	for range 3 {
		write(t, s, "b.txt", "more\n", rw.ModeAppend)
	}
	late, _ := export(1, 3)
	expect(t, early == late && first.First == 2 && first.Last == 3 && first.Rows == 2, "%+v\n%s\n%s", first, early, late)
	_, rest := export(3, 0)
	expect(t, rest.First == 4 && rest.Last == 8 && rest.Chain != first.Chain, "%+v", rest)
	_, none := export(8, 0)
	expect(t, none.Rows == 0, "%+v", none)
}

// TestPruningWaitsForTheShipper: versions of rows that are not in the hub stay,
// until the bound of bytes removes them.
func TestPruningWaitsForTheShipper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy, state string
		kept          int
	}{
		{"max_versions: 3", "", 3},
		{"max_versions: 3", `{"seq":0}`, 299},
		{"max_versions: 3", `{"seq":290}`, 11},
		{"max_versions: 3", `{"seq":290`, 299},
		{"max_versions: 3, max_bytes: 64KiB", `{"seq":0}`, 70},
	} {
		dir := workspace(t)
		os.MkdirAll(filepath.Join(dir, rw.StateDirName, "hub"), 0o700)
		os.WriteFile(filepath.Join(dir, rw.StateDirName, "policy.yaml"), []byte("history: {"+c.policy+"}\n"), 0o600)
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		if c.state != "" {
			noErr(t, os.WriteFile(filepath.Join(dir, rw.StateDirName, "hub", "ship.json"), []byte(c.state), 0o600))
		}
		for i := range 300 {
			write(t, s, "a.txt", fmt.Sprintf("%04d %s", i, strings.Repeat("x", 1000)), rw.ModeOverwrite)
		}
		must(s.Admin().Compact(background, admin.CompactRequest{}))(t)
		n := kept(t, dir)
		expect(t, n <= c.kept && n >= c.kept-10, "%s, %s: %d versions are kept", c.policy, c.state, n)
	}
}

// TestDescribeShowsTheHub: how far the hub lags, from the file that the shipper writes;
// a damaged or missing file is not an error, and by a damaged one nothing is shipped.
func TestDescribeShowsTheHub(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	for range 3 {
		write(t, s, "a.txt", "text\n", rw.ModeAppend)
	}
	hub := func() *admin.HubFacts {
		t.Helper()
		return must(s.Describe(background, rw.DescribeRequest{}))(t).Hub
	}
	h := hub()
	expect(t, h == nil, "nothing is shipped, and %+v", h)
	noErr(t, s.Admin().SetShipState([]byte(`{}`)))
	file := filepath.Join(dir, rw.StateDirName, "hub", "ship.json")
	noErr(t, os.WriteFile(file, []byte(`{"seq":1`), 0o600))
	h = hub()
	expect(t, h != nil && *h == (admin.HubFacts{Waiting: 3, Forked: true}), "%+v", h)
	noErr(t, os.Remove(file))
	token := "gh" + "p_" + strings.Repeat("a1B2c3D4e5", 4)[:36]
	for state, want := range map[string]admin.HubFacts{
		`{"seq":1,"task":"t","waiting":7}`:                      {Seq: 1, Waiting: 2, Task: "t"},
		`{"seq":9,"lost_task":"t","forked":true}`:               {Seq: 9, LostTask: "t", Forked: true},
		`{"seq":0,"task":"` + strings.Repeat("t", 1<<16) + `"}`: {Waiting: 3, Task: strings.Repeat("t", 200)},
		`{"seq":3,"task":"` + token + `"}`:                      {Seq: 3, Task: "{GHP-REDACTED}"},
	} {
		noErr(t, s.Admin().SetShipState([]byte(state)))
		h := hub()
		expect(t, h != nil && *h == want, "%.60s: %+v", state, h)
	}
}

// TestNoHubCostsNothing: a write takes no more allocations in a store that nothing
// ships than in one that is shipped, and opens no part of the hub: the goldens of file
// operations show that.
func TestNoHubCostsNothing(t *testing.T) {
	allocs := func(shipped bool) float64 {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		if shipped {
			noErr(t, s.Admin().SetShipState([]byte(`{"seq":0}`)))
		}
		n := 1000
		return testing.AllocsPerRun(200, func() {
			n++
			write(t, s, "a.txt", fmt.Sprint("text ", n), rw.ModeOverwrite)
		})
	}
	none, some := allocs(false), allocs(true)
	t.Logf("%v and %v allocations", none, some)
	if none > some+2 { // an average
		t.Errorf("%v allocations without a hub, %v with one", none, some)
	}
}

// TestContent: bytes that rows refer to are found wherever they are.
func TestContent(t *testing.T) {
	s := open(t, workspace(t), nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeAppend)
	move := must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "b.txt"}))(t)
	write(t, s, "c.txt", "three\n", rw.ModeCreate)
	write(t, s, "c.txt", "four\n", rw.ModeOverwrite)
	for _, c := range []struct {
		path, text string
		seq        uint64
	}{{"a.txt", "one\n", 1}, {"a.txt", "one\ntwo\n", 2}, {"b.txt", "one\ntwo\n", move.Receipt.JournalSeq}, {"c.txt", "three\n", 4}, {"c.txt", "four\n", 5}} {
		data, err := s.Admin().Content(background, admin.ContentRequest{Path: c.path, SHA256: digest(hash(c.text)), Bytes: int64(len(c.text)), Seq: c.seq})
		expect(t, err == nil && string(data) == c.text, "%s %q: %v %q", c.path, c.text, err, data)
	}
	fails(s.Admin().Content(background, admin.ContentRequest{Path: "c.txt", SHA256: digest(hash("other")), Bytes: 5, Seq: 5}))(t, rw.ErrVersionNotKept)
	fails(s.Admin().Content(background, admin.ContentRequest{Path: "c.txt", Bytes: 65 << 20}))(t, rw.ErrTooLarge)
}
