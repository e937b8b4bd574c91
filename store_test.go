package resilientwrite_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// open opens a store and closes it at the end of the test. Unless the options say
// otherwise a call waits for others longer than by default, because the tests do not
// check how long they take on a busy machine.
func open(t *testing.T, dir string, opts *rw.Options) *rw.Store {
	t.Helper()
	var o rw.Options
	if opts != nil {
		o = *opts
	}
	o.LockTimeout = cmp.Or(o.LockTimeout, 2*time.Minute)
	s := must(rw.Open(context.Background(), dir, &o))(t)
	stores.Store(s, dir)
	t.Cleanup(func() {
		stores.Delete(s)
		err := s.Close(context.Background())
		expect(t, err == nil, "close: %v", err)
	})
	return s
}

// stores are the open ones, with their directories.
var stores sync.Map

// quiesce waits until no background work of earlier calls in dir remains, so that only
// the test changes the disk.
func quiesce(dir string) {
	stores.Range(func(s, at any) bool {
		if at == dir || filepath.Dir(dir) == at {
			s.(*rw.Store).Sync(background)
		}
		return true
	})
}

// noErr, must, isErr and fails check errors, equal and mustEqual values, expect and
// require conditions, as testbed describes.
var noErr, isErr = testbed.NoErr, testbed.IsErr

func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Expect(t, ok, format, args...)
}

func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Require(t, ok, format, args...)
}

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }

// timestamps makes [cmp.Diff] compare them with their texts.
var timestamps = cmpopts.EquateComparable(rw.Timestamp{})

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.Equal(t, got, want, what...)
}

func mustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.MustEqual(t, got, want, what...)
}

func length[T any](t testing.TB, list []T, want int, what ...any) {
	t.Helper()
	expect(t, len(list) == want, "%s: %d, want %d: %+v", fmt.Sprint(what...), len(list), want, list)
}

// errorOf leaves the value of a call out.
func errorOf[T any](_ T, err error) error { return err }

// calling is a call that is made later, and within one that gets its context then.
func calling[In, Out any](verb func(context.Context, In) (Out, error), r In) func() error {
	return func() error { return errorOf(verb(background, r)) }
}

func within[In, Out any](verb func(context.Context, In) (Out, error), r In) func(context.Context) error {
	return func(ctx context.Context) error { return errorOf(verb(ctx, r)) }
}

// doing is the same of a store that is not open yet, for each request until one fails.
func doing[In, Out any](verb func(*rw.Store, context.Context, In) (Out, error), reqs ...In) func(*rw.Store) error {
	return func(s *rw.Store) error {
		for _, r := range reqs {
			if _, err := verb(s, background, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// inSequence makes calls until one fails.
func inSequence(calls ...func(*rw.Store) error) func(*rw.Store) error {
	return func(s *rw.Store) error {
		for _, call := range calls {
			if err := call(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func fails[T any](v T, err error) func(testing.TB, error, ...any) { return testbed.Fails(v, err) }

func workspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	noErr(t, os.Mkdir(dir, 0o755))
	return dir
}

// opened is a store in a workspace of its own.
func opened(t *testing.T, opts *rw.Options) (*rw.Store, string) {
	t.Helper()
	dir := workspace(t)
	return open(t, dir, opts), dir
}

// nothingStaged fails the test when a commit has left a file in staging. A version that a
// process had open stays there for longer, and a child has all files open until it runs its program.
func nothingStaged(t testing.TB, s *rw.Store) {
	t.Helper()
	for range 200 {
		if left, err := s.Unfinished(); err != nil || len(left) == 0 || s.Sync(background) != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	length(t, must(s.Unfinished())(t), 0, "left in staging")
}

// check fails the test when the store is not sound.
func check(t testing.TB, s *rw.Store, deep bool) {
	t.Helper()
	r := must(s.Check(context.Background(), admin.CheckRequest{Deep: deep}))(t)
	for _, p := range r.Problems {
		t.Errorf("check: %s %s seq %d: %s", p.Code, p.Path, p.Seq, p.Detail)
	}
}

func write(t *testing.T, s *rw.Store, path, content string, mode rw.WriteMode) rw.SafeWriteResult {
	t.Helper()
	return must(s.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode}))(t, "write ", path)
}

func fileIs(t *testing.T, dir, path, want string) {
	t.Helper()
	got := must(os.ReadFile(filepath.Join(dir, filepath.FromSlash(path))))(t)
	mustEqual(t, string(got), want, path, " holds")
}

// TestCloseThatTimedOut: Close does not wait for a call longer than its context
// lasts; when the call ends, the locks of the store are released.
func TestCloseThatTimedOut(t *testing.T) {
	fs := simfs.New()
	s := must(attack{}.open(fs, rw.SyncFull, "0001"))(t)
	held, release := make(chan struct{}), make(chan struct{})
	fs.Before(func(op simfs.Op) {
		if op.Kind == "datasync" {
			fs.Before(nil)
			close(held)
			<-release
		}
	})
	late := make(chan error, 1)
	go func() { late <- do(put("a.txt", longText, rw.ModeCreate))(s) }()
	<-held
	over, cancel := context.WithCancel(background)
	cancel()
	isErr(t, s.Close(over), rw.ErrCanceled)
	close(release)
	noErr(t, <-late, "the call in progress")
	alive := func() bool {
		for p := range fs.Tree() {
			if strings.Contains(p, "/locks/w-") {
				return true
			}
		}
		return false
	}
	for alive() { // until the test itself times out
		runtime.Gosched()
	}
}

// TestWithinIsJudgedByPlace: a directory contains the workspace or it does not,
// independently of its name.
func TestWithinIsJudgedByPlace(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	above := filepath.Dir(dir)
	for _, name := range []string{"w", "ws-other", "ws/sub", "..ws"} {
		noErr(t, os.MkdirAll(filepath.Join(above, name), 0o755))
	}
	link := filepath.Join(t.TempDir(), "link")
	noErr(t, os.Symlink(above, link))
	for place, want := range map[string]bool{
		dir: true, dir + "/": true, above: true, "/": true, link: true, filepath.Join(link, "ws"): true,
		filepath.Join(above, "w"): false, filepath.Join(above, "ws-other"): false, filepath.Join(dir, "sub"): false,
		filepath.Join(above, "..ws"): false, filepath.Join(above, "absent"): false,
		"": false, ".": false, "ws": false, "a\x00b": false, dir + "\x00": false,
	} {
		equal(t, s.Within(place), want, "Within(", place, ") =")
	}
}

// TestEveryDetailHasItsRow: a reason without a row would reach a caller as an
// error of no kind, with no advice.
func TestEveryDetailHasItsRow(t *testing.T) {
	names := must(os.ReadDir("."))(t)
	var declared []string
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		f := must(parser.ParseFile(token.NewFileSet(), name.Name(), nil, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Detail" {
				for _, v := range spec.Values {
					declared = append(declared, strings.Trim(v.(*ast.BasicLit).Value, `"`))
				}
			}
			return true
		})
	}
	slices.Sort(declared)
	rows := rw.Details()
	expect(t, len(declared) >= 80 && len(slices.Compact(slices.Clone(declared))) == len(declared),
		"%d details are declared, some of them twice", len(declared))
	for _, d := range declared {
		expect(t, slices.Contains(rows, rw.Detail(d)), "%s has no row in the table of details", d)
	}
	for _, d := range rows {
		kind, reason, action, code, hint := d.Describe()
		expect(t, slices.Contains(declared, string(d)) && slices.Contains(rw.Kinds(), kind) && slices.Contains(rw.Reasons(), reason) &&
			slices.Contains(rw.Actions(), action) && code != rw.CodeOK && hint != "",
			"%s: %s, %s, %s, %d, %q", d, string(kind), reason, action, code, hint)
	}
}

// TestActionsOfBothVersions: a caller in Go has eight actions, and version 1 of
// the envelope keeps its six.
func TestActionsOfBothVersions(t *testing.T) {
	old, two := rw.Actions()[:6], rw.Actions()[6:]
	require(t, slices.Equal(two, []rw.Action{rw.ActionFixCall, rw.ActionReadAgain}), "%v", rw.Actions())
	for _, d := range rw.Details() {
		e := rw.NewError("op", d, "", nil)
		env := e.Envelope()
		if !slices.Contains(old, env.SuggestedAction) || env.Context["action"] != string(e.Action) ||
			env.SuggestedAction != e.Action && !slices.Contains(two, e.Action) {
			t.Errorf("%s: %s, in version 1 %s with %v", d, e.Action, env.SuggestedAction, env.Context["action"])
		}
	}
	for d, want := range map[rw.Detail][2]rw.Action{
		rw.ErrHashMismatch:      {rw.ActionReadAgain, rw.ActionAskUser},
		rw.ErrInvalidArgument:   {rw.ActionFixCall, rw.ActionAbort},
		rw.ErrDestructiveShrink: {rw.ActionFixCall, rw.ActionAskUser},
		rw.ErrSecretInName:      {rw.ActionFixCall, rw.ActionRedact},
		rw.ErrRiskBlocked:       {rw.ActionRedact, rw.ActionRedact},
		rw.ErrDenied:            {rw.ActionAskUser, rw.ActionAskUser},
	} {
		e := rw.NewError("op", d, "", nil)
		equal(t, [2]rw.Action{e.Action, e.Envelope().SuggestedAction}, want, d)
	}
}

// misread reads a missing file and returns the remaining attempts.
func misread(t *testing.T, s *rw.Store, path string) int {
	t.Helper()
	_, err := s.Read(background, rw.ReadRequest{Path: path})
	e := rw.AsError("", err)
	require(t, errors.Is(err, rw.ErrNotFound) || errors.Is(err, rw.ErrRetryExhausted), "%s: %v", path, err)
	return e.RetryBudget
}

// TestManyDifferentFailingReadsAreCheap: each has its budget, but they do not
// wait for a flush each: the file of the counts is written once a second at
// most, until a call fails for the second time.
func TestManyDifferentFailingReadsAreCheap(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	began, writes := time.Now(), 0
	var last os.FileInfo
	wrote := func() bool {
		st, err := os.Stat(budgetsFile(dir))
		if err != nil || last != nil && os.SameFile(st, last) {
			return false
		}
		last = st
		writes++
		return true
	}
	for i := range 1200 {
		left := misread(t, s, fmt.Sprint("none", i))
		require(t, left == 2, "read %d: %d left", i, left)
		wrote()
	}
	most := 2 + int(time.Since(began)/time.Second)
	expect(t, writes >= 1 && writes <= most, "the counts were written %d times in %v, want at most %d", writes, time.Since(began), most)
	left := misread(t, s, "none1199")
	expect(t, left == 1 && wrote(), "%d left, and the second failure of a call is not written", left)
	other := openGated(t, dir, nil)
	equal(t, misread(t, other, "none1199"), 0, "another store has left")
	for _, at := range []*rw.Store{s, other} {
		fails(at.Read(background, rw.ReadRequest{Path: "none1199"}))(t, rw.ErrRetryExhausted)
	}
	equal(t, len(strikesIn(t, dir)), 1000, "counts")
}

// TestTheOnlyFailureIsWritten: a process that makes one call and ends leaves
// its count to the next one.
func TestTheOnlyFailureIsWritten(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for _, left := range []int{2, 1, 0, 0} {
		s := openGated(t, dir, nil)
		equal(t, misread(t, s, "none.txt"), left, "left")
		s.Close(background)
	}
}

// TestRefusalsOfAdaptersAreCounted (ruling 20): by verb and the bytes of the
// arguments, in every store of the workspace, until the task ends; a journal
// row there is not.
func TestRefusalsOfAdaptersAreCounted(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s, other := openGated(t, dir, nil), openGated(t, dir, nil)
	count := func(s *rw.Store, verb, args string) *rw.Error {
		e := adapter.CountRefusal(s, verb, []byte(args), rw.NewError(verb, rw.ErrUnknownArgument, "no such argument", map[string]any{"argument": "bogus"})).(*rw.Error)
		conformsEnvelope(t, e)
		expect(t, e.Op == verb && e.Context["argument"] == "bogus" && e.Effect == rw.EffectNone, "%s %v %s", e.Op, e.Context, e.Effect)
		return e
	}
	for i, left := range []int{2, 1, 0} {
		if e := count(s, "safe_write", "{}"); e.Detail != rw.ErrUnknownArgument || e.RetryBudget != left || e.Hint != "no such argument" {
			t.Errorf("attempt %d: %s with %d left", i, e.Detail, e.RetryBudget)
		}
	}
	for _, at := range []*rw.Store{s, other} {
		e := count(at, "safe_write", "{}")
		expect(t, e.Detail == rw.ErrRetryExhausted && e.RetryBudget == 0 && e.Context["attempts"] == 3,
			"%s with %d left: %v", e.Detail, e.RetryBudget, e.Context)
	}
	for _, c := range [][2]string{{"safe_write", "{ }"}, {"safe_write", ""}, {"read", "{}"}} {
		if e := count(other, c[0], c[1]); e.RetryBudget != 2 {
			t.Errorf("%s %q has %d left", c[0], c[1], e.RetryBudget)
		}
	}
	equal(t, refusalsIn(t, dir), 0, "rows for calls that no verb saw")
	noErr(t, other.ResetTask(background))
	if e := count(s, "safe_write", "{}"); e.RetryBudget != 2 {
		t.Errorf("after the reset: %d left", e.RetryBudget)
	}
	check(t, s, true)
	s.Close(background)
	e := adapter.CountRefusal(s, "read", nil, rw.NewError("read", rw.ErrUnknownArgument, "", nil)).(*rw.Error)
	expect(t, e.Detail == rw.ErrStoreClosed && e.Op == "read", "of a closed store: %v", e)
}

// BenchmarkDifferentFailingReads is one of many reads of files that are not
// there, when a thousand failures are remembered.
func BenchmarkDifferentFailingReads(b *testing.B) {
	s := must(rw.Open(background, b.TempDir(), nil))(b)
	defer s.Close(background)
	n := 0
	miss := func() {
		n++
		s.Read(background, rw.ReadRequest{Path: fmt.Sprint("none", n)})
	}
	for range 1200 {
		miss()
	}
	for b.Loop() {
		miss()
	}
}

// everyMethod calls each method of a Store and of its Admin that takes a context, with
// the arguments of valid, or with zero ones.
func everyMethod(ctx context.Context, s *rw.Store, valid map[string][]any) iter.Seq2[string, error] {
	operator := s.Admin()
	return func(yield func(string, error) bool) {
		for _, v := range []reflect.Value{reflect.ValueOf(s), reflect.ValueOf(&operator).Elem()} {
			for i := range v.NumMethod() {
				name, m := v.Type().Method(i).Name, v.Method(i)
				if m.Type().NumIn() == 0 || m.Type().In(0) != reflect.TypeFor[context.Context]() || m.Type().IsVariadic() || name == "Close" {
					continue
				}
				args := []reflect.Value{reflect.ValueOf(ctx)}
				for j := range m.Type().NumIn() - 1 {
					arg := reflect.Zero(m.Type().In(j + 1))
					if given := valid[name]; given != nil {
						arg = reflect.ValueOf(given[j])
					}
					args = append(args, arg)
				}
				out := m.Call(args)
				err, _ := out[len(out)-1].Interface().(error)
				if rows, ok := out[0].Interface().(iter.Seq2[rw.JournalEntry, error]); ok {
					for _, err = range rows {
					}
				}
				if !yield(name, err) {
					return
				}
			}
		}
	}
}

// TestEveryMethodRefuses: each method reports that its context is canceled, that its store
// is closed or, if it changes something, that its store is read-only. Nothing changes.
func TestEveryMethodRefuses(t *testing.T) {
	s, dir := quick(t, &rw.Options{Session: "s"})
	write(t, s, "a.txt", "one", rw.ModeCreate)
	snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	tx := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	claim := must(s.Claim(background, []string{"a.txt"}, time.Minute))(t)
	valid := map[string][]any{
		"Blame":           {around.BlameRequest{Path: "a.txt"}},
		"Checkpoint":      {rw.CheckpointRequest{Name: "c", Data: json.RawMessage("1")}},
		"ChunkAppend":     {rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}},
		"ChunkCompose":    {rw.ChunkComposeRequest{Session: "s", OutputPath: "b.txt"}},
		"ChunkReset":      {rw.ChunkResetRequest{Session: "s"}},
		"ChunkWrite":      {rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("x")}},
		"Claim":           {[]string{"a.txt"}, time.Minute},
		"Content":         {admin.ContentRequest{}},
		"Exec":            {command.Request{Argv: []string{"true"}}},
		"HandoffWrite":    {handoff.WriteRequest{Envelope: anEnvelope("t")}},
		"JournalRows":     {rw.JournalSinceRequest{AfterSeq: new(uint64)}},
		"JournalSince":    {rw.JournalSinceRequest{AfterSeq: new(uint64)}},
		"Move":            {rw.MoveRequest{Path: "a.txt", To: "b.txt"}},
		"Renew":           {claim.Fence, time.Minute},
		"Restore":         {rw.RestoreRequest{Path: "a.txt", Version: 1}},
		"SafeWriteFrom":   {rw.SafeWriteRequest{Path: "b.txt"}, strings.NewReader("x")},
		"ScratchDelete":   {rw.ScratchDeleteRequest{Label: "l"}},
		"SeenCall":        {around.ToolCall{ID: "1"}},
		"SnapshotDiff":    {around.SnapshotDiffRequest{From: snap.ID}},
		"SnapshotRestore": {rw.SnapshotRestoreRequest{ID: snap.ID}},
		"SnapshotTree":    {snap.ID},
		"Tx":              {rw.TxRequest{Ops: []rw.TxOp{{Op: "delete", Path: "a.txt"}}}},
		"TxCommit":        {rw.TxCommitRequest{TxID: "tx_none"}},
		"TxRollback":      {rw.TxRollbackRequest{TxID: "tx_none"}},
		"TxStage":         {rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "delete", Path: "a.txt"}}},
	}
	before := snapshot(t, dir)
	ctx, cancel := context.WithCancel(background)
	cancel()
	for name, err := range everyMethod(ctx, s, valid) {
		expect(t, errors.Is(err, rw.ErrCanceled), "%s: %v", name, err)
	}
	noErr(t, s.Close(background))
	for name, err := range everyMethod(background, s, valid) {
		expect(t, errors.Is(err, rw.ErrStoreClosed), "%s of a closed store: %v", name, err)
	}
	var changing []string
	ro := quickAt(t, dir, &rw.Options{ReadOnly: true, Session: "s"})
	for name, err := range everyMethod(background, ro, valid) {
		if errors.Is(err, rw.ErrStoreReadOnly) {
			changing = append(changing, name)
		}
	}
	equal(t, strings.Join(changing, " "), "BeginCall Checkpoint CheckpointCleanup ChunkAppend ChunkCompose ChunkReset ChunkWrite Claim Delete DraftDelete Edit EndCall Exec "+
		"HandoffWrite Move Release Renew Restore SafeWrite SafeWriteFrom Scan ScratchDelete ScratchPut SeenCall Snapshot SnapshotDiff SnapshotRestore "+
		"Tx TxBegin TxCommit TxRollback TxStage Undo WriteUnasked Compact Erase HoldShipping Import Materialize Repair", "refused by a read-only store")
	h := versionsOf(t, ro, "a.txt")
	expect(t, len(h) == 1 && h[0].Available, "read only: %+v", h)
	equal(t, snapshot(t, dir), before, "something changed")
}

func TestDigestText(t *testing.T) {
	of := call.DigestOf([]byte("x"))
	for text, want := range map[string]rw.Digest{of.String(): of, strings.ToUpper(of.String()): of, "": {}} {
		equal(t, must(call.ParseDigest(text))(t), want, text)
	}
	for _, text := range []string{"abc", of.String() + "\n", of.String()[1:], strings.Repeat("z", 64), " " + of.String()} {
		d, err := call.ParseDigest(text)
		expect(t, err != nil && d.IsZero(), "%q: %v %v", text, d, err)
	}
	d := must(call.ParseDigest(strings.Repeat("0", 64)))(t)
	expect(t, !d.IsZero(), "64 zeros are taken for no digest: %v", d)
	expect(t, (rw.Digest{}).String() == "" && rw.Exactly(rw.Digest{}) == rw.Absent && rw.AnyVersion == (rw.Expect{}) && rw.Exactly(of) != rw.Absent,
		"the zero values")
	for _, e := range []rw.Expect{rw.Absent, rw.Exactly(of)} {
		var back rw.Expect
		text := must(json.Marshal(e))(t)
		expect(t, json.Unmarshal(text, &back) == nil && back == e, "%v came back as %v", e, back)
	}
}

// TestMalformedArguments: the verb refuses arguments that an adapter could not decode,
// and nothing is written.
func TestMalformedArguments(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	put := keep(t, s, rw.ScratchPutRequest{Content: []byte("kept"), Label: "l"})
	begun := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	op := rw.TxOp{Op: "write", Path: "n.txt", Content: []byte("n")}
	for i, c := range []struct {
		argument string
		call     func(ctx context.Context) error
	}{
		{"content", within(s.SafeWrite, put1("n.txt"))},
		{"expected_prev_sha256", within(s.SafeWrite, put1("n.txt"))},
		{"content_sha256", within(s.SafeWrite, put1("n.txt"))},
		{"expected_prev_sha256", within(s.Edit, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "a", New: "b"}}})},
		{"expected_prev_sha256", within(s.Delete, rw.DeleteRequest{Path: "a.txt"})},
		{"expected_prev_sha256", within(s.Move, rw.MoveRequest{Path: "a.txt", To: "b.txt"})},
		{"expected_prev_sha256", within(s.HandoffWrite, handoff.WriteRequest{Envelope: anEnvelope("t")})},
		{"sha256", within(s.Restore, rw.RestoreRequest{Path: "a.txt", Version: 1})},
		{"content", within(s.ChunkAppend, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})},
		{"expected_sha256", within(s.ChunkCompose, rw.ChunkComposeRequest{Session: "s", OutputPath: "n.txt"})},
		{"content", within(s.ScratchPut, rw.ScratchPutRequest{Content: []byte("x")})},
		{"sha256", within(s.ScratchDelete, rw.ScratchDeleteRequest{Label: "l"})},
		{"sha256", within(s.ScratchRef, rw.ScratchRefRequest{Label: "l"})},
		{"sha256", within(s.ScratchGet, rw.ScratchGetRequest{})},
		{"content", within(s.RiskScore, rw.RiskScoreRequest{Content: []byte("x")})},
		{"content", within(s.Redact, rw.RedactRequest{Content: []byte("x")})},
		{"content", within(s.Validate, rw.ValidateRequest{Content: []byte("x")})},
		{"ops[1].content", within(s.Tx, rw.TxRequest{Ops: []rw.TxOp{{Op: "delete", Path: "a.txt"}, op}})},
		{"ops[1].expected_prev_sha256", within(s.Tx, rw.TxRequest{Ops: []rw.TxOp{{Op: "delete", Path: "a.txt"}, op}})},
		{"op.content", within(s.TxStage, rw.TxStageRequest{TxID: begun.TxID, Op: op})},
		{"op.expected_prev_sha256", within(s.TxStage, rw.TxStageRequest{TxID: begun.TxID, Op: op})},
	} {
		want := rw.ErrBadBase64
		if strings.HasSuffix(c.argument, "sha256") {
			want = rw.ErrBadSHA256
		}
		err := c.call(adapter.WithMalformed(background, []string{c.argument}))
		isErr(t, err, want, i, ": ", c.argument)
		if strings.Contains(c.argument, "ops") && rw.AsError("", err).Context["op_index"] != 1 {
			t.Errorf("%s: %v", c.argument, rw.AsError("", err).Context)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 2 { // the file and the state directory
			t.Errorf("%d: %s changed the files: %q", i, c.argument, names)
		}
		fileIs(t, dir, "a.txt", "a")
	}
	gotBack(t, s, put.SHA256.String(), "kept")
}

func put1(path string) rw.SafeWriteRequest {
	return rw.SafeWriteRequest{Path: path, Content: []byte("x"), Mode: rw.ModeOverwrite}
}
