package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestClockSetBackInOneProcess: what was counted and kept while the clock was a year ahead
// lasts as long as ever once it is right, in the process that did so as well.
func TestClockSetBackInOneProcess(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	right := time.Now()
	ahead := right.AddDate(1, 0, 0)
	s.SetNow(ahead)
	r := put("a.txt", risky.high, rw.ModeCreate)
	spend(t, s, r, rw.ErrRiskBlocked)
	isExhausted(t, s, dir, r)
	ref := drafts(t, s)[0].DraftRef

	s.SetNow(right)
	draftIs(t, s, ref, risky.high)
	attemptIs(t, s, put("a.txt", risky.high, rw.ModeCreate), rw.ErrRiskBlocked, 2)
	s.SetNow(right.Add(time.Hour))
	draftIs(t, s, ref, risky.high)
	compact(t, s, admin.CompactRequest{})
	s.SetNow(right.Add(8 * 24 * time.Hour))
	length(t, drafts(t, s), 0, "drafts")
}

// TestDraftOfAClockThatWasAheadExpires seven days after it was first seen with the right
// clock: it is neither dropped at once nor kept for a year.
func TestDraftOfAClockThatWasAheadExpires(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	right := time.Now()
	s.SetNow(right.AddDate(1, 0, 0))
	ref := refuse(t, s, "a.txt", risky.high)
	s.SetNow(right)
	compact(t, s, admin.CompactRequest{})
	draftIs(t, s, ref, risky.high)
	equal(t, drafts(t, s)[0].ExpiresAt, right.UTC().Truncate(time.Microsecond).Add(7*24*time.Hour))
	s.SetNow(right.Add(7*24*time.Hour - time.Minute))
	draftIs(t, s, ref, risky.high)
	s.SetNow(right.Add(7*24*time.Hour + time.Minute))
	draftFails(t, s, ref, rw.ErrDraftNotFound)
	compact(t, s, admin.CompactRequest{})
	s.SetNow(right)
	draftFails(t, s, ref, rw.ErrDraftNotFound)
}

// TestVersionsOfAWrongClockKeepTheirAge: versions that were replaced while the clock was
// fifty years behind are as old as the rows around say, and so are those of a clock that
// was ahead.
func TestVersionsOfAWrongClockKeepTheirAge(t *testing.T) {
	for _, off := range []int{-50, 50} {
		fs := simfs.New()
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_age: 400d}\n"), 0o600)
		session, revs := 0, 0
		with := func(years int, do func(s *rw.Store)) {
			session++
			s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: fmt.Sprintf("%04d", session), Years: years}))(t)
			do(s)
			noErr(t, s.Close(background))
		}
		rewrite := func(s *rw.Store) {
			for range 3 {
				revs++
				must(s.SafeWrite(background, put("a.txt", fmt.Sprintf("content %d\n", revs), rw.ModeOverwrite)))(t)
			}
			compact(t, s, admin.CompactRequest{})
		}
		available := func(s *rw.Store) int {
			h := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
			return testbed.Count(h.Versions, func(v rw.FileVersion) bool { return v.Available })
		}
		with(0, rewrite)
		with(off, func(s *rw.Store) {
			for range 3 {
				revs++
				must(s.SafeWrite(background, put("a.txt", fmt.Sprintf("content %d\n", revs), rw.ModeOverwrite)))(t)
			}
		})
		with(0, func(s *rw.Store) {
			rewrite(s)
			equal(t, available(s), revs, fmt.Sprint(off, " years: versions that are kept"))
		})
		with(3, func(s *rw.Store) { // all are older than 400 days
			compact(t, s, admin.CompactRequest{})
			got := available(s)
			expect(t, got <= 2, "%d years: %d versions are kept after three years", off, got)
		})
	}
}

// TestCallsOfAWrongClockAreForgotten: a tool call that began while the clock was a year
// ahead does not receive the changes of the year that follows.
func TestCallsOfAWrongClockAreForgotten(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := open(t, dir, nil)
	right := time.Now()
	s.SetNow(right.AddDate(1, 0, 0))
	must(s.BeginCall(background, around.ToolCall{ID: "call-1", Host: "shell", Session: "one", Event: "before"}))(t)
	s.SetNow(right)
	length(t, must(s.Capture(background))(t).Open, 0, "open calls")
	noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("by a person\n"), 0o644))
	must(s.Scan(background, around.ScanRequest{}))(t)
	length(t, must(s.Capture(background))(t).Open, 0, "open calls")
}

// TestEventsOfAWrongClockAreForgotten: an event that came while the clock was a year ahead
// does not hide the same event of another call with that identifier.
func TestEventsOfAWrongClockAreForgotten(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := open(t, dir, nil)
	c := around.ToolCall{ID: "call-1", Host: "shell", Session: "one", Event: "before"}
	seen := func(want bool) {
		t.Helper()
		equal(t, must(s.SeenCall(background, c))(t), want, "seen")
	}
	seen(false)
	seen(true)
	events := must(filepath.Glob(statePath(dir, "observe", "events", "*")))(t)
	length(t, events, 1, "events")
	ahead := time.Now().AddDate(1, 0, 0)
	noErr(t, os.Chtimes(events[0], ahead, ahead))
	seen(false)
	seen(true)
}

// TestSnapshotsOfAWrongClock: a snapshot is kept although the clock was ten years ahead
// when many others were made.
func TestSnapshotsOfAWrongClock(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := open(t, dir, nil)
	right := time.Now()
	make := func(text string) string {
		t.Helper()
		noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o644))
		return must(s.Snapshot(background, around.SnapshotRequest{}))(t).ID
	}
	for i := range 50 {
		s.SetNow(right.AddDate(10, 0, 0).Add(time.Duration(i) * time.Second))
		make("ahead")
	}
	var list []around.Snapshot
	for i, text := range []string{"ahead", "right", "right again"} {
		s.SetNow(right.Add(time.Duration(i) * time.Second))
		id, before := make(text), list
		list = must(s.SnapshotList(background, around.SnapshotListRequest{}))(t).Snapshots
		expect(t, slices.ContainsFunc(list, func(x around.Snapshot) bool { return x.ID == id }), "%q: the snapshot is gone", text)
		if i > 0 {
			equal(t, list[0].ID, id, "the newest")
		}
		if i > 1 {
			equal(t, list[1].ID, before[0].ID, "the one before")
		}
	}
}

// TestSnapshotsOfOneMoment: a snapshot does not replace another one if the clock stands still.
func TestSnapshotsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := open(t, workspace(t), nil)
	s.SetNow(time.Now())
	for _, label := range []string{"first", "second", "third"} {
		must(s.Snapshot(background, around.SnapshotRequest{Label: label}))(t)
	}
	var labels []string
	for _, snap := range must(s.SnapshotList(background, around.SnapshotListRequest{}))(t).Snapshots {
		labels = append(labels, snap.Label)
	}
	equal(t, fmt.Sprint(labels), "[third second first]", "snapshots")
}

// TestSnapshotsOfOneLabel: those that a program makes again and again do not take the
// place of others.
func TestSnapshotsOfOneLabel(t *testing.T) {
	t.Parallel()
	s := open(t, workspace(t), nil)
	for _, label := range append([]string{"mine", ""}, slices.Repeat([]string{"hub task"}, 50)...) {
		must(s.Snapshot(background, around.SnapshotRequest{Label: label}))(t)
	}
	list := must(s.SnapshotList(background, around.SnapshotListRequest{}))(t).Snapshots
	equal(t, len(list), 50, "snapshots")
	equal(t, list[48].Label+list[49].Label, "mine", "the oldest two")
}
