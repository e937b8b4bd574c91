package resilientwrite_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// world is the files of a workspace: path to content.
type world map[string]string

func (w world) clone() world {
	out := make(world, len(w))
	maps.Copy(out, w)
	return out
}

// change is what one commit did to one file.
type change struct {
	before, after string
	was, is       bool
}

// modelCommit is one row of the model's journal.
type modelCommit struct {
	seq   uint64
	files map[string]change
}

// past is one version of a path, as rw_history reports it for that path alone.
type past struct {
	version uint64
	content string
	there   bool
}

// model is the expected state of the store, in plain memory.
type model struct {
	files   world
	commits []modelCommit
	pasts   map[string][]past // oldest first
}

// commit takes a new state over: every path that was named has a new version.
func (m *model) commit(seq uint64, next world, named ...string) {
	if seq == 0 { // nothing was written
		return
	}
	c := modelCommit{seq: seq, files: map[string]change{}}
	for _, p := range named {
		before, was := m.files[p]
		after, is := next[p]
		c.files[p] = change{before, after, was, is}
		m.pasts[p] = append(m.pasts[p], past{seq, after, is})
	}
	m.commits = append(m.commits, c)
	m.files = next
}

// at is the version of a path that a commit made.
func (m *model) at(path string, version uint64) past {
	for _, v := range m.pasts[path] {
		if v.version == version {
			return v
		}
	}
	return past{content: "no such version"}
}

// walker makes random calls and compares.
type walker struct {
	t      *testing.T
	rng    *rand.Rand
	dir    string
	s      *rw.Store
	m      model
	level  rw.SyncLevel
	recent []string // the last steps
	did    map[string]int
}

var modelPaths = []string{"a.txt", "b.txt", "c.txt", "d/a.txt", "d/b.txt", "d/e/a.txt", "f/a.txt", "A.txt"}

func (w *walker) path() string { return modelPaths[w.rng.IntN(len(modelPaths))] }

// text returns some lines, sometimes none or very many.
func (w *walker) text() string {
	switch w.rng.IntN(14) {
	case 0:
		return ""
	case 1:
		return strings.Repeat(fmt.Sprintf("a long line number %d\n", w.rng.IntN(100)), 1+w.rng.IntN(9000))
	}
	var b strings.Builder
	for range 1 + w.rng.IntN(4) {
		fmt.Fprintf(&b, "line %d\n", w.rng.IntN(50))
	}
	return b.String()
}

func (w *walker) log(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if len(line) > 200 {
		line = line[:200]
	}
	w.recent = append(w.recent, line)
}

// result compares whether a call happened with whether it should have.
func (w *walker) result(err error, ok bool) bool {
	w.t.Helper()
	if ok != (err == nil) {
		w.fail("ok=%v, want %v: %v (%v)", err == nil, ok, err, errors.Unwrap(err))
	}
	if err != nil {
		if e := rw.AsError("", err); e.Effect != rw.EffectNone || e.Detail == rw.ErrInternal {
			w.fail("%+v (%v)", e, errors.Unwrap(err))
		}
		return false
	}
	return true
}

func (w *walker) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nlast steps:\n  %s", fmt.Sprintf(format, args...), strings.Join(w.recent[max(0, len(w.recent)-12):], "\n  "))
}

// compare compares every file of the workspace.
func (w *walker) compare() {
	w.t.Helper()
	got := world{}
	for e := range testbed.Entries(w.t, w.dir, rw.StateDirName) {
		if !e.Info.IsDir() {
			got[e.Path] = e.Text
		}
	}
	for p, c := range w.m.files {
		if have, ok := got[p]; !ok || have != c {
			w.fail("%s: there %v, %d bytes %.60q, want %d bytes %.60q", p, ok, len(have), have, len(c), c)
		}
		delete(got, p)
	}
	for p, c := range got {
		w.fail("%s: %.60q should not be there", p, c)
	}
}

// writes is the effect of one write on a world; ok is false when it is refused.
func writes(files world, p, content string, mode rw.WriteMode) bool {
	have, there := files[p]
	switch {
	case mode == rw.ModeCreate && there:
		return false
	case mode == rw.ModeAppend:
		content = have + content
	}
	files[p] = content
	return true
}

func (w *walker) write() {
	p, content := w.path(), w.text()
	mode := []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeAppend, rw.ModeAppend}[w.rng.IntN(4)]
	w.log("write %s %s %d bytes", p, mode, len(content))
	next := w.m.files.clone()
	ok := writes(next, p, content, mode)
	r, err := w.s.SafeWrite(background, rw.SafeWriteRequest{Path: p, Content: []byte(content), Mode: mode, AllowShrink: true})
	if w.result(err, ok) {
		w.m.commit(r.Receipt.JournalSeq, next, p)
	}
}

// someEdit is an edit that may or may not fit the content.
func (w *walker) someEdit(content string) (op rw.EditOp, after string, ok bool) {
	old := fmt.Sprintf("line %d\n", w.rng.IntN(50))
	if lines := strings.SplitAfter(content, "\n"); w.rng.IntN(4) > 0 && lines[0] != "" {
		old = lines[w.rng.IntN(len(lines))]
		if old == "" {
			old = lines[0]
		}
	}
	op = rw.EditOp{Old: old, New: fmt.Sprintf("edited %d\n", w.rng.Uint32()), Count: -1}
	return op, strings.ReplaceAll(content, old, op.New), strings.Contains(content, old)
}

func (w *walker) edit() {
	p := w.path()
	content, there := w.m.files[p]
	op, after, ok := w.someEdit(content)
	w.log("edit %s %.20q", p, op.Old)
	r, err := w.s.Edit(background, rw.EditRequest{Path: p, Edits: []rw.EditOp{op}, AllowShrink: true})
	if w.result(err, ok && there) {
		next := w.m.files.clone()
		next[p] = after
		w.m.commit(r.Receipt.JournalSeq, next, p)
	}
}

func (w *walker) delete() {
	p := w.path()
	w.log("delete %s", p)
	_, there := w.m.files[p]
	r, err := w.s.Delete(background, rw.DeleteRequest{Path: p})
	if w.result(err, there) {
		next := w.m.files.clone()
		delete(next, p)
		w.m.commit(r.Receipt.JournalSeq, next, p)
	}
}

func (w *walker) move() {
	from, to, over := w.path(), w.path(), w.rng.IntN(2) == 0
	if w.rng.IntN(4) == 0 { // a directory
		from, to = []string{"d", "f", "d/e"}[w.rng.IntN(3)], []string{"d", "f", "d/e", "f/e"}[w.rng.IntN(4)]
	}
	w.log("move %s %s over %v", from, to, over)
	next := w.m.files.clone()
	var named []string
	clash := from == to || strings.HasPrefix(to, from+"/")
	for p, content := range w.m.files {
		rest, below := strings.CutPrefix(p, from+"/")
		target := to
		if below {
			target = to + "/" + rest
		} else if p != from {
			continue
		}
		if _, there := w.m.files[target]; there && !over {
			clash = true
		}
		named = append(named, p, target)
		next[target] = content
	}
	// A directory moved into its parent may take the place of a file that
	// moves too: such a call is refused or harmless, and not for this model.
	seen := map[string]bool{}
	for _, p := range named {
		clash = clash || seen[p]
		seen[p] = true
	}
	for i := 0; i < len(named); i += 2 {
		delete(next, named[i])
	}
	r, err := w.s.Move(background, rw.MoveRequest{Path: from, To: to, Overwrite: over})
	if w.result(err, len(named) > 0 && !clash) {
		if r.Files != len(named)/2 {
			w.fail("%d files moved, want %d", r.Files, len(named)/2)
		}
		w.m.commit(r.Receipt.JournalSeq, next, named...)
	}
}

// tx makes some operations on files that differ, and sometimes two on one.
func (w *walker) tx() {
	next, ok := w.m.files.clone(), true
	var ops []rw.TxOp
	var named []string
	order := w.rng.Perm(len(modelPaths))
	for _, i := range order[:1+w.rng.IntN(4)] {
		p := modelPaths[i]
		content, there := next[p]
		named = append(named, p)
		switch w.rng.IntN(5) {
		case 0, 1:
			text := w.text()
			mode := []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend}[w.rng.IntN(2)]
			ops = append(ops, rw.TxOp{Op: "write", Path: p, Content: []byte(text), Mode: mode, AllowShrink: true})
			writes(next, p, text, mode)
			if w.rng.IntN(2) == 0 {
				ops = append(ops, rw.TxOp{Op: "write", Path: p, Content: []byte("tail\n"), Mode: rw.ModeAppend})
				writes(next, p, "tail\n", rw.ModeAppend)
			}
		case 2:
			op, after, fits := w.someEdit(content)
			ok = ok && fits && there
			ops = append(ops, rw.TxOp{Op: "edit", Path: p, Edits: []rw.EditOp{op}, AllowShrink: true})
			next[p] = after
		case 3:
			ok = ok && there
			ops = append(ops, rw.TxOp{Op: "delete", Path: p})
			delete(next, p)
		case 4:
			to := fmt.Sprintf("tx/%s", strings.ReplaceAll(p, "/", "_"))
			_, taken := next[to]
			ok = ok && there && !taken
			ops = append(ops, rw.TxOp{Op: "move", Path: p, To: to})
			named = append(named, to)
			delete(next, p)
			next[to] = content
		}
	}
	w.log("tx %.150s", fmt.Sprintf("%+v", ops))
	if w.rng.IntN(3) == 0 {
		w.stagedTx(ops, next, ok, named)
		return
	}
	r, err := w.s.Tx(background, rw.TxRequest{Ops: ops})
	if w.result(err, ok) {
		w.m.commit(r.Seq, next, named...)
	}
}

func (w *walker) stagedTx(ops []rw.TxOp, next world, ok bool, named []string) {
	b, err := w.s.TxBegin(background, rw.TxBeginRequest{})
	must(w.t, err)
	for _, op := range ops {
		_, err := w.s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op})
		must(w.t, err)
		if w.rng.IntN(8) == 0 {
			w.reopen()
		}
	}
	w.log("  staged as %s", b.TxID)
	r, err := w.s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID})
	if w.result(err, ok) {
		w.m.commit(r.Seq, next, named...)
		return
	}
	_, err = w.s.TxRollback(background, rw.TxRollbackRequest{TxID: b.TxID})
	must(w.t, err)
}

func (w *walker) restore() {
	p := w.path()
	list := w.m.pasts[p]
	if len(list) == 0 {
		w.log("restore %s, which never was", p)
		_, err := w.s.Restore(background, rw.RestoreRequest{Path: p, Version: 1})
		w.result(err, false)
		return
	}
	v := list[w.rng.IntN(len(list))]
	// A move is a version of both of its names; the replaced file stays one version. Of
	// two versions by the same commit, the first in the list is used.
	h, err := w.s.History(background, rw.HistoryRequest{Path: p, N: 1000})
	must(w.t, err)
	found := false
	for _, x := range h.Versions {
		if x.Version == v.version && !found {
			v, found = w.m.at(x.Path, x.Version), true
		}
		if !x.Available {
			var rows []string
			for _, y := range h.Versions {
				rows = append(rows, fmt.Sprintf("%d %s %s %.6s %d", y.Version, y.Path, y.Op, y.SHA256, y.Bytes))
			}
			w.fail("version %d of %s (%s) is not available:\n%s", x.Version, p, x.Op, strings.Join(rows, "\n"))
		}
	}
	w.log("restore %s to %d", p, v.version)
	r, err := w.s.Restore(background, rw.RestoreRequest{Path: p, Version: v.version})
	if w.result(err, true) {
		next := w.m.files.clone()
		delete(next, p)
		if v.there {
			next[p] = v.content
		}
		w.m.commit(r.Receipt.JournalSeq, next, p)
	}
}

func (w *walker) undo() {
	n := 1 + w.rng.IntN(4)
	w.log("undo %d", n)
	if n > len(w.m.commits) {
		return
	}
	next, named := w.m.files.clone(), map[string]bool{}
	for _, c := range w.m.commits[len(w.m.commits)-n:] {
		for p := range c.files {
			named[p] = true
		}
	}
	for i := len(w.m.commits) - 1; i >= len(w.m.commits)-n; i-- {
		for p, f := range w.m.commits[i].files {
			delete(next, p)
			if f.was {
				next[p] = f.before
			}
		}
	}
	paths := slices.Sorted(maps.Keys(named))
	r, err := w.s.Undo(background, rw.UndoRequest{N: n})
	if w.result(err, true) {
		for i, seq := range r.Undone {
			if want := w.m.commits[len(w.m.commits)-1-i].seq; seq != want {
				w.fail("undone %v, want %d", r.Undone, want)
			}
		}
		w.m.commit(r.Seq, next, paths...)
	}
}

func (w *walker) reopen() {
	w.log("reopen")
	must(w.t, w.s.Close(background))
	w.open()
}

func (w *walker) open() {
	s, err := rw.Open(background, w.dir, &rw.Options{Sync: w.level})
	must(w.t, err)
	w.s = s
	if r := s.Recovery(); len(r.Aborted)+len(r.Conflicts)+r.Malformed > 0 {
		w.fail("recovery after an orderly close: %+v", r)
	}
}

// TestModel makes random calls of every verb, and after each the files are
// those of a model in plain memory.
func TestModel(t *testing.T) {
	t.Parallel()
	steps := 200
	if *long || os.Getenv("RW_LONG") != "" {
		steps = 3000
	}
	for _, level := range []rw.SyncLevel{rw.SyncOff, rw.SyncJournal} {
		t.Run(string(level), func(t *testing.T) {
			seed := testbed.Seed(t)
			w := &walker{
				t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: ramspace(t), level: level,
				m: model{files: world{}, pasts: map[string][]past{}}, did: map[string]int{},
			}
			w.open()
			defer func() { w.s.Close(background) }()
			for range steps {
				before := len(w.m.commits)
				verb := "restart"
				switch k := w.rng.IntN(40); {
				case k < 12:
					verb = "write"
					w.write()
				case k < 17:
					verb = "edit"
					w.edit()
				case k < 20:
					verb = "delete"
					w.delete()
				case k < 25:
					verb = "move"
					w.move()
				case k < 30:
					verb = "tx"
					w.tx()
				case k < 34:
					verb = "restore"
					w.restore()
				case k < 39:
					verb = "undo"
					w.undo()
				default:
					w.reopen()
				}
				if len(w.m.commits) > before {
					w.did[verb]++
				}
				w.compare()
			}
			t.Logf("commits by verb: %v", w.did)
			check(t, w.s, true)
		})
	}
}
