package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var background = context.Background()

// endless is a long text that need not be held in memory.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	for i := range p[:n] {
		p[i] = 'a' + byte((e.left-int64(i))%26)
	}
	e.left -= n
	return int(n), nil
}

// snapshot returns everything that a refusal must leave unchanged.
func snapshot(t testing.TB, dir string) string { return described(t, dir, rw.StateDirName) }

// described returns the modes of what is in a directory, and the times and content of files.
func described(t testing.TB, dir string, without ...string) string {
	t.Helper()
	var b strings.Builder
	for e := range testbed.Entries(t, dir, without...) {
		fmt.Fprintf(&b, "%s %v", e.Path, e.Info.Mode())
		if e.Info.Mode().IsRegular() {
			fmt.Fprintf(&b, " %v %d bytes %.12s", e.Info.ModTime().UnixNano(), len(e.Text), hash(e.Text))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// stateSnapshot is everything in the workspace and in the parts of the state
// directory that hold content, but for some; times too.
func stateSnapshot(t *testing.T, dir string, but ...string) string {
	t.Helper()
	quiesce(dir)
	var b strings.Builder
	b.WriteString(snapshot(t, dir))
	for _, part := range []string{"scratch", "checkpoints", "chunks", "handoffs", "quarantine", "history", "staging"} {
		if slices.Contains(but, part) {
			continue
		}
		for e := range testbed.Entries(t, statePath(dir, part)) {
			fmt.Fprintf(&b, "%s %s %v %v %.12s\n", part, e.Path, e.Info.Mode(), e.Info.ModTime().UnixNano(), hash(e.Text))
		}
	}
	return b.String()
}

// deny makes a call that must be refused with a detail and a complete envelope, and
// must change nothing on disk; a draft may be kept.
func deny(t *testing.T, s *rw.Store, dir, what string, want rw.Detail, call func() error) *rw.Error {
	t.Helper()
	but := []string{"staging"} // free slots may be used up
	if want == rw.ErrRiskBlocked {
		but = append(but, "quarantine")
	}
	before := stateSnapshot(t, dir, but...)
	err := call()
	require(t, errors.Is(err, want), "%.60q: %v (%v), want %s", what, err, errors.Unwrap(err), want)
	after := stateSnapshot(t, dir, but...)
	require(t, after == before, "%.60q: the refusal changed\n%s\nto\n%s", what, before, after)
	if left, _ := s.Unfinished(); len(left) > 0 {
		nothingStaged(t, s)
	}
	e := rw.AsError("", err)
	expect(t, e.Effect == rw.EffectNone && e.Hint != "" && e.Op != "", "%.60q: incomplete error %+v", what, e)
	doc := conformsEnvelope(t, e)
	expect(t, !strings.Contains(string(doc)+e.Error(), dir), "%.60q: the error shows an absolute path: %s", what, doc)
	return e
}

// refused denies a write.
func refused(t *testing.T, s *rw.Store, dir string, r rw.SafeWriteRequest, want rw.Detail) *rw.Error {
	t.Helper()
	e := deny(t, s, dir, r.Path, want, calling(s.SafeWrite, r))
	equal(t, e.Op, "safe_write")
	return e
}

func TestPathsNeverLeaveTheWorkspace(t *testing.T) {
	dir := workspace(t)
	outside := filepath.Join(filepath.Dir(dir), "ws-sibling")
	os.Mkdir(outside, 0o755)
	os.WriteFile(filepath.Join(outside, "x"), []byte("outside"), 0o644)
	for link, target := range map[string]string{
		"out": outside, "dangling": filepath.Join(outside, "new"), "up": "..", "loop": "loop", "chain": "out",
		"state": rw.StateDirName, "git": ".git",
	} {
		noErr(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	os.Mkdir(filepath.Join(dir, ".git"), 0o755)
	os.Mkdir(filepath.Join(dir, "adir"), 0o755)
	os.WriteFile(filepath.Join(dir, "afile"), []byte("x"), 0o644)
	s := open(t, dir, nil)
	for path, want := range map[string]rw.Detail{
		"": rw.ErrEmptyPath, ".": rw.ErrIsADirectory, "..": rw.ErrEscapesWorkspace, "../x": rw.ErrEscapesWorkspace, "a/../../x": rw.ErrEscapesWorkspace,
		`a\..\..\x`: rw.ErrEscapesWorkspace, "a\x00b": rw.ErrInvalidPath, "\xff": rw.ErrInvalidPath, "/etc/passwd": rw.ErrAbsolutePathRejected,
		`C:\x`: rw.ErrAbsolutePathRejected, `\\host\share`: rw.ErrAbsolutePathRejected, dir + "-sibling/x": rw.ErrAbsolutePathRejected, dir: rw.ErrIsADirectory,
		"out/x": rw.ErrEscapesWorkspace, "dangling": rw.ErrEscapesWorkspace, "up/x": rw.ErrEscapesWorkspace, "chain/x": rw.ErrEscapesWorkspace, "loop": rw.ErrSymlinkLoop,
		".git/config": rw.ErrProtectedPath, ".GIT/hooks/x": rw.ErrProtectedPath, "sub/.git/config": rw.ErrProtectedPath, ".git": rw.ErrProtectedPath,
		"git~1/x": rw.ErrProtectedPath, ".git./x": rw.ErrProtectedPath, ".g\u200cit/x": rw.ErrProtectedPath, "git/config": rw.ErrProtectedPath,
		".resilient_write/meta.json": rw.ErrProtectedPath, ".Resilient_Write/x": rw.ErrProtectedPath, "state/journal/x": rw.ErrProtectedPath,
		"adir": rw.ErrIsADirectory, "adir/": rw.ErrIsADirectory, "afile/x": rw.ErrNotADirectory,
		strings.Repeat("n", 256): rw.ErrPathTooLong, strings.Repeat("d/", 2100) + "x": rw.ErrPathTooLong,
	} {
		refused(t, s, dir, put(path, "evil", rw.ModeOverwrite), want)
	}
	// A refusal before the path was checked does not reveal the path either.
	_, err := s.SafeWrite(adapter.WithMalformed(background, []string{"content"}), rw.SafeWriteRequest{Path: "/etc/passwd"})
	text, _ := json.Marshal(rw.AsError("", err))
	expect(t, errors.Is(err, rw.ErrBadBase64) && !strings.Contains(string(text), "etc"), "%v: %s", err, text)
	// A path of the workspace may be absolute, and a link that stays inside is
	// followed and stays.
	r := write(t, s, filepath.Join(dir, "abs.txt"), "ok", rw.ModeCreate)
	equal(t, r.Path, "abs.txt", "path")
	os.Symlink(filepath.Join(dir, "abs.txt"), filepath.Join(dir, "inside"))
	r = write(t, s, "inside", "through", rw.ModeOverwrite)
	equal(t, r.Receipt.RealPath, "abs.txt", "real path")
	st, _ := os.Lstat(filepath.Join(dir, "inside"))
	expect(t, st.Mode()&os.ModeSymlink != 0, "the link is gone")
	fileIs(t, dir, "abs.txt", "through")
	os.Symlink("fresh/target.txt", filepath.Join(dir, "soon"))
	write(t, s, "soon", "made", rw.ModeCreate)
	fileIs(t, dir, "fresh/target.txt", "made")
	fileIs(t, outside, "x", "outside")
	long := strings.Repeat("n", 254)
	write(t, s, long, "254", rw.ModeCreate)
	write(t, s, long, "254 again", rw.ModeOverwrite)
	check(t, s, true)
}

func TestPreconditions(t *testing.T) {
	s, dir := opened(t, nil)
	big := strings.Repeat("x", 2000)
	a := write(t, s, "a.txt", big, rw.ModeCreate)
	none, wrong := "", hash("another file")
	upper := strings.ToUpper(a.SHA256.String())

	e := refused(t, s, dir, put("a.txt", "b", rw.ModeCreate), rw.ErrFileAlreadyExists)
	equal[any](t, e.Context["existing_sha256"], a.SHA256.String(), e.Context)
	e = refused(t, s, dir, put("a.txt", big, rw.ModeCreate), rw.ErrFileAlreadyExists)
	expect(t, strings.Contains(e.Hint, "already_applied"), "hint %s", e.Hint)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(big + "!"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(wrong))}, rw.ErrHashMismatch)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(big + "!"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(none))}, rw.ErrHashMismatch)
	one := write(t, s, "d.txt", "one\ntwo\n", rw.ModeCreate)
	write(t, s, "d.txt", "one\n2\n", rw.ModeOverwrite)
	e = refused(t, s, dir, rw.SafeWriteRequest{Path: "d.txt", Content: []byte("x"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(one.SHA256)}, rw.ErrHashMismatch)
	diff, _ := e.Context["diff"].(string)
	expect(t, strings.Contains(diff, "-two\n+2\n"), "no diff since the version that was expected: %v", e.Context)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "deep/new.txt", Content: []byte("!"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(wrong))}, rw.ErrHashMismatch)
	refused(t, s, dir, put("a.txt", "short", rw.ModeOverwrite), rw.ErrDestructiveShrink)
	refused(t, s, dir, put("a.txt", "", rw.ModeOverwrite), rw.ErrDestructiveShrink)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Mode: "upsert"}, rw.ErrInvalidArgument)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Mode: rw.ModeAppend, EOL: "cr"}, rw.ErrInvalidArgument)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "b.txt", Content: []byte("x"), ContentSHA256: digest(wrong)}, rw.ErrContentHashMismatch)
	os.Chmod(filepath.Join(dir, "a.txt"), 0o444)
	refused(t, s, dir, put("a.txt", big+"!", rw.ModeOverwrite), rw.ErrReadOnlyFile)

	r, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(upper)), AllowShrink: true, Force: true})
	require(t, err == nil && r.Bytes == 1, "%v", err)
	st, _ := os.Stat(filepath.Join(dir, "a.txt"))
	expect(t, st.Mode().Perm() == 0o444, "mode %v", st.Mode())
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 100, IncludeRefused: true}))(t)
	refusals := testbed.Count(tail.Entries, func(e rw.JournalEntry) bool { return e.Kind == "refused" })
	equal(t, refusals, 12, "refusals in the journal")
	check(t, s, true)
}

func TestUnchangedAndDryRunTouchNothing(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "one\ntwo\n", rw.ModeCreate)
	before := snapshot(t, dir)
	r := write(t, s, "a.txt", "one\ntwo\n", rw.ModeOverwrite)
	expect(t, r.Status == rw.StatusUnchanged && r.JournalID == "", "%+v", r)
	d, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("one\n2\n"), Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}})
	require(t, err == nil && d.Receipt.DryRun && strings.Contains(d.Diff, "-two") && strings.Contains(d.Diff, "+2"), "%v %+v", err, d)
	d, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: "new/dir/b.txt", Content: []byte("b\n"), Call: rw.Call{DryRun: true}})
	require(t, err == nil && d.Bytes == 2, "%v %+v", err, d)
	fails(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("b\n"), Call: rw.Call{DryRun: true}}))(t, rw.ErrFileAlreadyExists)
	equal(t, snapshot(t, dir), before, "changed")
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{IncludeRefused: true})
	equal(t, len(tail.Entries), 1, "rows")
}

func TestLineEndingsAndBOM(t *testing.T) {
	s, dir := opened(t, nil)
	bom := "\ufeff"
	for i, row := range []struct{ old, sent, eol, bom, want, warn string }{
		{"a\r\nb\r\n", "c\nd\n", "", "", "c\nd\n", call.WarnEOLChanged},
		{"a\r\nb\r\n", "c\nd\n", "preserve", "", "c\r\nd\r\n", ""},
		{"a\nb\n", "c\r\nd\r\n", "preserve", "", "c\nd\n", ""},
		{"a\nb\n", "c\nd", "crlf", "", "c\r\nd", ""},
		{"a\r\n", "c\r\nd\r\re\n", "lf", "", "c\nd\r\re\n", ""},
		{bom + "a\n", "b\n", "", "", "b\n", call.WarnBOMDropped},
		{bom + "a\n", "b\n", "", "preserve", bom + "b\n", ""},
		{bom + "a\n", bom + "b\n", "", "preserve", bom + "b\n", ""},
		{"latin \xe9 no end", "b\x00", "", "", "b\x00", call.WarnNULBytes},
		{"a\x00", "b\x00", "", "", "b\x00", ""},
	} {
		path := fmt.Sprintf("f%d.txt", i)
		os.WriteFile(filepath.Join(dir, path), []byte(row.old), 0o644)
		r := must(s.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte(row.sent), Mode: rw.ModeOverwrite, EOL: row.eol, BOM: row.bom}))(t)
		fileIs(t, dir, path, row.want)
		var warns []string
		for _, w := range r.Warnings {
			warns = append(warns, w.Reason)
		}
		equal(t, strings.Join(warns, " "), row.warn, i, ": warnings ", warns, "")
	}
	os.WriteFile(filepath.Join(dir, "crlf.txt"), []byte("a\r\n"), 0o644)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "crlf.txt", Content: []byte("b\n"), Mode: rw.ModeAppend, EOL: "preserve"}))(t)
	fileIs(t, dir, "crlf.txt", "a\r\nb\r\n")
}

// TestOneWinner: of eight writers with one expected hash, and of eight that
// create one path, exactly one wins; sixty parallel appends are sixty lines
// and sixty rows, also through a symlink.
func TestOneWinner(t *testing.T) {
	s, dir := opened(t, nil)
	first := write(t, s, "a.txt", "start", rw.ModeCreate)
	os.Symlink("a.txt", filepath.Join(dir, "alias"))
	os.Symlink("log.txt", filepath.Join(dir, "log-alias"))
	count := func(n int, run func(i int) error) int {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range n {
			wg.Go(func() {
				if run(i) == nil {
					mu.Lock()
					won++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return won
	}
	if won := count(8, func(i int) error {
		return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: []string{"a.txt", "alias"}[i%2], Content: []byte(fmt.Sprint(i)), Mode: rw.ModeOverwrite, Expect: rw.Exactly(first.SHA256)}))
	}); won != 1 {
		t.Errorf("%d overwrites won", won)
	}
	if won := count(8, func(i int) error {
		return errorOf(s.SafeWrite(background, put("x/y/new.txt", fmt.Sprint(i), rw.ModeCreate)))
	}); won != 1 {
		t.Errorf("%d creates won", won)
	}
	if won := count(60, func(i int) error {
		return errorOf(s.SafeWrite(background, put([]string{"log.txt", "log-alias"}[i%2], fmt.Sprintf("%d\n", i), rw.ModeAppend)))
	}); won != 60 {
		t.Errorf("%d appends", won)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "log.txt"))
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{N: 1000})
	rows := testbed.Count(tail.Entries, func(e rw.JournalEntry) bool { return e.Path == "log.txt" || e.RealPath == "log.txt" })
	n := strings.Count(string(data), "\n")
	expect(t, n == 60 && rows == 60, "%d lines, %d rows", n, rows)
	check(t, s, true)
}

// TestStrangers: another program writes between the check and the publishing.
func TestStrangers(t *testing.T) {
	s, dir := opened(t, nil)
	at := func(stage rw.Stage, act func()) func() {
		return failpoint.Arm(func(point string) {
			if point == string(stage) {
				act()
			}
		})
	}
	name := func(p string) string { return filepath.Join(dir, p) }

	disarm := at(rw.StagePublish, func() { os.WriteFile(name("new.txt"), []byte("stranger"), 0o644) })
	_, err := s.SafeWrite(background, put("new.txt", "ours", rw.ModeCreate))
	disarm()
	expect(t, errors.Is(err, rw.ErrFileAlreadyExists) && rw.AsError("", err).Effect == rw.EffectNone, "create: %v", err)
	fileIs(t, dir, "new.txt", "stranger")

	a := write(t, s, "a.txt", "ours one", rw.ModeCreate)
	disarm = at(rw.StagePublish, func() { os.WriteFile(name("a.txt"), []byte("stranger was here"), 0o644) })
	r, err := s.SafeWrite(background, put("a.txt", "ours two", rw.ModeOverwrite))
	disarm()
	require(t, err == nil && len(r.Warnings) == 1 && r.Warnings[0].Reason == call.WarnForeignWriteKept, "overwrite: %v %v", err, r.Warnings)
	kept, err := os.ReadFile(filepath.Join(dir, rw.StateDirName, "history", hash("stranger was here")[:2], hash("stranger was here")))
	expect(t, err == nil && string(kept) == "stranger was here", "the stranger's bytes are lost: %v", err)
	s.Close(background)
	s = open(t, dir, nil)
	rows := must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64)}))(t)
	i := slices.IndexFunc(rows.Entries, func(e rw.JournalEntry) bool { return e.Kind == "note" && e.Path == "a.txt" && e.Reason == "stranger" })
	require(t, i >= 0, "%+v", rows.Entries)
	write(t, s, "b.txt", "ours", rw.ModeCreate)
	for path, of := range map[string]string{"a.txt": "no version", "b.txt": "stranger was here"} {
		fails(s.Restore(background, rw.RestoreRequest{Path: path, SHA256: digest(hash(of))}))(t, rw.ErrVersionNotFound, path)
	}
	_, err = s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: rows.Entries[i].SHA256})
	noErr(t, err, "restore by the hash")
	fileIs(t, dir, "a.txt", "stranger was here")
	write(t, s, "a.txt", "ours two", rw.ModeOverwrite)

	// Who names the version it replaces does not replace another one.
	disarm = at(rw.StagePublish, func() { os.WriteFile(name("a.txt"), []byte("stranger again!"), 0o644) })
	two := hash("ours two")
	_, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("ours three"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(two))})
	disarm()
	expect(t, errors.Is(err, rw.ErrChangedDuringWrite) && rw.AsError("", err).Effect == rw.EffectNone, "guarded overwrite: %v", err)
	fileIs(t, dir, "a.txt", "stranger again!")

	// An edit is one of the version whose hash was taken.
	disarm = at(rw.StageCompose, func() { os.WriteFile(name("a.txt"), []byte("stranger, half way"), 0o644) })
	_, err = s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "stranger", New: "ours"}}})
	disarm()
	expect(t, errors.Is(err, rw.ErrChangedDuringWrite) && rw.AsError("", err).Effect == rw.EffectNone, "edit: %v", err)
	fileIs(t, dir, "a.txt", "stranger, half way")

	disarm = at(rw.StagePublish, func() { os.Remove(name("a.txt")) })
	_, err = s.SafeWrite(background, put("a.txt", "ours four", rw.ModeOverwrite))
	disarm()
	noErr(t, err, "overwrite of a removed file")
	fileIs(t, dir, "a.txt", "ours four")
	_ = a
	check(t, s, true)
}

// TestIdempotencyKeys: the same request with the same key happens once, also
// over a restart; another request with the key is refused.
func TestIdempotencyKeys(t *testing.T) {
	s, dir := opened(t, nil)
	r := rw.SafeWriteRequest{Path: "a.log", Content: []byte("line\n"), Mode: rw.ModeAppend, Call: rw.Call{IdempotencyKey: "k1"}}
	first := must(s.SafeWrite(background, r))(t)
	for range 2 {
		again, err := s.SafeWrite(background, r)
		require(t, err == nil && again.Status == rw.StatusReplayed && again.JournalID == first.JournalID && again.SHA256 == first.SHA256, "%v %+v",
			err, again)
		s.Close(background)
		s = open(t, dir, nil)
	}
	fileIs(t, dir, "a.log", "line\n")
	other := r
	other.Content = []byte("other\n")
	refused(t, s, dir, other, rw.ErrIdempotencyKeyReused)
	// A refusal leaves the key free.
	stale := strings.Repeat("0", 64)
	refused(t, s, dir, rw.SafeWriteRequest{Path: "a.log", Content: []byte("x"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(stale)), Call: rw.Call{IdempotencyKey: "k2"}}, rw.ErrHashMismatch)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "b.log", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "k2"}}))(t)
	// Eight at once: one is executed, all get the same result.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "c.log", Content: []byte("once\n"), Mode: rw.ModeAppend, Call: rw.Call{IdempotencyKey: "k3"}})
			expect(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	fileIs(t, dir, "c.log", "once\n")
	check(t, s, true)
}

// TestStreamingNeedsConstantMemory writes and replaces a file far larger than
// what may be allocated for it.
func TestStreamingNeedsConstantMemory(t *testing.T) {
	size := int64(24 << 20)
	if *long {
		size = 1 << 30
	}
	s, _ := opened(t, &rw.Options{Sync: rw.SyncOff})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 {
		mustEqual(t, must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big.bin", Mode: rw.ModeOverwrite}, &endless{left: size}))(t).Bytes, size)
		size++
	}
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	expect(t, used <= 32<<20, "%d MiB were allocated", used>>20)
	failing := io.MultiReader(&endless{left: 3 << 20}, failingReader{})
	_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "never.bin"}, failing)
	expect(t, errors.Is(err, errReader) && errors.Is(err, rw.ErrInvalidArgument), "%v", err)
	nothingStaged(t, s)
	check(t, s, false)
}

var errReader = errors.New("the source broke")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errReader }

// TestCancel: a call that is canceled before its commit point changes nothing; after it
// the commit is completed.
func TestCancel(t *testing.T) {
	s, dir := opened(t, nil)
	for _, stage := range rw.StageNames() {
		ctx, cancel := context.WithCancel(background)
		disarm := failpoint.Arm(func(point string) {
			if point == string(stage) {
				cancel()
			}
		})
		_, err := s.SafeWrite(ctx, put(string(stage)+".txt", "x", rw.ModeCreate))
		disarm()
		cancel()
		_, missing := os.Stat(filepath.Join(dir, string(stage)+".txt"))
		equal(t, err == nil, missing == nil, stage, ": error ", err, ", but file there: ", missing == nil)
		expect(t, err == nil || errors.Is(err, rw.ErrCanceled), "%s: %v", stage, err)
	}
	check(t, s, true)
}

func TestCloseWaitsAndRefuses(t *testing.T) {
	s, dir := opened(t, nil)
	func() {
		defer func() { expect(t, recover() != nil, "a call without a context returned") }()
		var none context.Context
		s.Read(none, rw.ReadRequest{Path: "a.txt"})
	}()
	started, done := make(chan bool), make(chan error, 1)
	disarm := failpoint.Arm(func(point string) {
		if point == string(rw.StagePublish) {
			started <- true
			time.Sleep(50 * time.Millisecond)
		}
	})
	defer disarm()
	go func() {
		_, err := s.SafeWrite(background, put("a.txt", "a", rw.ModeCreate))
		done <- err
	}()
	<-started
	noErr(t, s.Close(background))
	fileIs(t, dir, "a.txt", "a") // Close has waited until the call had done its work
	noErr(t, <-done)
	noErr(t, s.Close(background), "closing twice:")
	fails(s.SafeWrite(background, put("b.txt", "b", rw.ModeCreate)))(t, rw.ErrStoreClosed)
	fails(s.Read(background, rw.ReadRequest{Path: "a.txt"}))(t, rw.ErrStoreClosed)
}

// TestCloseUnderAStream: the store is closed while a long stream is still
// coming in; nothing of it stays.
func TestCloseUnderAStream(t *testing.T) {
	s, dir := opened(t, nil)
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.bin"}, r)
		done <- err
	}()
	io.CopyN(w, &endless{left: 4 << 20}, 4<<20)
	short, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	isErr(t, s.Close(short), rw.ErrCanceled)
	w.Close()
	err := <-done
	expect(t, errors.Is(err, rw.ErrStoreClosed) && rw.AsError("", err).Effect == rw.EffectNone, "%v", err)
	noErr(t, s.Close(background)) // waits for the first one
	left := must(os.ReadDir(filepath.Join(dir, rw.StateDirName, "staging")))(t)
	for _, e := range left {
		if info, err := e.Info(); err == nil && info.Size() > 0 {
			t.Errorf("left in staging: %s", e.Name())
		}
	}
	gone(t, dir, "a.bin")
}

func TestReadOnlyStoreWritesNothing(t *testing.T) {
	dir := workspace(t)
	r := open(t, dir, &rw.Options{ReadOnly: true})
	gone(t, dir, rw.StateDirName)
	tail := must(r.JournalTail(background, rw.JournalTailRequest{}))(t)
	expect(t, len(tail.Entries) == 0, "%v", tail)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	r = open(t, dir, &rw.Options{ReadOnly: true})
	tail, err := r.JournalTail(background, rw.JournalTailRequest{})
	expect(t, err == nil && len(tail.Entries) == 1, "%v %v", tail, err)
	fails(r.SafeWrite(background, put("b.txt", "b", rw.ModeCreate)))(t, rw.ErrStoreReadOnly)
	check(t, r, true)
	for _, locks := range []bool{true, false} { // another writer died
		fs := leftUnpublished(t)
		fs.Kill()
		if !locks {
			fs.Remove(rw.StateDirName + "/locks/journal")
		}
		before := fs.Muts()
		r = must(rw.OpenSim(fs, &rw.Options{ReadOnly: true}, rw.Sim{Nonce: "0002"}))(t)
		equal(t, r.Recovery().Pending, 1, "commits are pending")
		must(r.JournalTail(background, rw.JournalTailRequest{}))(t)
		noErr(t, r.Close(background))
		equal(t, fs.Muts(), before, "changes of a store that only reads; with locks: ", locks)
	}
}
