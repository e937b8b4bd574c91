package resilientwrite_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// exported is the journal of a store as an export.
func exported(t *testing.T, s *rw.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	r := must(s.Admin().Export(background, admin.ExportRequest{W: &b}))(t)
	lines := bytes.Count(b.Bytes(), []byte("\n")) - bytes.Count(b.Bytes(), []byte("\n{\"of\":"))
	require(t, int64(lines) == r.Rows+2, "%d lines, %d rows", lines, r.Rows)
	return b.Bytes()
}

func importInto(t *testing.T, s *rw.Store, data []byte) admin.ImportResult {
	t.Helper()
	return must(s.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(data)}))(t)
}

// richStore is a store with rows of every kind, several segments, an archive
// and an erasure.
func richStore(t *testing.T) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Caller: "tester"}, rw.Sim{Segment: 3000}))(t)
	manyRows(t, s, 5)
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "t1.txt", Content: []byte("1")}, {Op: "write", Path: "t2.txt", Content: []byte("2")}}}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("object")}))(t)
	fs.Inject(func(op simfs.Op) simfs.Fault { // a commit that is rolled back
		if op.Kind == "rename" && strings.HasSuffix(op.To, "aborted.txt") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	require(t, errorOf(s.SafeWrite(background, put("aborted.txt", "x", rw.ModeCreate))) != nil, "not aborted")
	fs.Inject(nil)
	r := put("secret-of-the-caller.txt", "x", rw.ModeCreate)
	must(s.SafeWrite(background, r))(t)
	compact(t, s, admin.CompactRequest{KeepRows: none()})
	erase(t, s, admin.EraseRequest{Secret: []byte("secret-of-the-caller")})
	check(t, s, false)
	return fs, s
}

// TestExportComesBack: a fresh store that imports an export shows the same rows under
// the same ids, in tail and history, once, however often the export is imported.
func TestExportComesBack(t *testing.T) {
	_, s := richStore(t)
	data := exported(t, s)
	want, _ := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
	fs := simfs.New()
	fresh := must(rw.OpenSim(fs, nil, rw.Sim{Segment: 3000, Nonce: "0fff"}))(t)
	plan, err := fresh.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(data), Call: rw.Call{DryRun: true}})
	n, _ := fresh.CountRows()
	require(t, err == nil && n == 0 && plan.Rows != 0, "dry run: %v %+v, %d rows", err, plan, n)
	r := importInto(t, fresh, data)
	expect(t, r.Rows == plan.Rows && r.Imported == plan.Imported && r.Skipped == plan.Skipped && r.Imported != 0 && r.Imported+r.Skipped == r.Rows &&
		r.Status == rw.StatusSucceeded, "%+v", r)
	look := func(s *rw.Store) {
		t.Helper()
		got := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true}))(t)
		i := 0
		for _, w := range want.Entries {
			if strings.HasPrefix(w.Path, rw.StateDirName) {
				continue // of the old state directory
			}
			require(t, i != len(got.Entries), "%s is missing", w.JournalID)
			g := got.Entries[i]
			i++
			expect(t, g.JournalID == w.JournalID && g.Path == w.Path && g.SHA256 == w.SHA256 && g.TS == w.TS && g.Op == w.Op && g.Kind == w.Kind &&
				g.Caller == w.Caller && g.Tx == w.Tx && g.Rev == w.Rev && g.Reason == w.Reason && g.InvocationID == w.InvocationID,
				"imported %+v\nwas %+v", g, w)
		}
		expect(t, i == len(got.Entries), "%d entries too many", len(got.Entries)-i)
		h, err := s.History(background, rw.HistoryRequest{Path: "moved.txt", N: 100})
		expect(t, err == nil && len(h.Versions) == 6 && !h.Versions[0].Available, "%v %+v", err, h)
		check(t, s, true)
	}
	look(fresh)
	again := importInto(t, fresh, data)
	expect(t, again.Status == rw.StatusUnchanged && again.Present == r.Imported && again.Imported == 0, "again: %+v", again)
	fresh.Close(background)
	fresh = must(rw.OpenSim(fs, nil, rw.Sim{Segment: 3000, Nonce: "0eee"}))(t)
	look(fresh)
	write(t, fresh, "a.txt", "goes on here", rw.ModeCreate)
	must(fresh.Undo(background, rw.UndoRequest{}))(t)
	fails(fresh.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "tester"}, N: 1}))(t, rw.ErrNothingToUndo, "an imported commit was undone")
	// An export of an import is an export.
	must(fresh.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(exported(t, fresh)), Call: rw.Call{DryRun: true}, AllowNonEmpty: true}))(t)
}

// TestImportBesideACommit: an import adds rows about the path of a commit in progress. The
// commit is refused, because it does not follow these rows; the next one does.
func TestImportBesideACommit(t *testing.T) {
	old := must(rw.OpenSim(simfs.New(), nil, rw.Sim{}))(t)
	write(t, old, "a.txt", "old", rw.ModeCreate)
	data := exported(t, old)
	fs := simfs.New()
	s, other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t), must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	fs.Before(func(op simfs.Op) {
		if op.Kind == "lock" && strings.HasSuffix(op.Path, "/locks/journal") {
			fs.Before(nil)
			importInto(t, other, data)
		}
	})
	fails(s.SafeWrite(background, put("a.txt", "new", rw.ModeCreate)))(t, rw.ErrChangedDuringWrite)
	write(t, s, "a.txt", "new", rw.ModeCreate)
	check(t, s, true)
}

// TestDamagedExportsLeaveNothing: if any byte is changed, a line lost or the end cut
// off, the import is refused and the disk is unchanged.
func TestDamagedExportsLeaveNothing(t *testing.T) {
	_, old := richStore(t)
	data := exported(t, old)
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	last := len(lines) - 1
	join := func(l ...[]string) string {
		var b strings.Builder
		for _, part := range l {
			b.WriteString(strings.Join(part, ""))
		}
		return b.String()
	}
	bad := map[string]string{
		"empty": "", "no header": join(lines[1:]), "header twice": join(lines[:1], lines), "no footer": join(lines[:last]),
		"row lost": join(lines[:4], lines[5:]), "row twice": join(lines[:5], lines[4:]), "rows swapped": join(lines[:4], lines[5:6], lines[4:5], lines[6:]),
		"row changed": strings.Replace(string(data), `"caller":"tester"`, `"caller":"forger"`, 1), "garbage in front": "garbage\n" + string(data),
		"trailing data": string(data) + "\n{}", "another format": strings.Replace(string(data), "journal-export", "other-export", 1),
		"long line": join(lines[:3]) + strings.Repeat("x", 1<<20) + "\n" + join(lines[3:]), "blank line": join(lines[:3]) + "\n" + join(lines[3:]),
		"a binary": string([]byte{0x7f, 'E', 'L', 'F', 0, 0, 0, 1}), "json of another kind": "[1,2,3]\n", "only a footer": lines[last],
	}
	for i := 1; i < len(data); i += max(1, len(data)/40) {
		bad[fmt.Sprint("cut at ", i)] = string(data[:i])
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x10
		bad[fmt.Sprint("bit flipped at ", i)] = string(flipped)
	}
	fs := simfs.New()
	s, _ := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0fff"})
	before := treeOf(fs)
	for name, text := range bad {
		_, err := s.Admin().Import(background, admin.ImportRequest{R: strings.NewReader(text)})
		var e *rw.Error
		expect(t, errors.Is(err, rw.ErrExportDamaged) && errors.As(err, &e) && e.Effect == rw.EffectNone, "%s: %v", name, err)
		after := treeOf(fs)
		require(t, after == before, "%s: left\n%s\nthere was\n%s", name, after, before)
	}
	newer := strings.Replace(string(data), `"version":1`, `"version":9`, 1)
	fails(s.Admin().Import(background, admin.ImportRequest{R: strings.NewReader(newer)}))(t, rw.ErrNewerFormat)
	fails(s.Admin().Import(background, admin.ImportRequest{R: iotest.TimeoutReader(bytes.NewReader(data))}))(t, rw.ErrIO)
	fails(s.Admin().Import(background, admin.ImportRequest{}))(t, rw.ErrInvalidArgument)
	equal(t, treeOf(fs), before, "left there")
	importInto(t, s, data) // the sound one still works
}

// TestForgedExportsHarmNothing: an export that was made by hand, with matching hashes,
// adds no path outside of the workspace and no row that a reader cannot handle.
func TestForgedExportsHarmNothing(t *testing.T) {
	var rows []string
	for i, m := range []string{
		`{"op":"create","path":"../../etc/passwd","sha256":"","bytes":0,"prev_sha256":""}`, `{"op":"create","path":"/abs","sha256":"","bytes":0,"prev_sha256":""}`,
		`{"op":"create","path":".resilient_write/meta.json","sha256":"","bytes":0,"prev_sha256":""}`, `{"op":"create","path":"a\u0000b","sha256":"","bytes":0,"prev_sha256":""}`,
		`{"op":"create","path":"ok.txt","sha256":"nothex","bytes":0,"prev_sha256":""}`, `{"op":"create","path":"ok.txt","real":"../x","sha256":"","bytes":0,"prev_sha256":""}`,
		`{"op":"create","path":"ok.txt","sha256":"","bytes":0,"prev_sha256":"","prev_bytes":-1}`, `{"op":"create","path":"ok.txt","sha256":"","bytes":0,"prev_sha256":"","prev_git":"HEAD"}`,
		`{"op":"create","path":"ok.txt","sha256":"","bytes":0,"prev_sha256":"","mode":4294967295}`, `{"op":"create","path":"ok.txt","sha256":"","bytes":0,"prev_sha256":"","prev_mode":41471}`,
		`{"op":"` + strings.Repeat("x", 2000) + `","path":"ok.txt","sha256":"","bytes":-5,"prev_sha256":""}`, `{"op":"create","path":"fine.txt","sha256":"` + hash("fine") + `","bytes":4,"prev_sha256":"","mode":2541}`,
	} {
		rows = append(rows, fmt.Sprintf(`{"seq":%d,"ts":"2026-01-01T00:00:00Z","kind":"commit","writer":"w","chain":"CHAIN","settled":0,"caller":"x","muts":[%s]}`, i+1, m))
	}
	data := forgeExport(rows)
	fs := simfs.New()
	s, _ := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0fff"})
	r := importInto(t, s, data)
	expect(t, r.Imported == 1 && r.Skipped == 11, "%+v", r)
	check(t, s, true)
	tail, err := s.JournalTail(background, rw.JournalTailRequest{N: 100})
	require(t, err == nil && len(tail.Entries) == 1 && tail.Entries[0].Path == "fine.txt", "%v %+v", err, tail)
	write(t, s, "same.txt", "fine", rw.ModeCreate)
	must(s.Restore(background, rw.RestoreRequest{Path: "fine.txt", Version: tail.Entries[0].Seq, Force: true}))(t)
	st := must(fs.Foreign().Lstat("fine.txt"))(t)
	equal(t, st.Mode, 0o755, "the mode of another machine is")
}

// TestImportOfNamesThatTakeMoreInJSON: a row of many files, whose names take several times
// their length in a row, becomes rows that fit.
func TestImportOfNamesThatTakeMoreInJSON(t *testing.T) {
	const files = 300
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	at := filepath.Join(dir, strings.Repeat("<", 250), strings.Repeat("&", 250))
	noErr(t, os.MkdirAll(at, 0o755))
	must(s.Scan(background, around.ScanRequest{}))(t)
	for i := range files {
		noErr(t, os.WriteFile(filepath.Join(at, fmt.Sprint(i)), []byte("x"), 0o644))
	}
	must(s.Scan(background, around.ScanRequest{}))(t)
	fresh, _ := opened(t, &rw.Options{Sync: rw.SyncOff})
	importInto(t, fresh, exported(t, s))
	tail := must(fresh.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeObserved: true}))(t)
	length(t, tail.Entries, files, "files")
}

// forgeExport makes an export of rows, with chain and hashes that fit.
func forgeExport(rows []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"format":"resilientwrite.journal-export","version":1,"head":%d,"created_at":"","tool_version":""}`+"\n", len(rows))
	chain := strings.Repeat("0", 64)
	for _, row := range rows {
		row = strings.Replace(row, "CHAIN", chain, 1)
		chain = hash(row)
		b.WriteString(row + "\n")
	}
	fmt.Fprintf(&b, `{"end":true,"first":1,"last":%d,"rows":%d,"malformed":0,"chain":%q,"sha256":%q}`+"\n", len(rows), len(rows), chain, hash(b.String()))
	return b.Bytes()
}

// TestImportIntoAStoreWithRows is refused unless it is requested, and then changes no
// history of the store.
func TestImportIntoAStoreWithRows(t *testing.T) {
	_, old := richStore(t)
	data := exported(t, old)
	s, _ := opened(t, nil)
	write(t, s, "a.txt", "mine", rw.ModeCreate)
	fails(s.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(data)}))(t, rw.ErrStoreNotEmpty)
	mine := allHistory(t, s, "a.txt")
	r, err := s.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(data), AllowNonEmpty: true})
	require(t, err == nil && r.Imported != 0, "%v %+v", err, r)
	equal(t, allHistory(t, s, "a.txt"), mine, "history of a.txt became\n")
	h := must(s.History(background, rw.HistoryRequest{Path: "t1.txt"}))(t)
	expect(t, len(h.Versions) == 1, "%+v", h)
	check(t, s, true)
	equal(t, must(s.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(data), AllowNonEmpty: true}))(t).Imported, 0)
	must(s.Undo(background, rw.UndoRequest{}))(t)
}

// TestExportIsOneMoment: rows written while an export runs are not in it, and each
// export is sound by itself.
func TestExportIsOneMoment(t *testing.T) {
	t.Parallel()
	s, _ := opened(t, &rw.Options{Sync: rw.SyncOff})
	noErr(t, s.FillJournal(3000))
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 40 {
				write(t, s, fmt.Sprintf("w%d.txt", w), fmt.Sprint(i), rw.ModeOverwrite)
			}
		})
	}
	for range 3 {
		data := exported(t, s)
		var head struct {
			Head int64 `json:"head"`
		}
		first, _, _ := strings.Cut(string(data), "\n")
		json.Unmarshal([]byte(first), &head)
		rows := int64(bytes.Count(data, []byte("\n"))) - 2
		expect(t, head.Head == rows, "the head is %d, the export has %d rows", head.Head, rows)
		other := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		equal(t, importInto(t, other, data).Imported, head.Head)
	}
	wg.Wait()
}

// TestExportStreams: a slow or broken reader costs no memory and is reported.
func TestExportStreams(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	noErr(t, s.FillJournal(300))
	pr, pw := io.Pipe()
	go func() {
		_, err := s.Admin().Export(background, admin.ExportRequest{W: pw})
		pw.CloseWithError(err)
	}()
	other := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	equal(t, must(other.Admin().Import(background, admin.ImportRequest{R: iotest.OneByteReader(bufio.NewReader(pr))}))(t).Imported, 300)
	for name, w := range map[string]io.Writer{"broken": iotest.TruncateWriter(brokenWriter{errors.New("gone")}, 1<<20), "full": brokenWriter{syscall.ENOSPC}, "none": nil} {
		_, err := s.Admin().Export(background, admin.ExportRequest{W: w})
		want := map[string]rw.Detail{"broken": rw.ErrIO, "full": rw.ErrDiskFull, "none": rw.ErrInvalidArgument}[name]
		expect(t, errors.Is(err, want) && rw.AsError("", err).Effect == rw.EffectNone, "%s: %v", name, err)
	}
	ro := open(t, dir, &rw.Options{ReadOnly: true})
	must(ro.Admin().Export(background, admin.ExportRequest{W: io.Discard}))(t, "from a read-only store")
	must(os.Stat(statePath(dir, "staging")))(t)
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

// TestImportSweep kills Import everywhere and makes every operation fail.
func TestImportSweep(t *testing.T) {
	t.Parallel()
	_, old := richStore(t)
	data := exported(t, old)
	upkeepSweep{
		step: 2, name: "import", sim: rw.Sim{Segment: 3000},
		before: func(t *testing.T, s *rw.Store) {},
		run: func(ctx context.Context, s *rw.Store) error {
			return errorOf(s.Admin().Import(ctx, admin.ImportRequest{R: bytes.NewReader(data)}))
		},
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			h, err := s.History(background, rw.HistoryRequest{Path: "moved.txt", N: 100})
			expect(t, err == nil && len(h.Versions) == 6, "%v %+v", err, h)
			r := importInto(t, s, data)
			expect(t, r.Imported == 0 && r.Status == rw.StatusUnchanged, "%+v", r)
		},
	}.sweeps(t)
}
