package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
)

// misread reads a missing file and returns the remaining attempts.
func misread(t *testing.T, s *rw.Store, path string) int {
	t.Helper()
	_, err := s.Read(background, rw.ReadRequest{Path: path})
	e := rw.AsError("", err)
	if !errors.Is(err, rw.ErrNotFound) && !errors.Is(err, rw.ErrRetryExhausted) {
		t.Fatalf("%s: %v", path, err)
	}
	return e.RetryBudget
}

// TestManyDifferentFailingReadsAreCheap: each has its budget, but they do not
// wait for a flush each: the file of the counts is written once a second at
// most, until a call fails for the second time.
func TestManyDifferentFailingReadsAreCheap(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
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
		if left := misread(t, s, fmt.Sprint("none", i)); left != 2 {
			t.Fatalf("read %d: %d left", i, left)
		}
		wrote()
	}
	if most := 2 + int(time.Since(began)/time.Second); writes < 1 || writes > most {
		t.Errorf("the counts were written %d times in %v, want at most %d", writes, time.Since(began), most)
	}
	if left := misread(t, s, "none1199"); left != 1 || !wrote() {
		t.Errorf("%d left, and the second failure of a call is not written", left)
	}
	other := openGated(t, dir, nil)
	if left := misread(t, other, "none1199"); left != 0 {
		t.Errorf("another store has %d left", left)
	}
	for _, at := range []*rw.Store{s, other} {
		fails(at.Read(background, rw.ReadRequest{Path: "none1199"}))(t, rw.ErrRetryExhausted)
	}
	if n := len(strikesIn(t, dir)); n != 1000 {
		t.Errorf("%d counts", n)
	}
}

// TestTheOnlyFailureIsWritten: a process that makes one call and ends leaves
// its count to the next one.
func TestTheOnlyFailureIsWritten(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for _, left := range []int{2, 1, 0, 0} {
		s := openGated(t, dir, nil)
		if got := misread(t, s, "none.txt"); got != left {
			t.Errorf("%d left, want %d", got, left)
		}
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
		if e.Op != verb || e.Context["argument"] != "bogus" || e.Effect != rw.EffectNone {
			t.Errorf("%s %v %s", e.Op, e.Context, e.Effect)
		}
		return e
	}
	for i, left := range []int{2, 1, 0} {
		if e := count(s, "safe_write", "{}"); e.Detail != rw.ErrUnknownArgument || e.RetryBudget != left || e.Hint != "no such argument" {
			t.Errorf("attempt %d: %s with %d left", i, e.Detail, e.RetryBudget)
		}
	}
	for _, at := range []*rw.Store{s, other} {
		e := count(at, "safe_write", "{}")
		if e.Detail != rw.ErrRetryExhausted || e.RetryBudget != 0 || e.Context["attempts"] != 3 {
			t.Errorf("%s with %d left: %v", e.Detail, e.RetryBudget, e.Context)
		}
	}
	for _, c := range [][2]string{{"safe_write", "{ }"}, {"safe_write", ""}, {"read", "{}"}} {
		if e := count(other, c[0], c[1]); e.RetryBudget != 2 {
			t.Errorf("%s %q has %d left", c[0], c[1], e.RetryBudget)
		}
	}
	if n := refusalsIn(t, dir); n != 0 {
		t.Errorf("%d rows for calls that no verb saw", n)
	}
	noErr(t, other.ResetTask(background))
	if e := count(s, "safe_write", "{}"); e.RetryBudget != 2 {
		t.Errorf("after the reset: %d left", e.RetryBudget)
	}
	check(t, s, true)
	s.Close(background)
	if e := adapter.CountRefusal(s, "read", nil, rw.NewError("read", rw.ErrUnknownArgument, "", nil)).(*rw.Error); e.Detail != rw.ErrStoreClosed || e.Op != "read" {
		t.Errorf("of a closed store: %v", e)
	}
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
