package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// stateFiles is everything below the state directory, by content. A lock that
// was held and given back leaves a place of zeros at the end of its file.
func stateFiles(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for e := range testbed.Entries(t, statePath(dir)) {
		if e.Info.IsDir() || isFreeSlot(statePath(dir, e.Path)) {
			continue
		}
		if e.Path == "locks/paths" {
			e.Text = strings.TrimRight(e.Text[:min(len(e.Text), 4096)], "\x00") // without the table of who had a lock last
		}
		fmt.Fprintf(&b, "/%s %d %.12s\n", e.Path, len(e.Text), hash(e.Text))
	}
	return b.String()
}

// isFreeSlot reports whether a file of the state directory is a slot that no
// commit uses.
func isFreeSlot(p string) bool {
	st, err := os.Stat(p)
	return err == nil && filepath.Base(filepath.Dir(p)) == "staging" && st.Size() == 0
}

func budgetsFile(dir string) string { return statePath(dir, "budgets.json") }

// attempt makes a write and returns the detail of its failure and the remaining
// attempts.
func attempt(t *testing.T, s *rw.Store, r rw.SafeWriteRequest) (rw.Detail, int) {
	t.Helper()
	_, err := s.SafeWrite(background, r)
	if err == nil {
		return "", -1
	}
	e := rw.AsError("", err)
	conformsEnvelope(t, e)
	return e.Detail, e.RetryBudget
}

// attemptIs makes a write and expects its failure, "" for none, with so many attempts left.
func attemptIs(t *testing.T, s *rw.Store, r rw.SafeWriteRequest, want rw.Detail, left int, what ...any) {
	t.Helper()
	d, n := attempt(t, s, r)
	expect(t, d == want && n == left, "%s %.40q: %s with %d left, want %s with %d", fmt.Sprint(what...), r.Path, d, n, want, left)
}

// spend uses up the budget of a call.
func spend(t *testing.T, s *rw.Store, r rw.SafeWriteRequest, want rw.Detail) {
	t.Helper()
	for _, left := range []int{2, 1, 0} {
		attemptIs(t, s, r, want, left)
	}
}

// isExhausted expects a call to be refused without being tried.
func isExhausted(t *testing.T, s *rw.Store, dir string, r rw.SafeWriteRequest) *rw.Error {
	t.Helper()
	e := refused(t, s, dir, r, rw.ErrRetryExhausted)
	expect(t, e.Kind == rw.ErrQuotaExceeded && e.Reason == rw.ReasonUnknown && e.Action == rw.ActionAskUser && e.RetryBudget == 0 && e.Code() == rw.CodePolicy,
		"%s %s %s, budget %d, code %d", e.Kind, e.Reason, e.Action, e.RetryBudget, e.Code())
	conformsEnvelope(t, e)
	return e
}

// TestBudgetCountsDownAndEnds (promise 34): 2, 1, 0, then a refusal without
// any work: no row, no draft, nothing on disk moves.
func TestBudgetCountsDownAndEnds(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var receipts []rw.Receipt
	s := openGated(t, dir, &rw.Options{ReceiptSink: func(r rw.Receipt) { receipts = append(receipts, r) }})
	r := put("a/b.txt", risky.high, rw.ModeCreate)
	var ref string
	for _, left := range []int{2, 1, 0} {
		e := gated(t, s, dir, r)
		if ref = refOf(t, e); e.RetryBudget != left || e.Context["journaled"] != true {
			t.Errorf("%d left, want %d", e.RetryBudget, left)
		}
	}
	before := stateFiles(t, dir)
	for range 4 {
		e := isExhausted(t, s, dir, r)
		last, _ := json.Marshal(e.Context["last_error"])
		equal(t, string(last), `{"error":"blocked","reason":"risk_blocked","reason_hint":"content_filter","suggested_action":"redact"}`, "last_error")
		expect(t, e.Context["attempts"] == 3 && e.Context["journaled"] == false && e.Context["draft_ref"] == ref && e.Path == "a/b.txt" && strings.Contains(e.Hint, "Change the call, or ask the user"),
			"%+v %s", e.Context, e.Hint)
	}
	equal(t, stateFiles(t, dir), before, "the state directory changed")
	equal(t, refusalsIn(t, dir), 3, "refusals in the journal")
	if len(receipts) != 7 || receipts[6].Status != rw.StatusRefused || receipts[6].Durability != "none" {
		t.Errorf("%d receipts, %+v", len(receipts), receipts[len(receipts)-1])
	}
	check(t, s, true)
}

// TestEveryFailureHasABudget, at every stage.
func TestEveryFailureHasABudget(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("x", 2000)), 0o644)
	os.Mkdir(filepath.Join(dir, "adir"), 0o755)
	wrong := strings.Repeat("0", 64)
	for i, row := range []struct {
		r    rw.SafeWriteRequest
		want rw.Detail
	}{
		{put("a.txt", "x", rw.ModeCreate), rw.ErrFileAlreadyExists}, {put("a.txt", "x", rw.ModeOverwrite), rw.ErrDestructiveShrink},
		{rw.SafeWriteRequest{Path: "a.txt", Content: []byte("y"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(wrong))}, rw.ErrHashMismatch},
		{put(".git/config", "x", rw.ModeOverwrite), rw.ErrProtectedPath}, {put("../x", "x", rw.ModeOverwrite), rw.ErrEscapesWorkspace}, {put("", "x", rw.ModeOverwrite), rw.ErrEmptyPath},
		{put("adir", "x", rw.ModeOverwrite), rw.ErrIsADirectory}, {put("a.txt/x", "x", rw.ModeOverwrite), rw.ErrNotADirectory},
		{rw.SafeWriteRequest{Path: "b.txt", EOL: "cr"}, rw.ErrInvalidArgument}, {put("b.txt", "x", "upsert"), rw.ErrInvalidArgument},
		{put("b.txt", risky.high, rw.ModeCreate), rw.ErrRiskBlocked},
	} {
		spend(t, s, row.r, row.want)
		e := isExhausted(t, s, dir, row.r)
		last := e.Context["last_error"].(map[string]any)
		expect(t, last["reason"] == row.want, "%d: last_error %v", i, last)
		equal(t, refusalsIn(t, dir), 3*(i+1), row.want, " rows")
	}
	check(t, s, true)
}

// TestBudgetFileHoldsNoNames: the file reveals neither the content nor the path of a
// write.
func TestBudgetFileHoldsNoNames(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	spend(t, s, put("some-name.txt", risky.high, rw.ModeCreate), rw.ErrRiskBlocked)
	st, err := os.Lstat(budgetsFile(dir))
	require(t, err == nil && st.Mode() == 0o600, "%v %v", err, st)
	data, _ := os.ReadFile(budgetsFile(dir))
	expect(t, !strings.Contains(string(data), "some-name") && !strings.Contains(string(data), hash(risky.high)), "%s", data)
}

// TestChangedInputIsFresh: each argument of the call for itself.
func TestChangedInputIsFresh(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, s, r, rw.ErrRiskBlocked)
	for name, change := range map[string]func(*rw.SafeWriteRequest){
		"content": func(r *rw.SafeWriteRequest) { r.Content = append(r.Content, '\n') }, "path": func(r *rw.SafeWriteRequest) { r.Path = "b.txt" },
		"mode": func(r *rw.SafeWriteRequest) { r.Mode = rw.ModeOverwrite }, "eol": func(r *rw.SafeWriteRequest) { r.EOL = "lf" }, "bom": func(r *rw.SafeWriteRequest) { r.BOM = "preserve" },
		"expected": func(r *rw.SafeWriteRequest) { r.Expect = rw.Absent }, "force": func(r *rw.SafeWriteRequest) { r.Force = true },
		"allow_shrink": func(r *rw.SafeWriteRequest) { r.AllowShrink = true }, "classify": func(r *rw.SafeWriteRequest) { r.Classify = yes(true) },
		"reject_at": func(r *rw.SafeWriteRequest) { r.ClassifyRejectAt = rw.VerdictLow }, "accept_risk": func(r *rw.SafeWriteRequest) { r.AcceptRisk = "why" },
		"caller": func(r *rw.SafeWriteRequest) { r.Caller = "other" }, "session": func(r *rw.SafeWriteRequest) { r.Session = "other" },
	} {
		changed := r
		change(&changed)
		attemptIs(t, s, changed, rw.ErrRiskBlocked, 2, name)
	}
	isExhausted(t, s, dir, r)
}

// TestChangedTargetIsFresh: a change of the target starts a new count.
func TestChangedTargetIsFresh(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	name := filepath.Join(dir, "a.txt")
	os.WriteFile(name, []byte("old\n"), 0o644)
	r := put("a.txt", "new\n", rw.ModeCreate)
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(name, []byte("older\n"), 0o644) },
		func() error { return os.Chmod(name, 0o600) },
		func() error { return os.Chtimes(name, time.Now(), time.Now().Add(-time.Hour)) },
		func() error { // another file of the same size under the name
			if err := os.WriteFile(name+"2", []byte("OLDER\n"), 0o600); err != nil {
				return err
			}
			return os.Rename(name+"2", name)
		},
	} {
		noErr(t, change())
		spend(t, s, r, rw.ErrFileAlreadyExists)
		isExhausted(t, s, dir, r)
	}
	os.Remove(name)
	passes(t, s, r)
	// And a directory in place of the file.
	os.WriteFile(filepath.Join(dir, "d"), nil, 0o644)
	r = put("d/x.txt", "x", rw.ModeCreate)
	spend(t, s, r, rw.ErrNotADirectory)
	isExhausted(t, s, dir, r)
	os.Remove(filepath.Join(dir, "d"))
	passes(t, s, r)
}

func TestChangedGateOfTheContextIsFresh(t *testing.T) {
	t.Parallel()
	s := open(t, ramspace(t), &rw.Options{Sync: rw.SyncOff})
	r := put("a.txt", risky.high, rw.ModeCreate)
	for range 3 {
		fails(s.SafeWrite(agents(), r))(t, rw.ErrRiskBlocked)
	}
	must(s.SafeWrite(background, r))(t, "the host itself, which the gate only advises")
}

// TestBudgetExpires after 24 hours, and a clock that ran ahead does not lock a
// call for ever.
func TestBudgetExpires(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, s, r, rw.ErrRiskBlocked)
	s.Close(background)
	data := must(os.ReadFile(budgetsFile(dir)))(t)
	for _, row := range []struct {
		age  time.Duration
		left int
	}{{24*time.Hour + 2*time.Second, 2}, {-48 * time.Hour, 2}, {23 * time.Hour, -1}} {
		var held struct{ Strikes map[string]map[string]any }
		err := json.Unmarshal(data, &held)
		require(t, err == nil && len(held.Strikes) == 1, "%v %s", err, data)
		for _, k := range held.Strikes {
			k["at"] = time.Now().Add(-row.age).Unix()
		}
		forge(t, dir, held.Strikes)
		s := openGated(t, dir, nil)
		if row.left < 0 {
			isExhausted(t, s, dir, r)
		} else {
			attemptIs(t, s, r, rw.ErrRiskBlocked, row.left)
		}
		s.Close(background)
	}
}

// TestWhatTimeMendsIsNotCounted: retry_later delays and never ends.
func TestWhatTimeMendsIsNotCounted(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	cut := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("cut o"), ContentSHA256: digest(hash("cut off"))}
	for range 6 {
		attemptIs(t, s, cut, rw.ErrContentHashMismatch, 3)
	}
	canceled, cancel := context.WithCancel(background)
	cancel()
	r := put("a.txt", "x", rw.ModeCreate)
	for range 6 {
		_, err := s.SafeWrite(canceled, r)
		expect(t, errors.Is(err, rw.ErrCanceled) && rw.AsError("", err).RetryBudget == 3, "%v", err)
	}
	// Between two failures that count, the remaining attempts are reported.
	risk := put("b.txt", risky.high, rw.ModeCreate)
	attemptIs(t, s, risk, rw.ErrRiskBlocked, 2)
	_, err := s.SafeWrite(canceled, risk)
	expect(t, rw.AsError("", err).RetryBudget == 2, "%v", err)
	attemptIs(t, s, risk, rw.ErrRiskBlocked, 1)
	passes(t, s, r)
}

// TestFailingSourcesAreReportedEachTime: a stream with a failing source has no content to
// compare; its own error is returned each time.
func TestFailingSourcesAreReportedEachTime(t *testing.T) {
	t.Parallel()
	s := openGated(t, ramspace(t), nil)
	for i := range 6 {
		src := io.MultiReader(strings.NewReader(fmt.Sprint("text ", i)), failingReader{})
		fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.txt"}, src))(t, errReader, "source ", i)
	}
}

// TestStreamsHaveABudget: the same stream repeatedly.
func TestStreamsHaveABudget(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for i, want := range []rw.Detail{rw.ErrRiskBlocked, rw.ErrRiskBlocked, rw.ErrRiskBlocked, rw.ErrRetryExhausted} {
		fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.txt"}, io.MultiReader(&endless{left: 2 << 20}, strings.NewReader("\n"+risky.high))))(t, want, i)
	}
	nothingStaged(t, s)
	equal(t, refusalsIn(t, dir), 3, "rows")
}

// TestStreamWithoutSource: there is nothing to read.
func TestStreamWithoutSource(t *testing.T) {
	t.Parallel()
	s := openGated(t, ramspace(t), nil)
	fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.txt"}, nil))(t, rw.ErrInvalidArgument)
	nothingStaged(t, s)
}

// TestReadingWithoutHistory: a store that is only read, and has lost its history and the
// files of commits, has no earlier versions.
func TestReadingWithoutHistory(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"history", "history/* staging"} {
		dir := ramspace(t)
		s := openGated(t, dir, nil)
		for _, text := range []string{"one\n", "two\n", "three\n"} {
			must(s.SafeWrite(background, put("a.txt", text, rw.ModeOverwrite)))(t)
		}
		noErr(t, s.Close(background))
		for part := range strings.FieldsSeq(lost) {
			for _, name := range must(filepath.Glob(filepath.Join(dir, rw.StateDirName, part)))(t) {
				noErr(t, os.RemoveAll(name))
			}
		}
		s = openGated(t, dir, &rw.Options{ReadOnly: true})
		must(s.Blame(background, around.BlameRequest{Path: "a.txt"}))(t, lost)
		r := must(s.Changes(background, around.ChangesRequest{Hunks: true}))(t, lost)
		length(t, r.Files, 1, lost)
		fails(s.Read(background, rw.ReadRequest{Path: "a.txt", Version: 1}))(t, rw.ErrVersionNotKept, lost)
	}
}

// TestResetTaskClears every count, on disk as well.
func TestResetTaskClears(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	a, b := put("a.txt", risky.high, rw.ModeCreate), put(".git/x", "x", rw.ModeCreate)
	spend(t, s, a, rw.ErrRiskBlocked)
	spend(t, s, b, rw.ErrProtectedPath)
	noErr(t, s.ResetTask(background))
	equal(t, len(strikesIn(t, dir)), 0, "counts are still there")
	if err := s.ResetTask(background); err != nil { // nothing to clear
		t.Fatal(err)
	}
	attemptIs(t, s, a, rw.ErrRiskBlocked, 2)
	s.Close(background)
	s = openGated(t, dir, nil)
	attemptIs(t, s, b, rw.ErrProtectedPath, 2)
	s.Close(background)
	isErr(t, s.ResetTask(background), rw.ErrStoreClosed)
}

// fakeStrikes writes n counts, the first the oldest, each so many seconds after the one
// before, the newest of that age.
func fakeStrikes(t *testing.T, dir string, n, seconds int, newest time.Duration) {
	t.Helper()
	os.MkdirAll(statePath(dir), 0o700)
	strikes := map[string]any{}
	for i := range n {
		strikes[hash(fmt.Sprint("call ", i))[:32]] = map[string]any{"n": 3, "detail": "risk_blocked", "state": "0123456789abcdef", "at": time.Now().Add(-newest).Unix() - int64(seconds*(n-i))}
	}
	forge(t, dir, strikes)
}

func strikesIn(t *testing.T, dir string) map[string]any {
	t.Helper()
	data := must(os.ReadFile(budgetsFile(dir)))(t)
	held := testbed.Decoded[struct{ Strikes map[string]any }](t, data)
	return held.Strikes
}

// forge writes counts as another program might.
func forge(t *testing.T, dir string, strikes any) {
	t.Helper()
	data := must(json.Marshal(map[string]any{"task": 0, "strikes": strikes}))(t)
	os.WriteFile(budgetsFile(dir), data, 0o600)
}

// TestCountsAreBounded: a thousand, and the oldest is forgotten for the newest.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	fakeStrikes(t, dir, 1000, 1, time.Minute)
	s := openGated(t, dir, nil)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, s, r, rw.ErrRiskBlocked)
	spend(t, s, put("b.txt", risky.high, rw.ModeCreate), rw.ErrRiskBlocked)
	strikes := strikesIn(t, dir)
	expect(t, len(strikes) == 1000 && strikes[hash("call 0")[:32]] == nil && strikes[hash("call 1")[:32]] == nil &&
		strikes[hash("call 2")[:32]] != nil, "%d counts", len(strikes))
	isExhausted(t, s, dir, r)
}

// TestClockAheadDoesNotLoseTheNewestCount: a thousand counts of the same second
// or of a clock that ran ahead do not keep the next failure from being counted.
func TestClockAheadDoesNotLoseTheNewestCount(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	fakeStrikes(t, dir, 1000, 0, -time.Minute)
	s := openGated(t, dir, nil)
	spend(t, s, put("a.txt", risky.high, rw.ModeCreate), rw.ErrRiskBlocked)
}

// TestDamagedBudgetsAreIgnored: a lost count is no failed Open, and the next
// failure repairs the file.
func TestDamagedBudgetsAreIgnored(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	r := put("a.txt", risky.high, rw.ModeCreate)
	for _, damage := range []string{"", "{", "null", "[]", "7", `{"a":7}`, `{"a":{"n":"x"}}`, "\x00\x00", `{"` + hash("x")[:32] + `":{"n":-9223372036854775808,"at":9223372036854775807}}`, strings.Repeat("[", 2<<20)} {
		os.MkdirAll(statePath(dir), 0o700)
		os.WriteFile(budgetsFile(dir), []byte(damage), 0o600)
		s := openGated(t, dir, nil)
		spend(t, s, r, rw.ErrRiskBlocked)
		isExhausted(t, s, dir, r)
		s.Close(background)
		s = openGated(t, dir, nil)
		isExhausted(t, s, dir, r)
		s.Close(background)
	}
}

// TestForgedCountBuysNothing: a forged count buys no more attempts than the
// policy allows.
func TestForgedCountBuysNothing(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	r := put("a.txt", risky.high, rw.ModeCreate)
	attempt(t, s, r)
	s.Close(background)
	strikes := strikesIn(t, dir)
	for _, k := range strikes {
		k.(map[string]any)["n"] = -1000
	}
	forge(t, dir, strikes)
	s = openGated(t, dir, nil)
	_, n := attempt(t, s, r)
	expect(t, n <= 2, "%d left", n)
}

// TestUnwritableBudgetsStillCount in this process.
func TestUnwritableBudgetsStillCount(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	os.Mkdir(budgetsFile(dir), 0o700)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, s, r, rw.ErrRiskBlocked)
	isExhausted(t, s, dir, r)
}

// TestManyFailAtOnce: 64 goroutines make one call; three attempts are made, which
// report 2, 1 and 0 remaining attempts.
func TestManyFailAtOnce(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for _, r := range []rw.SafeWriteRequest{put("a.txt", risky.high, rw.ModeCreate), put(".git/x", "x", rw.ModeCreate), {Path: "b.txt", EOL: "cr"}} {
		before := refusalsIn(t, dir)
		var mu sync.Mutex
		var wg sync.WaitGroup
		count := map[string]int{}
		for range 64 {
			wg.Go(func() {
				_, err := s.SafeWrite(background, r)
				e := rw.AsError("", err)
				mu.Lock()
				defer mu.Unlock()
				count[fmt.Sprintf("%s %d", e.Detail, e.RetryBudget)]++
			})
		}
		wg.Wait()
		tried := 0
		for answers, n := range count {
			if !strings.HasPrefix(answers, "retry_exhausted 0") {
				tried += n
			}
			expect(t, !strings.HasSuffix(answers, " 2") && !strings.HasSuffix(answers, " 1") || n == 1, "%s was reported %d times", answers, n)
		}
		rows := refusalsIn(t, dir) - before
		t.Logf("%s: %v, %d rows", r.Path, count, rows)
		expect(t, tried >= 3 && rows == tried, "%s: %v, %d rows", r.Path, count, rows)
		expect(t, r.Path != "a.txt" || tried == 3, "under one lock %d attempts were made: %v", tried, count)
		isExhausted(t, s, dir, r)
	}
	check(t, s, true)
}

// TestManyDifferentFailuresAtOnce: no count is lost.
func TestManyDifferentFailuresAtOnce(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	stores := []*rw.Store{openGated(t, dir, nil), openGated(t, dir, nil)}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			attemptIs(t, stores[i%2], put(fmt.Sprintf("f%d.txt", i), risky.high, rw.ModeCreate), rw.ErrRiskBlocked, 2)
		})
	}
	wg.Wait()
	equal(t, len(strikesIn(t, dir)), 64, "counts")
	check(t, stores[0], true)
}

// TestClosedStoreCountsNothing: bad arguments to a closed store fail, write
// nothing, and end in no panic.
func TestClosedStoreCountsNothing(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	passes(t, s, put("a.txt", "x", rw.ModeCreate))
	s.Close(background)
	before := stateFiles(t, dir)
	for _, r := range []rw.SafeWriteRequest{{Path: "b.txt", EOL: "cr"}, put("b.txt", "x", "upsert"), put("b.txt", risky.high, rw.ModeCreate)} {
		for range 5 {
			_, err := s.SafeWrite(background, r)
			require(t, err != nil && rw.AsError("", err).Effect == rw.EffectNone, "%v", err)
			conformsEnvelope(t, rw.AsError("", err))
		}
	}
	fails(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte("x")}))(t, rw.ErrStoreClosed)
	equal(t, stateFiles(t, dir), before, "a closed store changed")
}

// TestReadOnlyStoreCountsInMemory.
func TestReadOnlyStoreCountsInMemory(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{ReadOnly: true})
	for _, want := range []rw.Detail{rw.ErrEscapesWorkspace, rw.ErrEscapesWorkspace, rw.ErrEscapesWorkspace, rw.ErrRetryExhausted} {
		fails(s.RiskScore(background, rw.RiskScoreRequest{TargetPath: "../x"}))(t, want)
	}
	for range 5 { // not its failure to count
		fails(s.SafeWrite(background, put("a.txt", "x", rw.ModeCreate)))(t, rw.ErrStoreReadOnly)
	}
	noErr(t, s.ResetTask(background))
	fails(s.RiskScore(background, rw.RiskScoreRequest{TargetPath: "../x"}))(t, rw.ErrEscapesWorkspace)
	expect(t, errorOf(os.Stat(statePath(dir))) != nil, "something was written")
}

// TestErrorsOfTheGateShowNoPlace (promise 37).
func TestErrorsOfTheGateShowNoPlace(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	outside := filepath.Join(filepath.Dir(dir), "secret-place", "p.yaml")
	os.MkdirAll(filepath.Join(filepath.Dir(outside), "sub"), 0o755)
	os.WriteFile(outside, []byte("gate: {mode: blok}\n"), 0o644)
	shows := func(err error) {
		t.Helper()
		doc, _ := json.Marshal(rw.AsError("", err))
		answer := string(doc) + err.Error()
		expect(t, !strings.Contains(answer, "secret-place") && !strings.Contains(answer, "passwd"), "%s", answer)
	}
	for _, file := range []string{outside, filepath.Join(filepath.Dir(outside), "sub"), filepath.Join(outside, "x")} { // a directory, and what is below a file
		shows(errorOf(rw.Open(background, dir, &rw.Options{PolicyFile: file})))
	}
	s := openGated(t, dir, nil)
	for _, file := range []string{outside, "/etc/passwd"} {
		shows(errorOf(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte("x"), TargetPath: file})))
	}
}

// TestResetHoldsWhenOthersCountOn: the counts that another process made since the reset
// do not restore cleared ones.
func TestResetHoldsWhenOthersCountOn(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	server, operator := openGated(t, dir, nil), openGated(t, dir, nil)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, server, r, rw.ErrRiskBlocked)
	noErr(t, operator.ResetTask(background))
	attempt(t, operator, put("b.txt", risky.high, rw.ModeCreate))
	attemptIs(t, server, r, rw.ErrRiskBlocked, 2)
}
