package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// scripts generates what commands do to a workspace: files, links and directories
// are written, moved, removed and put in place of each other.
type scripts struct{ *rand.Rand }

func newScripts(t *testing.T) scripts {
	return scripts{rand.New(rand.NewPCG(testbed.Seed(t), 0))}
}

func (r scripts) name() string {
	return "'./" + []string{"a.txt", "b.md", "src/x.go", "src/deep/y.go", "with space", "-dash", "ü", "lib/one.js", "l1", "e1/f", ".env"}[r.IntN(11)] + "'"
}

func (r scripts) dir() string {
	return "'./" + []string{"src", "src/deep", "lib", "lib2", "l1", "e1", "e1/e2", "new2/a", "a.txt", "b.md", "src/x.go"}[r.IntN(11)] + "'"
}

func (r scripts) line() string {
	x, y := r.name(), r.name()
	return []string{
		fmt.Sprintf("printf 'line %d\\n' > %s", r.IntN(9), x), fmt.Sprintf("cat >> %s <<< more", x), fmt.Sprintf("printf '' > %s", x),
		"rm -f " + x, fmt.Sprintf("mv -f %s %s", x, y), fmt.Sprintf("cp %s %s", x, y), fmt.Sprintf("chmod %o %s", []int{0o600, 0o755, 0o444}[r.IntN(3)], x),
		fmt.Sprintf("sed -i s/line/row/ %s", x), "rm -rf src", "mv lib lib2 || mv lib2 lib", "mkdir -p e1/e2 src/empty", "rmdir e1/e2 e1 src/empty",
		fmt.Sprintf("ln -sfn %s %s", []string{"a.txt", "nowhere", "src", "../out"}[r.IntN(4)], []string{"l1", "l2", "src/l3"}[r.IntN(3)]),
		"rm -f l1 l2; mkdir -p l1; echo k > l1/in", "rm -rf l1; ln -s gone.md l1", "mkdir -p new/a; echo 1 > new/a/b; rm -rf new2; mv new new2",
		fmt.Sprintf("rm -rf %s; mkdir -p %[1]s/sub; echo in > %[1]s/f; echo deep > %[1]s/sub/f", x),
		fmt.Sprintf("rm -rf %s; echo out > %[1]s", r.dir()), fmt.Sprintf("rm -rf %s; ln -s %s %[1]s", r.dir(), []string{"a.txt", "lib2", "nowhere"}[r.IntN(3)]),
		fmt.Sprintf("mv %s t; mkdir -p %[1]s; mv t %[1]s/index", x), fmt.Sprintf("mv %s/f t && rm -rf %[1]s && mv t %[1]s", r.dir()),
	}[r.IntN(21)]
}

func (r scripts) script() string {
	lines := make([]string, 1+r.IntN(4))
	for i := range lines {
		lines[i] = "{ " + r.line() + "; } 2>/dev/null"
	}
	return strings.Join(append(lines, "true"), "; ")
}

// TestExecAsWithoutIt: a command has the same effect in exec as without it, or
// none, and undo reverts it.
func TestExecAsWithoutIt(t *testing.T) {
	testbed.Needs(t, "bash")
	s, r := newSandboxed(t), newScripts(t)
	done := 0
	for range rounds() {
		script := r.script()
		copied := &sandboxed{surroundings: &surroundings{t, filepath.Join(t.TempDir(), "w")}}
		s.sh("cp -a . " + copied.dir)
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = copied.dir
		cmd.Run()
		before, want := s.tree(), copied.tree()
		run := s.exec("--", "bash", "-c", script)
		now := s.tree()
		switch {
		case run.code != 0 && (now != before || !strings.Contains(run.errs, "kept for 7 days")):
			t.Fatalf("%s\nrefused: %s\nbefore\n%s\nafter\n%s", script, run.errs, before, now)
		case run.code != 0:
			continue
		case now != want:
			t.Fatalf("%s\nbefore\n%s\nwithout exec\n%s\nwith it\n%s", script, before, want, now)
		}
		if done++; now == before || r.IntN(2) == 0 {
			continue
		}
		if s.rw("undo"); s.tree() != before {
			t.Fatalf("%s\nbefore\n%s\nundone\n%s", script, before, s.tree())
		}
	}
	expect(t, done >= 10, "%d commands were not refused", done)
	s.clean()
}

// TestUndoOfRandomCalls: the changes of a shell in a call of a host are undone, and
// the undo is too, byte for byte; a file that a person changed afterwards is never
// replaced.
func TestUndoOfRandomCalls(t *testing.T) {
	testbed.Needs(t, "bash")
	a, r := newAround(t), newScripts(t)
	s := &sandboxed{surroundings: a}
	a.sh("git init -q; mkdir -p src lib; echo line > a.txt; echo line > src/x.go; echo one > lib/one.js; ln -s a.txt l1; git add .; git commit -qm start; echo more >> a.txt")
	a.rw("changes")
	undone := 0
	for i := range rounds() {
		call, script := fmt.Sprintf("call-%d", i), r.script()
		a.rw("changes")
		before := s.tree()
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = a.dir
		cmd.Run()
		after := s.tree()
		a.rw("changes", "--call", call)
		if after == before {
			continue
		}
		person, theirs := r.IntN(4) == 0, "theirs "+call
		if person {
			a.sh("for f in a.txt b.md src/x.go lib/one.js; do [ ! -f $f ] || [ -L $f ] || echo " + theirs + " >> $f; done")
		}
		now := s.tree()
		code, _, errs := a.call([]string{"undo", "--group", call}, nil)
		switch back := s.tree(); {
		case code != rw.CodeOK && back != now:
			t.Fatalf("%s\nrefused, and changed: %s\n%s\n%s", script, errs.String(), now, back)
		case code != rw.CodeOK && !person:
			t.Fatalf("%s\nrefused: %s\n%s\n%s", script, errs.String(), before, after)
		case code != rw.CodeOK:
			continue
		case strings.Count(back, theirs) != strings.Count(now, theirs):
			t.Fatalf("%s\nwhat a person wrote is gone\n%s\n%s", script, now, back)
		case now == after && back != before:
			t.Fatalf("%s\nbefore\n%s\nundone\n%s", script, before, back)
		}
		if undone++; r.IntN(3) > 0 {
			continue
		}
		if a.rw("undo"); s.tree() != now {
			t.Fatalf("%s\nthe undo is not undone\n%s\n%s", script, now, s.tree())
		}
	}
	expect(t, undone >= rounds()/3, "%d calls were undone", undone)
}

// rounds is how often a test with random calls repeats them.
func rounds() int {
	if testbed.Long() {
		return 25
	}
	return 10
}

// mixed is a workspace that tools, shells and people change in turns.
type mixed struct {
	*sandboxed
	r     scripts
	store *rw.Store // one of two at random, as two processes have the workspace open
	other *rw.Store
	log   []string
	calls int
	// The contents that scans saw, by path. History must keep them.
	seen map[string]map[string]bool
}

func (m *mixed) did(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *mixed) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", strings.Join(m.log, "\n"), fmt.Sprintf(format, args...))
}

func (m *mixed) open() {
	for _, s := range []**rw.Store{&m.store, &m.other} {
		var err error
		if *s, err = rw.Open(m.t.Context(), m.dir, &rw.Options{Sync: rw.SyncOff, Session: "s"}); err != nil {
			m.fatal("open: %v", err)
		}
	}
}

func (m *mixed) close() {
	m.store.Close(context.Background())
	m.other.Close(context.Background())
}

// scan scans the workspace, and records the contents that the scan saw.
func (m *mixed) scan() {
	beside := make(chan error, 1)
	if m.r.IntN(4) == 0 {
		go func() {
			_, err := m.other.Scan(m.t.Context(), around.ScanRequest{})
			beside <- err
		}()
	} else {
		beside <- nil
	}
	_, err := m.store.Scan(m.t.Context(), around.ScanRequest{})
	if err = errors.Join(err, <-beside); err != nil {
		m.fatal("scan: %v", err)
	}
	m.note()
}

func (m *mixed) note() {
	for e := range testbed.Entries(m.t, m.dir, ".git", ".resilient_write") {
		if e.Info.Mode().IsRegular() {
			if m.seen[e.Path] == nil {
				m.seen[e.Path] = map[string]bool{}
			}
			m.seen[e.Path][e.Text] = true
		}
	}
}

func (m *mixed) path() string { return strings.Trim(m.r.name(), "'")[2:] }

// shell runs a script, in a call of a host if it has a name.
func (m *mixed) shell(call string) string {
	script := m.r.script()
	m.did("%s: %s", call, script)
	c := around.ToolCall{ID: call, Host: "loop", Session: "s", Event: "before", Command: script}
	if call != "" {
		if _, err := m.store.BeginCall(m.t.Context(), c); err != nil {
			m.fatal("begin: %v", err)
		}
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = m.dir
	cmd.Run()
	if call != "" {
		c.Event = "after"
		if _, err := m.store.EndCall(m.t.Context(), c); err != nil {
			m.fatal("end: %v", err)
		}
		m.note()
	}
	return call
}

// tool calls a tool, and reports whether it changed something.
func (m *mixed) tool() bool {
	ctx, a, b := m.t.Context(), m.path(), m.path()
	text := []byte(fmt.Sprintf("written %d\nline\n", m.r.IntN(9)))
	var err error
	var receipt rw.Receipt
	take := func(r rw.Receipt, failure error) { receipt, err = r, failure }
	switch m.r.IntN(8) {
	case 0, 1:
		mode := []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend}[m.r.IntN(2)]
		out, err := m.store.SafeWrite(ctx, rw.SafeWriteRequest{Path: a, Content: text, Mode: mode})
		take(out.Receipt, err)
	case 2:
		out, err := m.store.Edit(ctx, rw.EditRequest{Path: a, Edits: []rw.EditOp{{Old: "line", New: "edited", Count: 1}}})
		take(out.Receipt, err)
	case 3:
		out, err := m.store.Delete(ctx, rw.DeleteRequest{Path: a, Force: true})
		take(out.Receipt, err)
	case 4:
		out, err := m.store.Move(ctx, rw.MoveRequest{Path: a, To: b, Overwrite: m.r.IntN(2) == 0, Force: true})
		take(out.Receipt, err)
	case 5:
		out, err := m.store.Tx(ctx, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: a, Content: text, Mode: rw.ModeOverwrite}, {Op: "move", Path: b, To: "moved.txt", Overwrite: true, Force: true},
		}})
		take(out.Receipt, err)
	case 6:
		list, failure := m.store.History(ctx, rw.HistoryRequest{Path: a, N: 1000})
		if failure != nil {
			return false
		}
		out, err := m.store.Restore(ctx, rw.RestoreRequest{Path: a, Version: list.Versions[m.r.IntN(len(list.Versions))].Version, Force: true})
		take(out.Receipt, err)
	case 7:
		session := fmt.Sprint("s", len(m.log))
		for range 2 {
			if _, err := m.store.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: session, Content: text}); err != nil {
				m.fatal("chunk: %v", err)
			}
		}
		out, err := m.store.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: session, OutputPath: a, Cleanup: m.r.IntN(2) == 0})
		take(out.Receipt, err)
	}
	m.did("tool %s %s %s: %s %v", receipt.Op, a, b, receipt.Status, err)
	return err == nil && receipt.Status == rw.StatusSucceeded
}

// step changes the workspace in one way and checks that it can be undone.
func (m *mixed) step() {
	ctx := m.t.Context()
	if m.r.IntN(3) == 0 {
		m.store, m.other = m.other, m.store
	}
	m.scan()
	before := m.tree()
	refused := func(what string, err error, was string) {
		if m.tree() != was {
			m.fatal("%s was refused, and changed:\n%v\n%s\n%s", what, err, was, m.tree())
		}
	}
	switch m.r.IntN(4) {
	case 0, 1:
		m.calls++
		call := m.shell(fmt.Sprint("call-", m.calls))
		now := m.tree()
		if now == before || m.r.IntN(3) == 0 {
			return
		}
		_, err := m.store.Undo(ctx, rw.UndoRequest{Group: call})
		m.did("undo %s: %v", call, err)
		if err != nil {
			refused("undo of "+call, err, now)
		} else if m.tree() != before {
			m.fatal("before\n%s\nundone\n%s", before, m.tree())
		}
	case 2:
		n := 0
		for range 1 + m.r.IntN(3) {
			if m.tool() {
				n++
			}
			m.note()
		}
		if n == 0 || m.r.IntN(2) == 0 {
			return
		}
		if m.r.IntN(3) == 0 {
			m.store, m.other = m.other, m.store
		}
		now := m.tree()
		_, err := m.store.Undo(ctx, rw.UndoRequest{N: n})
		m.did("undo %d: %v", n, err)
		switch {
		case err != nil:
			refused("undo", err, now)
			return
		case m.tree() != before:
			m.fatal("before\n%s\nundone\n%s", before, m.tree())
		case now == before || m.r.IntN(2) == 0:
			return
		}
		_, err = m.store.Undo(ctx, rw.UndoRequest{})
		m.did("undo of that: %v", err)
		if err != nil {
			refused("undo of that", err, before)
		} else if m.tree() != now {
			m.fatal("before\n%s\nmade again\n%s", now, m.tree())
		}
	case 3:
		m.shell("")
	}
}

// TestMixedChanges: tools, shells and people change a workspace in turns. Undoing the
// latest call and restoring a snapshot restore every byte, a refusal changes nothing,
// and history has what a scan has seen.
func TestMixedChanges(t *testing.T) {
	testbed.Needs(t, "bash")
	a := newAround(t)
	a.sh("git init -q; mkdir -p src lib; echo line > a.txt; echo line > src/x.go; echo one > lib/one.js; ln -s a.txt l1; git add .; git commit -qm start; echo more >> a.txt")
	m := &mixed{sandboxed: &sandboxed{surroundings: a}, r: newScripts(t), seen: map[string]map[string]bool{}}
	m.note() // content that no scan has seen yet is not a version
	first := m.seen
	m.seen = map[string]map[string]bool{}
	m.open()
	defer m.close()
	type shot struct{ id, tree string }
	var shots []shot
	for range 40 {
		m.step()
		switch m.r.IntN(8) {
		case 0:
			m.scan()
			s, err := m.store.Snapshot(t.Context(), around.SnapshotRequest{})
			if err != nil {
				m.fatal("snapshot: %v", err)
			}
			m.did("snapshot %s", s.ID)
			shots = append(shots, shot{s.ID, m.tree()})
		case 1:
			if len(shots) == 0 {
				continue
			}
			s, was := shots[m.r.IntN(len(shots))], m.tree()
			_, err := m.store.SnapshotRestore(t.Context(), rw.SnapshotRestoreRequest{ID: s.id, Force: true})
			m.did("restore of %s: %v", s.id, err)
			switch now := m.tree(); {
			case err != nil && now != was:
				m.fatal("refused, and changed\n%s\n%s", was, now)
			case err == nil && now != s.tree:
				m.fatal("restored\n%s\nsnapshot\n%s\nbefore\n%s", now, s.tree, was)
			}
		case 2:
			m.did("reopen")
			m.close()
			m.open()
		}
	}
	m.scan()
	for path, texts := range m.seen {
		for text := range texts {
			if err := m.kept(path, text); err != nil && !first[path][text] {
				m.fatal("history of %s lacks %q: %v", path, text, err)
			}
		}
	}
	found, err := m.store.Check(t.Context(), admin.CheckRequest{Deep: true})
	if err != nil || !found.Clean {
		m.fatal("%+v %v", found, err)
	}
}

// kept returns an error if no version of a path contains a text.
func (m *mixed) kept(path, text string) error {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if st, err := os.Lstat(filepath.Join(m.dir, dir)); err == nil && st.Mode().Type() == os.ModeSymlink {
			return nil // a link leads to another name, which has the history
		}
	}
	list, err := m.store.History(m.t.Context(), rw.HistoryRequest{Path: path, N: 1000})
	if err != nil {
		return err
	}
	var all []string
	for _, v := range list.Versions {
		got, err := m.store.Read(m.t.Context(), rw.ReadRequest{Path: path, Version: v.Version})
		if err == nil && string(got.Content) == text {
			return nil
		}
		all = append(all, fmt.Sprintf("%d %s %q %v", v.Version, v.Op, got.Content, err))
	}
	return errors.New(strings.Join(all, "\n"))
}
