package resilientwrite_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// txDraft is a transaction, and how the files came about that it finds.
type txDraft struct {
	name      string
	strangers map[string]string // files that the journal does not know
	made      []rw.TxOp         // acknowledged before, each by itself
	ops       []rw.TxOp
	staged    bool  // built in several calls
	plain     bool  // the file system cannot swap two names
	segment   int64 // bytes of a journal segment
}

// txShape is a draft with its result according to a model in plain memory.
type txShape struct {
	scenario
	ops    []rw.TxOp
	plain  bool
	start  int                 // the first operation at which a sweep breaks off
	dirs   map[string]bool     // directories before
	past   map[string][]string // the history of each path before, as rw_history reports it
	future map[string][]string // and after
}

func txWrite(path, content string, mode rw.WriteMode) rw.TxOp {
	return rw.TxOp{Op: "write", Path: path, Content: []byte(content), Mode: mode, AllowShrink: true}
}

func txEdit(path, old, new string) rw.TxOp {
	return rw.TxOp{Op: "edit", Path: path, Edits: []rw.EditOp{{Old: old, New: new, Count: -1}}, AllowShrink: true}
}

func txDelete(path string) rw.TxOp { return rw.TxOp{Op: "delete", Path: path} }

func txMove(path, to string, over bool) rw.TxOp {
	return rw.TxOp{Op: "move", Path: path, To: to, Overwrite: over}
}

// txCaller makes the transaction; no other caller has this name, so that an undo finds
// it among any other writes.
const txCaller = "transaction"

// shape computes the expected result of the transaction.
func (d txDraft) shape() txShape {
	x := txShape{ops: d.ops, plain: d.plain, dirs: map[string]bool{}}
	x.name, x.sim.Segment = d.name, d.segment
	x.disk = func(fs *simfs.FS) {
		fs.NoExchange = d.plain
		for p, content := range d.strangers {
			fs.WriteFile(p, []byte(content), 0o644)
		}
	}
	x.before = func(s *rw.Store) error {
		for _, op := range d.made {
			if err := transact(s, op); err != nil {
				return err
			}
		}
		return nil
	}
	x.run = func(s *rw.Store) error { // the key makes a repeated call harmless
		_, err := s.Tx(background, rw.TxRequest{Ops: d.ops, Call: rw.Call{Caller: txCaller, IdempotencyKey: "once"}})
		return err
	}
	if d.staged {
		x.before, x.run = d.stage(x.before), commitStaged
	}
	w := txWorld{files: map[string]string{}, made: map[string][]txVersion{}}
	maps.Copy(w.files, d.strangers)
	maps.Copy(x.dirs, parents(w.files))
	for _, op := range d.made {
		w.commit(op)
		maps.Copy(x.dirs, parents(w.files))
	}
	x.old, x.past = maps.Clone(w.files), w.pasts(d.ops)
	w.commit(d.ops...)
	x.new, x.future = w.files, w.pasts(d.ops)
	return x
}

// stage builds the transaction after the previous calls.
func (d txDraft) stage(before func(*rw.Store) error) func(*rw.Store) error {
	return func(s *rw.Store) error {
		if err := before(s); err != nil {
			return err
		}
		b, err := s.TxBegin(background, rw.TxBeginRequest{})
		for _, op := range d.ops {
			if err == nil {
				_, err = s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op})
			}
		}
		return err
	}
}

// commitStaged commits the transaction that was staged, by the name that the
// journal has of it: it answers as before when it has happened already.
func commitStaged(s *rw.Store) error {
	tail, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000})
	if err != nil {
		return err
	}
	for _, e := range tail.Entries {
		if e.Op == "tx_begin" {
			_, err := s.TxCommit(background, rw.TxCommitRequest{TxID: e.Tx, Call: rw.Call{Caller: txCaller}})
			return err
		}
	}
	return errors.New("nothing was staged")
}

// txWorld is the files of a workspace and what every commit made of them.
type txWorld struct {
	files map[string]string
	made  map[string][]txVersion // by path, newest first
	n     int                    // commits so far
}

// txVersion is the result of a commit for a path: the hash of the file, "" for gone,
// and its origin if it was moved.
type txVersion struct {
	n               int
	path, sha, from string
}

// commit makes operations together.
func (w *txWorld) commit(ops ...rw.TxOp) {
	w.n++
	from := map[string]string{}
	for _, op := range ops {
		from[op.Path] = ""
		switch op.Op {
		case "write":
			mode := op.Mode
			if mode == "" {
				mode = rw.ModeCreate
			}
			writes(w.files, op.Path, string(op.Content), mode)
		case "edit":
			for _, e := range op.Edits {
				w.files[op.Path] = strings.ReplaceAll(w.files[op.Path], e.Old, e.New)
			}
		case "delete":
			delete(w.files, op.Path)
		case "move":
			w.files[op.To], from[op.To] = w.files[op.Path], op.Path
			delete(w.files, op.Path)
		}
	}
	for p, f := range from {
		v := txVersion{n: w.n, path: p, from: f}
		if content, there := w.files[p]; there {
			v.sha = hash(content)
		}
		w.made[p] = append([]txVersion{v}, w.made[p]...)
	}
}

// pasts are the hashes of the versions of every path that operations name.
func (w *txWorld) pasts(ops []rw.TxOp) map[string][]string {
	all := map[string][]string{}
	for _, op := range ops {
		for _, p := range []string{op.Path, op.To} {
			if p != "" {
				all[p] = w.past(p)
			}
		}
	}
	return all
}

// past returns the hashes of the versions of a path, newest first: of all files that
// were at the path, and for files moved there also those under their earlier names. A
// move to another name is reported at the path itself only if the file did not come
// back from there.
func (w *txWorld) past(path string) (hashes []string) {
	var all []txVersion
	has := func(n int, p string) bool {
		return slices.ContainsFunc(all, func(v txVersion) bool { return v.n == n && v.path == p })
	}
	var follow func(p string, before int)
	follow = func(p string, before int) { // the history of the file that was at p then
		for _, v := range w.made[p] {
			if v.n >= before {
				continue
			}
			if has(v.n, p) || v.sha == "" && p != path && w.went(v) != "" {
				return
			}
			all = append(all, v)
			if v.from != "" {
				follow(v.from, v.n)
				if p != path {
					return
				}
			}
		}
	}
	follow(path, w.n+1)
	all = slices.DeleteFunc(all, func(v txVersion) bool { return v.sha == "" && w.went(v) != "" && has(v.n, w.went(v)) })
	slices.SortStableFunc(all, func(a, b txVersion) int {
		switch {
		case a.n != b.n:
			return b.n - a.n
		case a.path == path:
			return -1
		case b.path == path:
			return 1
		}
		return strings.Compare(a.path, b.path)
	})
	for _, v := range all {
		hashes = append(hashes, v.sha)
	}
	return hashes
}

// went is where a commit moved the file that it took away, "" if it did not.
func (w *txWorld) went(gone txVersion) string {
	for p, list := range w.made {
		for _, v := range list {
			if v.n == gone.n && v.from == gone.path {
				return p
			}
		}
	}
	return ""
}

// parents are the directories that some files need.
func parents(files map[string]string) map[string]bool {
	dirs := map[string]bool{}
	for p := range files {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return dirs
}

// txDrafts are the transactions that every run breaks off.
func txDrafts() []txDraft {
	made := func(paths ...string) (list []rw.TxOp) {
		for i, p := range paths {
			list = append(list, txWrite(p, fmt.Sprintf("%s of %s\nmark\n", longText[:300+400*(i%3)], p), ""))
		}
		return list
	}
	replace, add := rw.ModeOverwrite, rw.ModeAppend
	return []txDraft{
		{name: "create", ops: []rw.TxOp{txWrite("n/e/w.txt", longText, "")}},
		{name: "mixed", made: made("a.txt", "d/b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txWrite("n/new.txt", longText, ""), txWrite("a.txt", otherText, replace), txWrite("d/b.txt", otherText, add),
			txEdit("d/c.txt", "mark", "landmark"), txDelete("d/d.txt"),
		}},
		{name: "moves", made: made("a.txt", "b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txMove("a.txt", "n/m/a.txt", false), txMove("d/c.txt", "b.txt", true), txMove("d/d.txt", "d/e.txt", true),
		}},
		{name: "two_on_one", made: made("a.txt", "b.txt", "c.txt"), ops: []rw.TxOp{
			txWrite("n.txt", "new mark\n", ""), txWrite("a.txt", "one", add), txDelete("b.txt"), txEdit("c.txt", "mark", "x"),
			txEdit("n.txt", "mark", "landmark"), txWrite("a.txt", "two", add), txWrite("b.txt", "again\n", ""), txDelete("c.txt"),
		}},
		{name: "strangers", strangers: map[string]string{"a": longText, "d/b": otherText + "mark", "d/c": "", "d/e": longText, "f": otherText},
			made: made("g"), ops: []rw.TxOp{
				txWrite("a", otherText, replace), txEdit("d/b", "mark", "landmark"), txWrite("d/c", "more", add),
				txMove("d/e", "n/e", false), txMove("f", "g", true),
			}},
		{name: "directories", made: made("d/a.txt"), ops: []rw.TxOp{
			txWrite("n/x/1.txt", "1", ""), txWrite("n/x/2.txt", "2", ""), txWrite("n/y/z/3.txt", longText, add),
			txMove("d/a.txt", "n/y/a.txt", false), txWrite("d/e/f/4.txt", "", ""), txWrite("o.txt", "5", ""),
		}},
		{name: "unchanged", strangers: map[string]string{"s.txt": "same"}, made: append(made("a.txt", "b.txt"), txWrite("t.txt", "same", "")), ops: []rw.TxOp{
			txWrite("a.txt", fmt.Sprintf("%s of %s\nmark\n", longText[:300], "a.txt"), replace), txMove("t.txt", "s.txt", true), txWrite("b.txt", "other", replace),
		}},
		{name: "empty", made: []rw.TxOp{txWrite("a", "", ""), txWrite("b", "", ""), txWrite("c", "c", ""), txWrite("d", "", "")}, ops: []rw.TxOp{
			txDelete("a"), txMove("b", "m", false), txWrite("c", "", replace), txWrite("n/e", "", ""), txMove("d", "o/d", true),
		}},
		{name: "beginning", // the version before each of them begins like it
			made: []rw.TxOp{
				txWrite("a", longText, ""), txWrite("b", longText+otherText, ""), txWrite("c", longText, ""),
				txWrite("a", "", replace), txWrite("b", longText, replace), txWrite("c", longText[:600], replace),
			},
			ops: []rw.TxOp{txDelete("a"), txWrite("b", "more", add), txWrite("c", otherText, replace)}},
		{name: "staged", staged: true, made: made("a.txt", "b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txWrite("a.txt", otherText, replace), txWrite("a.txt", "more", add), txDelete("b.txt"), txMove("d/c.txt", "n/c.txt", false),
			txEdit("d/d.txt", "mark", "landmark"), txWrite("n/e.txt", "", ""),
		}},
		{name: "no_exchange", plain: true, made: made("a.txt", "b.txt", "c.txt", "d.txt"), ops: []rw.TxOp{
			txWrite("a.txt", otherText, replace), txMove("b.txt", "c.txt", true), txDelete("d.txt"), txWrite("n/e.txt", "e", ""),
		}},
		{name: "eight", segment: 900, made: append(made("a", "b", "d/c", "d/e", "f"), txWrite("b", otherText, replace)), ops: []rw.TxOp{
			txWrite("n/1", longText, ""), txWrite("a", "short", replace), txWrite("b", longText, add), txEdit("d/c", "mark", longText),
			txDelete("d/e"), txMove("f", "n/2", false), txWrite("g", otherText, add),
		}},
	}
}

// txSize is about how many files a random transaction changes.
const txSize = 8

// randomTx makes a transaction of one to eight files from a seed.
func randomTx(seed uint64) txDraft {
	g := &txMaker{rng: rand.New(rand.NewPCG(seed, 0x7a)), draft: txDraft{name: fmt.Sprintf("seed_%d", seed), strangers: map[string]string{}}}
	g.draft.plain, g.draft.staged = g.rng.IntN(8) == 0, g.rng.IntN(5) == 0
	if g.rng.IntN(4) == 0 {
		g.draft.segment = 700
	}
	want := 1 + g.rng.IntN(txSize)
	for g.files < want {
		g.add(want - g.files)
	}
	g.rng.Shuffle(len(g.groups), func(i, j int) { g.groups[i], g.groups[j] = g.groups[j], g.groups[i] })
	// The operations of one file stay in order, those of several mix.
	for len(g.groups) > 0 {
		i := g.rng.IntN(len(g.groups))
		g.draft.ops = append(g.draft.ops, g.groups[i][0])
		if g.groups[i] = g.groups[i][1:]; len(g.groups[i]) == 0 {
			g.groups = append(g.groups[:i], g.groups[i+1:]...)
		}
	}
	return g.draft
}

// txMaker draws a transaction.
type txMaker struct {
	rng    *rand.Rand
	draft  txDraft
	groups [][]rw.TxOp // by file
	files  int
	names  int
}

// name is a path that nothing is at, now and then below directories that are
// not there.
func (g *txMaker) name() string {
	g.names++
	dir := []string{"", "d/", "d/e/", "n/", "n/m/", fmt.Sprintf("o%d/p/", g.names)}[g.rng.IntN(6)]
	return fmt.Sprintf("%sf%d.txt", dir, g.names)
}

// text has a mark that an edit finds, and any length from none to some sectors.
func (g *txMaker) text() string {
	if g.rng.IntN(8) == 0 {
		return ""
	}
	return fmt.Sprintf("text %d mark\n%s", g.rng.Uint32(), longText[:g.rng.IntN(len(longText))])
}

// file is one that is there: a stranger's, or one with a past of any kind.
func (g *txMaker) file(content string) string {
	p := g.name()
	made := func(ops ...rw.TxOp) { g.draft.made = append(g.draft.made, ops...) }
	switch g.rng.IntN(8) {
	case 0, 1:
		g.draft.strangers[p] = content
	case 2:
		made(txWrite(p, g.text()+"first", ""), txWrite(p, content, rw.ModeOverwrite))
	case 3:
		made(txWrite(p, "start"+g.text(), ""), txWrite(p, g.text()+"+", rw.ModeAppend), txWrite(p, content, rw.ModeOverwrite))
	case 4:
		from := g.name()
		made(txWrite(from, content, ""), txMove(from, p, false))
	case 5:
		made(txWrite(p, "deleted", ""), txDelete(p), txWrite(p, content, ""))
	case 6: // recovery must not take the one for the other
		made(txWrite(p, content+"and what the new version leaves out", ""), txWrite(p, content, rw.ModeOverwrite))
	default:
		made(txWrite(p, content, ""))
	}
	return p
}

// free is a path where nothing is, or nothing any more.
func (g *txMaker) free() string {
	p := g.name()
	if g.rng.IntN(3) == 0 {
		g.draft.made = append(g.draft.made, txWrite(p, g.text()+"deleted", ""), txDelete(p))
	}
	return p
}

func (g *txMaker) group(files int, ops ...rw.TxOp) {
	g.groups = append(g.groups, ops)
	g.files += files
}

// add draws the operations of one file, or of two where one is moved.
func (g *txMaker) add(room int) {
	kinds := 11
	if room < 2 {
		kinds = 9
	}
	mark := g.text() + "mark\n"
	switch g.rng.IntN(kinds) {
	case 0:
		g.group(1, txWrite(g.free(), g.text(), rw.ModeCreate))
	case 1:
		g.group(1, txWrite(g.file(g.text()), g.text()+"new", rw.ModeOverwrite))
	case 2:
		g.group(1, txWrite(g.file(g.text()), g.text()+"more", rw.ModeAppend))
	case 3:
		g.group(1, txWrite(g.free(), g.text(), rw.ModeAppend))
	case 4:
		g.group(1, txEdit(g.file(mark), "mark", "landmark"))
	case 5:
		g.group(1, txDelete(g.file(g.text())))
	case 6:
		p := g.file(mark)
		g.group(1, txEdit(p, "mark", "landmark"), txWrite(p, g.text(), rw.ModeAppend))
	case 7:
		p := g.file(mark)
		g.group(1, txDelete(p), txWrite(p, g.text()+"again", rw.ModeCreate))
	case 8:
		p := g.free()
		g.group(1, txWrite(p, mark, rw.ModeCreate), txEdit(p, "mark", "landmark"), txWrite(p, "end", rw.ModeAppend))
	case 9:
		g.group(2, txMove(g.file(g.text()), g.free(), false))
	case 10:
		g.group(2, txMove(g.file(g.text()), g.file(g.text()), true))
	}
}

// seedOf returns the seed of a test and logs it so that a failure can be repeated.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) % 1_000_000_000
	if text := os.Getenv("RW_SEED"); text != "" {
		fmt.Sscan(text, &seed)
	}
	t.Logf("RW_SEED=%d", seed)
	return seed
}

// txShapes are the drafts of the table, and as many random ones.
func txShapes(t *testing.T, random int) []txShape {
	t.Helper()
	var list []txShape
	for _, d := range txDrafts() {
		list = append(list, d.shape())
	}
	seed := seedOf(t)
	for i := range random {
		list = append(list, randomTx(seed+uint64(i)).shape())
	}
	for i := range list {
		list[i].start = i + int(seed%100)
	}
	return list
}

// pastOf returns the hashes of a path's versions, newest first. Their bytes are
// available, with one exception: at level journal the bytes of an append are flushed in
// staging/ only. If the file is replaced before that is settled, a power failure may
// tear the version that is no longer visible, and the one that it was appended to.
func (x txShape) pastOf(t *testing.T, s *rw.Store, path string) []string {
	t.Helper()
	h, err := s.History(background, rw.HistoryRequest{Path: path, N: 1000})
	if errors.Is(err, rw.ErrNotFound) {
		return nil
	}
	noErr(t, err)
	var list []string
	torn := false
	for i, v := range h.Versions {
		list = append(list, v.SHA256.String())
		torn = torn || x.opts.Sync == rw.SyncJournal && v.Op == "append" && i > 0
		if !v.Available && !torn && v.Bytes > 0 { // an empty one is not kept when recovery deletes the file
			t.Errorf("version %d of %s is not available", v.Version, path)
		}
	}
	return list
}
