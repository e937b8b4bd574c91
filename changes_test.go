package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestToolCalls: what changes between the begin and the end of a call is a
// group of that call, also when another process ends it, and what changed
// before is not.
func TestToolCalls(t *testing.T) {
	s, dir := opened(t, nil)
	put := func(name, text string) {
		t.Helper()
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("a.txt", "known")
	r := must(s.Scan(background, around.ScanRequest{}))(t)
	require(t, r.Baseline, "%+v", r)
	put("before.txt", "before")
	call := around.ToolCall{ID: "c1", Host: "loop", Session: "s", Event: "before", Command: "make"}
	begun, err := s.BeginCall(background, call)
	require(t, err == nil && begun.Created == 1 && begun.Files[0].Path == "before.txt", "%+v %v", begun, err)
	put("a.txt", "changed")
	other := open(t, dir, nil)
	c := must(other.Capture(background))(t)
	require(t, len(c.Open) == 1 && c.Open[0].ID == "c1" && len(c.Hosts) == 1 && c.Hosts[0].Event == "before", "%+v", c)
	call.Event = "after"
	ended, err := other.EndCall(background, call)
	require(t, err == nil && ended.Changed == 1 && ended.Created == 0, "%+v %v", ended, err)
	list := must(s.Changes(background, around.ChangesRequest{}))(t)
	for _, g := range list.Groups {
		want := map[string][]string{begun.Group: nil, ended.Group: {"c1"}}[g.Group]
		expect(t, slices.Equal(g.Calls, want) && (g.Command == "make") == (want != nil), "%+v, want the calls %q", g, want)
	}
	c, err = s.Capture(background)
	expect(t, err == nil && len(c.Open) == 0 && c.Hosts[0].Event == "after", "%+v %v", c, err)
	must(s.Undo(background, rw.UndoRequest{Group: "c1"}))(t)
	fileIs(t, dir, "a.txt", "known")
	fileIs(t, dir, "before.txt", "before")
}

// TestToolCallsOfASessionEndTogether: an end without a call ends those of its
// session, not those of others.
func TestToolCallsOfASessionEndTogether(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for _, c := range []around.ToolCall{{ID: "a1", Host: "h", Session: "a"}, {ID: "a2", Host: "h", Session: "a"}, {ID: "b1", Host: "h", Session: "b"}} {
		must(s.BeginCall(background, c))(t)
	}
	must(s.EndCall(background, around.ToolCall{Host: "h", Session: "a"}))(t)
	c := must(s.Capture(background))(t)
	expect(t, len(c.Open) == 1 && c.Open[0].ID == "b1", "%+v", c)
}

// TestAFirstScanInParts: a file that a first scan had no time for counts as known when
// the next scan sees it, not as created by the call that is open then.
func TestAFirstScanInParts(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		noErr(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint("d", i)), 0o755))
		for j := range 20 {
			noErr(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("d", i), fmt.Sprint("f", j)), fmt.Appendf(nil, "%d %d\n", i, j), 0o644))
		}
	}
	s := open(t, dir, nil)
	partial := 0
	for i := 0; ; i++ {
		r, err := s.BeginCall(background, around.ToolCall{ID: fmt.Sprint("c", i), Host: "h", Within: 3 * time.Millisecond})
		noErr(t, err)
		require(t, r.Created+r.Deleted+r.Changed == 0, "call %d: %+v", i, r)
		if !r.Partial {
			break
		}
		if partial++; partial == 3 { // enough of the machine's pace
			r, err = s.Scan(background, around.ScanRequest{})
			require(t, err == nil && !r.Partial && r.Created == 0, "%+v %v", r, err)
			break
		}
	}
	put := filepath.Join(dir, "new.txt")
	noErr(t, os.WriteFile(put, []byte("new\n"), 0o644))
	r := must(s.EndCall(background, around.ToolCall{ID: "c0", Host: "h"}))(t)
	require(t, r.Created == 1 && r.Deleted == 0, "%+v", r)
	t.Logf("%d partial scans", partial)
}

// TestScanOfAnIgnoredCommit: a file that a commit made in a directory that git ignores, and
// which a scan does not enter, is not missing, and not busy. When it is gone, the next scan
// records that.
func TestScanOfAnIgnoredCommit(t *testing.T) {
	fs := simfs.New()
	fs.WriteFile(".gitignore", []byte("out/\n"), 0o644)
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	scan := func() around.ScanResult { return must(s.Scan(background, around.ScanRequest{Calls: []string{"c"}}))(t) }
	scan()
	for _, gone := range []bool{false, true} {
		write(t, s, "out/a.txt", fmt.Sprint("content ", gone), rw.ModeOverwrite)
		if gone {
			fs.Remove("out/a.txt")
		}
		r := scan()
		expect(t, len(r.Busy) == 0 && len(r.Files) == map[bool]int{false: 0, true: 1}[gone], "gone %v: %+v", gone, r)
	}
}

// TestLag: it is known how long changes may be missing, and the lag ends with the next
// scan that sees everything.
func TestLag(t *testing.T) {
	s, dir := opened(t, nil)
	lag := func(within time.Duration) float64 {
		t.Helper()
		for i := range 300 {
			noErr(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(time.Now().String()), 0o644))
		}
		must(s.BeginCall(background, around.ToolCall{Host: "h", Event: "e", Within: within}))(t)
		c, err := s.Capture(background)
		require(t, err == nil && len(c.Hosts) == 1, "%v %v", c, err)
		return c.Hosts[0].LagSeconds
	}
	if first, whole, part, again := lag(0), lag(0), lag(1), lag(0); first != 0 || whole != 0 || part <= 0 || again != 0 {
		t.Error(first, whole, part, again)
	}
}

// TestFindingsWaitForAModel: the findings of the scan of another event are returned by
// the next end of a call, once.
func TestFindingsWaitForAModel(t *testing.T) {
	s, dir := opened(t, &rw.Options{Gate: rw.GateOfAgents})
	must(s.BeginCall(background, around.ToolCall{ID: "t1", Host: "h", Session: "s"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "k.env"), []byte("GH_TOKEN="+ghToken(7)+"\n"), 0o644))
	must(s.BeginCall(background, around.ToolCall{ID: "t2", Host: "h", Session: "s"}))(t)
	must(s.EndCall(background, around.ToolCall{Host: "h", Session: "another"}))(t)
	for i, want := range []int{1, 0} {
		r, err := s.EndCall(background, around.ToolCall{ID: fmt.Sprint("t", i+1), Host: "h", Session: "s"})
		require(t, err == nil && len(r.Findings) == want, "%d: %+v %v", i, r.Findings, err)
	}
}

// TestFindingsOfOlderVersionsAreNoNews: a file with a secret is changed, and nothing is
// reported before another secret is added.
func TestFindingsOfOlderVersionsAreNoNews(t *testing.T) {
	dir := workspace(t)
	text := "GH_TOKEN=" + ghToken(7) + "\n"
	plant(t, dir, map[string]string{"k.env": text})
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Gate: rw.GateOfAgents})
	must(s.BeginCall(background, around.ToolCall{ID: "t0", Host: "h"}))(t)
	for i, more := range []string{"# a comment\n", "GH_TOKEN=" + ghToken(8) + "\n"} {
		text += more
		plant(t, dir, map[string]string{"k.env": text})
		r := must(s.EndCall(background, around.ToolCall{ID: fmt.Sprint("t", i), Host: "h"}))(t)
		length(t, r.Findings, i, more)
	}
}

// TestCallsOfStrangeHosts: names that a host invents do not prevent the recording of
// others, and contain no secret.
func TestCallsOfStrangeHosts(t *testing.T) {
	s, dir := opened(t, nil)
	for _, name := range []string{strings.Repeat("s", 300), "mcp-1234", "\xff\x00", ghToken(8)} {
		must(s.BeginCall(background, around.ToolCall{ID: name, Host: name, Session: name, Event: name, Command: name}))(t, name)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o644))
	r := must(s.EndCall(background, around.ToolCall{ID: "good", Host: "h", Session: "s"}))(t)
	require(t, r.Created == 1, "%+v", r)
	for name, text := range readTree(t, dir, true) {
		expect(t, !strings.Contains(string(text), ghToken(8)), "%s holds the secret", name)
	}
	must(s.EndCall(background, around.ToolCall{Host: "mcp-1234", Session: "mcp-1234"}))(t)
}

// TestOriginsWithoutSecrets: what a host says about a call is recorded without confirmed
// secrets. A thread with one is absent; what only may be a secret stays.
func TestOriginsWithoutSecrets(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	guess := "password = \"" + random(alphaBase, 16, 73) + "\""
	for i, via := range []rw.Via{{Client: ghToken(9), Thread: "t"}, {Client: "h", Thread: ghToken(9)}, {Client: guess, Thread: guess}} {
		must(s.SafeWrite(rw.WithVia(background, via), put("a.txt", fmt.Sprint(i), rw.ModeOverwrite)))(t)
	}
	var got [][2]any
	for _, row := range rawRows(t, dir) {
		via := row["via"].(map[string]any)
		got = append(got, [2]any{via["client"], via["thread"]})
	}
	expect(t, reflect.DeepEqual(got, [][2]any{{"{GHP-REDACTED}", "t"}, {"h", nil}, {guess, guess}}), "%v", got)
}

// TestFindingsAreReturnedAgain: a process that ends after the row and before it has
// reported its findings loses nothing: the next end of a call returns them.
func TestFindingsAreReturnedAgain(t *testing.T) {
	s, dir := opened(t, &rw.Options{Gate: rw.GateOfAgents})
	must(s.BeginCall(background, around.ToolCall{ID: "t1", Host: "h"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "k.env"), []byte("GH_TOKEN="+ghToken(9)+"\n"), 0o644))
	ended := make(chan bool)
	go func() {
		defer close(ended)
		s.EndCall(background, around.ToolCall{ID: "t1", Host: "h", Report: func(around.ScanResult) { runtime.Goexit() }})
	}()
	<-ended
	for i, want := range []int{1, 0} {
		reported := -1
		r, err := s.EndCall(background, around.ToolCall{ID: fmt.Sprint("t", i+2), Host: "h", Report: func(r around.ScanResult) { reported = len(r.Findings) }})
		require(t, err == nil && len(r.Findings) == want && reported == want, "%d: %+v %d %v", i, r.Findings, reported, err)
	}
}

// TestCallsThatAreAlike: equal calls of a host that gives no identifiers are
// distinct, also when they overlap; the oldest ends first.
func TestCallsThatAreAlike(t *testing.T) {
	s, dir := opened(t, nil)
	c := around.ToolCall{ID: "make", Host: "h", Session: "s", Alike: true}
	file := filepath.Join(dir, "a.txt")
	for i := range 2 {
		must(s.BeginCall(background, c))(t)
		noErr(t, os.WriteFile(file, fmt.Append(nil, "alone ", i), 0o644))
		must(s.EndCall(background, c))(t)
	}
	for range 2 {
		must(s.BeginCall(background, c))(t)
	}
	open := must(s.Capture(background))(t)
	must(s.EndCall(background, c))(t)
	left := must(s.Capture(background))(t)
	expect(t, len(open.Open) == 2 && len(left.Open) == 1 && left.Open[0].ID == open.Open[1].ID, "%+v %+v", open.Open, left.Open)
	list, err := s.Changes(background, around.ChangesRequest{})
	noErr(t, err)
	require(t, len(list.Groups) == 2 && list.Groups[0].Calls[0] != list.Groups[1].Calls[0], "%+v", list.Groups)
	for i := range 2 {
		_, err = s.Undo(background, rw.UndoRequest{Group: list.Groups[1-i].Calls[0]})
		noErr(t, err)
		if i == 0 {
			fileIs(t, dir, "a.txt", "alone 0")
		}
	}
	_, err = os.Stat(file)
	expect(t, os.IsNotExist(err), "%v", err)
}

// TestCallsBesideAScan: while a scan is in progress, other processes begin and end calls. What
// is found is attributed to a call that began after the scan did, not to one that had ended
// before the change, and to one until a scan that began after it has seen everything.
func TestCallsBesideAScan(t *testing.T) {
	for _, row := range []struct {
		within time.Duration // for the scan at the end of the call t0
		begins bool          // the call t1
		want   string        // the calls of each group
	}{
		{0, true, "[[t0] [t1]]"},
		{0, false, "[[t0] []]"},
		{1, true, "[[t0 t1] [t0 t1]]"},
		{1, false, "[[t0] [t0]]"},
	} {
		fs := simfs.New()
		fs.WriteFile("z/b.txt", []byte("b"), 0o644)
		watch, host := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t), must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
		must(host.BeginCall(background, around.ToolCall{ID: "t0", Host: "h"}))(t)
		fs.Before(func(op simfs.Op) {
			if op.Kind != "opendir" || op.Path != "z" {
				return
			}
			fs.Before(nil)
			fs.WriteFile("a.txt", []byte("in t0, in a directory that was visited"), 0o644)
			must(host.EndCall(background, around.ToolCall{ID: "t0", Host: "h", Within: row.within}))(t)
			if row.begins {
				must(host.BeginCall(background, around.ToolCall{ID: "t1", Host: "h", Within: row.within}))(t)
			}
			fs.WriteFile("z/b.txt", []byte("after t0"), 0o644)
		})
		for range 2 {
			must(watch.BeginCall(background, around.ToolCall{Host: "watch"}))(t)
		}
		var calls [][]string
		for _, g := range must(watch.Changes(background, around.ChangesRequest{}))(t).Groups {
			calls = append(calls, g.Calls)
		}
		expect(t, fmt.Sprint(calls) == row.want, "%v %v: %q, want %s", row.within, row.begins, calls, row.want)
	}
}

// TestMovedAndChanged: a file that was moved and changed since the last scan is another one.
func TestMovedAndChanged(t *testing.T) {
	s, dir := opened(t, nil)
	put := func(name, text string) { noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	put("a", "a")
	put("b", "b")
	must(s.Scan(background, around.ScanRequest{}))(t)
	for from, to := range map[string]string{"a": "moved", "b": "changed"} {
		noErr(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
	}
	put("changed", "another text")
	r := must(s.Scan(background, around.ScanRequest{}))(t)
	expect(t, r.Moved == 1 && r.Created == 1 && r.Deleted == 1, "%+v", r)
	must(s.Undo(background, rw.UndoRequest{Group: r.Group}))(t)
	fileIs(t, dir, "a", "a")
	fileIs(t, dir, "b", "b")
	gone(t, dir, "moved")
	gone(t, dir, "changed")
}

// TestSnapshotSparesEdits: only force replaces what was changed since without a tool call,
// whatever else the scan that found it has to say.
func TestSnapshotSparesEdits(t *testing.T) {
	s, dir := opened(t, nil)
	save := func(name, text string) {
		noErr(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	save(".gitignore", "out/\n")
	save("a.txt", "first")
	snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	for i, calls := range [][]string{{"call"}, nil, nil} {
		text := fmt.Sprint("edit ", i)
		save("a.txt", text)
		if i == 2 {
			save("out/log", text)
		}
		r := must(s.Scan(background, around.ScanRequest{Calls: calls}))(t)
		require(t, r.Changed == 1 && len(r.Ignored) == i/2, "%d: %+v", i, r)
		_, err := s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID})
		if calls == nil {
			require(t, errors.Is(err, rw.ErrChangedOutside), "%d: %v", i, err)
			fileIs(t, dir, "a.txt", text)
			_, err = s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID, Force: true})
		}
		noErr(t, err)
		fileIs(t, dir, "a.txt", "first")
	}
	// A tool call over such a change does not make it one of a tool; what was undone does
	// not count.
	must(s.SafeWrite(background, put("a.txt", "by a tool", rw.ModeOverwrite)))(t)
	must(s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID}))(t)
	byAPerson := func() string {
		save("a.txt", "by a person")
		return must(s.Scan(background, around.ScanRequest{}))(t).Group
	}
	must(s.SafeWrite(background, put("a.txt", "by a tool", rw.ModeOverwrite)))(t)
	must(s.Undo(background, rw.UndoRequest{Group: byAPerson()}))(t)
	must(s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID}))(t)
	byAPerson()
	must(s.SafeWrite(background, put("a.txt", "by a tool", rw.ModeOverwrite)))(t)
	_, err := s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID})
	expect(t, errors.Is(err, rw.ErrChangedOutside), "%v", err)
}

// TestUnreadNeedsSweep: an operation that reads and fails while a snapshot is made and
// history is pruned costs no other snapshot, none of its versions, and none that waits to
// be shipped.
func TestUnreadNeedsSweep(t *testing.T) {
	t.Parallel()
	for i, hit := phase(turns(1)), "first"; hit != ""; i += turns(1) {
		for _, ships := range inTurn(i, false, true) {
			fs := simfs.New()
			s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Years: 1}))(t)
			noErr(t, do(put("a.txt", longText, ""))(s))
			snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
			noErr(t, do(put("a.txt", otherText, rw.ModeOverwrite), put("a.txt", "third"+longText, rw.ModeOverwrite), put("a.txt", "fourth"+longText, rw.ModeOverwrite))(s))
			if ships {
				noErr(t, s.Admin().SetShipState([]byte(`{"seq":0}`)))
			}
			noErr(t, s.Close(background))
			fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 1}\n"), 0o600)
			s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
			hit, _ = failingRead(t, fs, i, syscall.EMFILE, func() error {
				_, err := s.Snapshot(background, around.SnapshotRequest{})
				_, cerr := s.Admin().Compact(background, admin.CompactRequest{})
				return errors.Join(err, cerr)
			})
			_, err := s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID, Force: true})
			require(t, err == nil && fs.Tree()["a.txt"] == longText, "operation %d, %s: %v", i, hit, err)
			_, err = s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash(otherText))})
			require(t, err == nil || !ships, "operation %d, %s: %v", i, hit, err)
			noErr(t, s.Close(background))
		}
	}
}

// TestScansSideBySide: however the scans of several processes overlap with each other
// and with the changes, and whichever saves its index last, each version has one row,
// in order, and none is lost.
func TestScansSideBySide(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	must(first.Scan(background, around.ScanRequest{}))(t)
	var wg sync.WaitGroup
	done := make(chan bool)
	for range 3 {
		s := open(t, dir, nil)
		wg.Go(func() {
			for more := true; more; {
				select {
				case <-done:
					more = false // and once more
				default:
				}
				if _, err := s.Scan(background, around.ScanRequest{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 40 {
		name := filepath.Join(dir, fmt.Sprint("f", i%7))
		if i%11 == 10 {
			os.Remove(name)
		} else {
			noErr(t, os.WriteFile(name, fmt.Append(nil, "version ", i), 0o644))
		}
		if i%5 == 0 {
			must(first.Scan(background, around.ScanRequest{}))(t)
		}
	}
	close(done)
	wg.Wait()
	r := must(first.Scan(background, around.ScanRequest{}))(t)
	expect(t, r.Created+r.Changed+r.Deleted+r.Moved+r.Modes == 0 || len(r.Busy) != 0, "%+v", r)
	list := must(first.Changes(background, around.ChangesRequest{}))(t)
	for _, f := range list.Files {
		data, err := os.ReadFile(filepath.Join(dir, f.Path))
		expect(t, !f.Conflict && (err != nil || f.SHA256 == call.DigestOf(data)) && (err == nil || f.SHA256.IsZero()), "%+v %v", f, err)
	}
	if r, err := first.Check(background, admin.CheckRequest{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v %v", r, err)
	}
}

func inSession(name string) context.Context { return rw.WithCaller(background, "agent", name) }

func overwriteIn(ctx context.Context, s *rw.Store, path string) error {
	return errorOf(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(fmt.Sprint("by ", path, time.Now())), Mode: rw.ModeOverwrite}))
}

// TestClaims checks who may change claimed paths, through every way to change them.
func TestClaims(t *testing.T) {
	s, dir := opened(t, nil)
	for _, path := range []string{"a.txt", "d/b.txt", "e.txt"} {
		write(t, s, path, "text\n", rw.ModeCreate)
	}
	mine, other := inSession("one"), inSession("two")
	isErr(t, errorOf(s.Claim(mine, []string{"d/**"}, time.Minute)), rw.ErrInvalidArgument, "a pattern")
	c, err := s.Claim(mine, []string{"a.txt", "d", "new.txt"}, time.Minute)
	require(t, err == nil && c.Fence != 0 && c.Session == "one" && !c.Until.Before(time.Now().Add(50*time.Second)), "%v %v", c, err)
	for name, call := range map[string]func(ctx context.Context) error{
		"write":  func(ctx context.Context) error { return overwriteIn(ctx, s, "a.txt") },
		"create": func(ctx context.Context) error { return overwriteIn(ctx, s, "new.txt") },
		"below":  func(ctx context.Context) error { return overwriteIn(ctx, s, "d/x/new.txt") },
		"edit": func(ctx context.Context) error {
			return errorOf(s.Edit(ctx, rw.EditRequest{Path: "d/b.txt", Edits: []rw.EditOp{{Old: "text", New: "x"}}}))
		},
		"delete":    func(ctx context.Context) error { return errorOf(s.Delete(ctx, rw.DeleteRequest{Path: "a.txt"})) },
		"move away": func(ctx context.Context) error { return errorOf(s.Move(ctx, rw.MoveRequest{Path: "d", To: "z"})) },
		"move onto": func(ctx context.Context) error {
			return errorOf(s.Move(ctx, rw.MoveRequest{Path: "e.txt", To: "a.txt", Overwrite: true}))
		},
		"tx": func(ctx context.Context) error {
			return errorOf(s.Tx(ctx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "free.txt"}, {Op: "delete", Path: "a.txt"}}}))
		},
		"claim": func(ctx context.Context) error { return errorOf(s.Claim(ctx, []string{"d/b.txt"}, time.Minute)) },
		"claim above": func(ctx context.Context) error {
			return errorOf(s.Claim(rw.WithCaller(ctx, "", "two"), []string{"D"}, time.Minute))
		},
	} {
		for range 5 { // it is no fault of the caller's, so no budget is used up
			var e *rw.Error
			if err := call(other); !errors.As(err, &e) || e.Detail != rw.ErrPathClaimed || e.Context["claimed_by"] != "one" || e.Context["until"] == nil || e.Action != rw.ActionRetryLater {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	fileIs(t, dir, "a.txt", "text\n")
	var long []string // which take too much space, in JSON
	for i := range 256 {
		long = append(long, strings.Repeat(strings.Repeat("<", 200)+"/", 15)+strconv.Itoa(i))
	}
	fails(s.Claim(mine, long, time.Minute))(t, rw.ErrInvalidArgument)
	isErr(t, overwriteIn(other, s, "a.txt"), rw.ErrPathClaimed)
	// Free are other paths, the session itself, and an operator.
	for name, call := range map[string]func() error{
		"another path": func() error { return overwriteIn(other, s, "e.txt") },
		"like a name":  func() error { return overwriteIn(other, s, "a.txt.bak") },
		"its own":      func() error { return overwriteIn(mine, s, "a.txt") },
		"operator":     func() error { return overwriteIn(rw.WithOperator(other), s, "a.txt") },
		"fence":        func() error { return overwriteIn(rw.WithFence(mine, c.Fence), s, "a.txt") },
		"no file of the workspace": func() error {
			return errorOf(s.Checkpoint(other, rw.CheckpointRequest{Name: "c", Data: []byte(`"x"`)}))
		},
	} {
		noErr(t, call(), name)
	}
	// The changes of another program are reported.
	must(s.Scan(background, around.ScanRequest{}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "d/b.txt"), []byte("shell\n"), 0o644))
	r := must(s.Scan(background, around.ScanRequest{Session: "two"}))(t)
	expect(t, len(r.Claimed) == 1 && r.Claimed[0].Path == "d/b.txt" && r.Claimed[0].Session == "one" && r.Claimed[0].Until.Equal(c.Until), "%+v", r)
	err = s.Release(other, c.Fence)
	expect(t, err == nil && overwriteIn(other, s, "a.txt") != nil, "another session released the claim %v", err)
	noErr(t, s.Release(mine, c.Fence))
	noErr(t, overwriteIn(other, s, "a.txt"))
	isErr(t, overwriteIn(rw.WithFence(mine, c.Fence), s, "a.txt"), rw.ErrClaimLost)
	fails(s.Renew(mine, c.Fence, time.Minute))(t, rw.ErrClaimLost)
	for _, bad := range []func() (around.Claim, error){
		func() (around.Claim, error) { return s.Claim(background, []string{"a.txt"}, time.Minute) },
		func() (around.Claim, error) { return s.Claim(mine, []string{"a.txt"}, around.MaxClaim+1) },
		func() (around.Claim, error) { return s.Claim(mine, []string{"a.txt"}, 0) },
		func() (around.Claim, error) { return s.Claim(mine, nil, time.Minute) },
	} {
		fails(bad())(t, rw.ErrInvalidArgument)
	}
	expect(t, errorOf(s.Claim(mine, []string{"../x"}, time.Minute)) != nil, "a path outside")
	check(t, s, false)
}

// TestClaimsEnd: a claim expires, sooner or later than after ten minutes depending on
// its renewals; its number is never assigned again, even if the file is lost.
func TestClaimsEnd(t *testing.T) {
	s, dir := opened(t, nil)
	mine, other := inSession("one"), inSession("two")
	c := must(s.Claim(mine, []string{"a.txt"}, time.Hour/100))(t)
	again, err := s.Renew(mine, c.Fence, around.MaxClaim)
	require(t, err == nil && again.Fence == c.Fence && again.Until.After(c.Until), "%v %v", again, err)
	file := statePath(dir, "claims/claims.json")
	data := must(os.ReadFile(file))(t)
	until := again.Until.Format(time.RFC3339Nano)
	for name, now := range map[string]string{
		"over":      time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano),
		"too long":  time.Now().Add(around.MaxClaim + time.Hour).UTC().Format(time.RFC3339Nano),
		"no time":   "x",
		"truncated": "",
	} {
		text := strings.Replace(string(data), until, now, 1)
		if name == "truncated" {
			text = text[:len(text)/2]
		}
		require(t, text != string(data), "%s is not in %s", until, data)
		noErr(t, os.WriteFile(file, []byte(text), 0o600))
		noErr(t, overwriteIn(other, s, "a.txt"), name)
	}
	noErr(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o700), overwriteIn(other, s, "a.txt"), os.Remove(file), os.WriteFile(file, data[:len(data)/2], 0o600)))
	next, err := s.Claim(other, []string{"a.txt"}, time.Minute)
	expect(t, err == nil && next.Fence > c.Fence, "%v %v", next, err)
	isErr(t, overwriteIn(mine, s, "a.txt"), rw.ErrPathClaimed)
}

// TestClaimRace: of many claims of one path at a time one is granted, and no write of
// another session ends after it. Each store represents a process.
func TestClaimRace(t *testing.T) {
	dir := workspace(t)
	var stores []*rw.Store
	for range 3 {
		stores = append(stores, open(t, dir, nil))
	}
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []around.Claim
		path := fmt.Sprintf("f%d.txt", round)
		for i, s := range stores {
			wg.Go(func() {
				ctx := inSession(fmt.Sprint("s", i))
				for n := range 3 {
					if n == 1 {
						if c, err := s.Claim(ctx, []string{path}, time.Minute); err == nil {
							mu.Lock()
							got = append(got, c)
							mu.Unlock()
							err := overwriteIn(rw.WithFence(ctx, c.Fence), s, path)
							expect(t, err == nil, "%v", err)
							continue
						} else if !errors.Is(err, rw.ErrPathClaimed) {
							t.Error(err)
						}
					}
					err := overwriteIn(ctx, s, path)
					expect(t, err == nil || errors.Is(err, rw.ErrPathClaimed), "%v", err)
				}
			})
		}
		wg.Wait()
		mustEqual(t, len(got), 1, "claims were granted")
		rows := must(stores[0].JournalTail(background, rw.JournalTailRequest{N: 100, FilterPath: path}))(t)
		claimed := false
		for _, e := range rows.Entries {
			if e.Session == got[0].Session {
				claimed = true
			} else if claimed && e.Op != "" && e.SHA256.String() != "" && !e.SHA256.IsZero() && e.Caller == "agent" && e.TS.Time.After(got[0].Until.Add(-time.Minute)) {
				t.Errorf("%s wrote after the claim of %s: %+v", e.Session, got[0].Session, e)
			}
		}
	}
}

// TestClaimCrash: a process that dies while it claims leaves the complete claim or
// none.
func TestClaimCrash(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{}, rw.Sim{Nonce: "0001", Manual: true}))(t)
		first := must(s.Claim(inSession("one"), []string{"a.txt"}, time.Minute))(t)
		fs.StopAt(n)
		_, err := s.Claim(inSession("two"), []string{"b.txt"}, time.Minute)
		fs.StopAt(-1)
		for _, loss := range []func() *simfs.FS{func() *simfs.FS { return fs.Crash(0, simfs.None) }, func() *simfs.FS { return fs.Crash(0, simfs.All) }, func() *simfs.FS { return fs.Crash(uint64(n)*7919, simfs.Some) }} {
			after, oerr := rw.OpenSim(loss(), &rw.Options{}, rw.Sim{Nonce: "0002", Manual: true})
			noErr(t, oerr)
			list, lerr := after.Claims(background)
			require(t, lerr == nil && len(list) != 0 && list[0].Fence == first.Fence && len(list) <= 2 && (err != nil || len(list) == 2),
				"operation %d: %+v %v, the call said %v", n, list, lerr, err)
			after.Close(background)
		}
		if err == nil {
			return
		}
	}
}

// TestClaimsOfProcesses: processes add to a counter, each step a read and a write
// without an expected version. No step is lost, because each is made under a claim.
func TestClaimsOfProcesses(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	write(t, s, "n.txt", "0", rw.ModeCreate)
	var children []*process
	for i := range 3 {
		children = append(children, spawn(t, "claims", dir, fmt.Sprint(i), rw.SyncFull))
	}
	for _, p := range children {
		noErr(t, p.Wait())
	}
	fileIs(t, dir, "n.txt", fmt.Sprint(3*claimSteps))
	check(t, s, false)
}

const claimSteps = 15

func countUnderClaims(s *rw.Store, arg string) error {
	ctx := inSession("s" + arg)
	for n := 0; n < claimSteps; {
		c, err := s.Claim(ctx, []string{"n.txt"}, time.Minute)
		if errors.Is(err, rw.ErrPathClaimed) {
			continue
		}
		if err != nil {
			return err
		}
		r, err := s.Read(ctx, rw.ReadRequest{Path: "n.txt"})
		if err != nil {
			return err
		}
		have, err := strconv.Atoi(string(r.Content))
		if err != nil {
			return err
		}
		if _, err := s.SafeWrite(rw.WithFence(ctx, c.Fence), put("n.txt", strconv.Itoa(have+1), rw.ModeOverwrite)); err != nil {
			return err
		}
		if err := s.Release(ctx, c.Fence); err != nil {
			return err
		}
		n++
	}
	return nil
}

// gitIn runs git in a directory.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	testbed.Needs(t, "git")
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.autocrlf=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	require(t, err == nil, "git %v: %v %s", args, err, out)
	return string(out)
}

// editAs replaces a string in a session.
func editAs(t *testing.T, s *rw.Store, session, path, old, now string) {
	t.Helper()
	must(s.Edit(background, rw.EditRequest{Call: rw.Call{Session: session}, Path: path, Edits: []rw.EditOp{{Old: old, New: now}}}))(t)
}

// lettered is a file of lines that are far enough from each other.
var lettered = "a\n1\n2\nb\n3\n4\nc\n5\n6\nd\n7\n8\ne\n9\n"

// TestStageTakesExactlyOneSession: two sessions and the user change one file,
// the user has staged something, another session made files and deleted some.
func TestStageTakesExactlyOneSession(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"", "sub/dir"} {
		top := workspace(t)
		dir := filepath.Join(top, below)
		noErr(t, os.MkdirAll(dir, 0o755))
		put := func(name, text string) {
			noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		gitIn(t, top, "init", "-q")
		put("f.txt", lettered)
		put("gone.txt", "gone\n")
		put("kept.txt", "kept\n")
		put("run.sh", "echo\n")
		gitIn(t, top, "add", "-A")
		gitIn(t, top, "commit", "-qm", "first")
		// The user stages one hunk and leaves another one unstaged.
		put("f.txt", strings.Replace(lettered, "a\n", "A by user\n", 1))
		gitIn(t, top, "add", "-A")
		put("f.txt", strings.NewReplacer("a\n", "A by user\n", "e\n", "E later\n").Replace(lettered))
		s := open(t, dir, nil)
		must(s.Scan(background, around.ScanRequest{}))(t)
		editAs(t, s, "one", "f.txt", "b\n", "B one\n")
		editAs(t, s, "two", "f.txt", "c\n", "C two\n")
		editAs(t, s, "one", "f.txt", "d\n", "D one\n")
		editAs(t, s, "one", "f.txt", "B one\n", "B one, again\n")
		for session, want := range map[string]bool{"one": true, "two": false} {
			list := must(s.Changes(background, around.ChangesRequest{Session: session}))(t)
			require(t, len(list.Files) == 1 && list.Files[0].Conflict == want, "session %s: %+v", session, list.Files)
		}
		for _, name := range []string{"new one.txt", "new\ttwo.txt"} {
			session := strings.TrimSuffix(name[4:], ".txt")
			must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: session}, Path: name, Content: []byte("new\n")}))(t)
		}
		must(s.Delete(background, rw.DeleteRequest{Call: rw.Call{Session: "one"}, Path: "gone.txt"}))(t)
		must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: "one"}, Path: "for a while.txt", Content: []byte("x\n")}))(t)
		must(s.Delete(background, rw.DeleteRequest{Call: rw.Call{Session: "one"}, Path: "for a while.txt"}))(t)
		// A shell command of the session, seen by a scan.
		put("kept.txt", "kept\nby a command\n")
		noErr(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
		must(s.Scan(background, around.ScanRequest{Session: "one", Calls: []string{"call"}}))(t)
		// The user continues.
		put("f.txt", "user\n"+read(t, dir, "f.txt"))
		must(s.Scan(background, around.ScanRequest{}))(t)
		tree, refs := described(t, dir, ".git", rw.StateDirName), gitIn(t, top, "for-each-ref")
		got := must(s.StageChanges(background, around.ChangesRequest{Session: "one"}))(t)
		want := []string{"f.txt", "gone.txt", "kept.txt", "new one.txt", "run.sh"}
		expect(t, slices.Equal(got.Staged, want) && len(got.Skipped) == 0, "%+v", got)
		index := strings.NewReplacer("a\n", "A by user\n", "b\n", "B one, again\n", "d\n", "D one\n").Replace(lettered)
		equal(t, gitIn(t, dir, "show", ":./f.txt"), index, "the index has")
		equal(t, gitIn(t, dir, "show", ":./kept.txt"), "kept\nby a command\n", "the index has")
		status := gitIn(t, dir, "status", "--porcelain", "-z", "--untracked-files=all")
		for _, want := range []string{"MM " + join(below, "f.txt"), "D  " + join(below, "gone.txt"), "M  " + join(below, "kept.txt"), "A  " + join(below, "new one.txt"), "M  " + join(below, "run.sh"), "?? " + join(below, "new\ttwo.txt")} {
			expect(t, slices.Contains(strings.Split(status, "\x00"), want), "no %q in %q", want, status)
		}
		now := described(t, dir, ".git", rw.StateDirName)
		expect(t, now == tree && gitIn(t, top, "for-each-ref") == refs, "more than the index changed")
		again, err := s.StageChanges(background, around.ChangesRequest{Session: "one"})
		expect(t, err == nil && len(again.Staged) == 0 && len(again.Already) == 5, "%+v %v", again, err)
		fails(s.StageChanges(background, around.ChangesRequest{Agent: strings.Repeat("a", 1000)}))(t, rw.ErrInvalidArgument)
		// The patch is the same change for git.
		ch := must(s.Changes(background, around.ChangesRequest{Session: "one", Hunks: true}))(t)
		patch, hunks := "", map[string]string{}
		for _, f := range ch.Files {
			patch += f.Patch
			hunks[f.Path] = fmt.Sprint(f.Hunks)
		}
		expect(t, hunks["f.txt"] == "[{5 1 5 1} {11 1 11 1}]" && hunks["kept.txt"] == "[{2 0 2 1}]", "%v", hunks)
		expect(t, !strings.Contains(patch, "+C two") && !strings.Contains(patch, "+E later") && !strings.Contains(patch, "+user"), "%s", patch)
		file := filepath.Join(t.TempDir(), "patch")
		noErr(t, os.WriteFile(file, []byte(patch), 0o600))
		gitIn(t, dir, "apply", "--reverse", "--check", file)
	}
}

func join(below, name string) string { return strings.TrimPrefix(below+"/"+name, "/") }

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(dir, name)))(t)
	return string(data)
}

// TestStageLeavesUnknownChanges: it reports the skipped files and the reasons; the
// index of these files stays unchanged, also while another program has locked it.
func TestStageLeavesUnknownChanges(t *testing.T) {
	dir := workspace(t)
	gitIn(t, dir, "init", "-q")
	marker := filepath.Join(t.TempDir(), "ran")
	files := map[string]string{
		"overlap.txt": lettered, "index.txt": lettered, "filtered.dat": "x\n", "binary": "x\x00\n", ".gitignore": "ignored.txt\n",
		".gitattributes": "*.dat filter=evil\n*.c ident\n", "id.c": "x\n",
	}
	for name, text := range files {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "first")
	for _, key := range []string{"filter.evil.clean", "core.fsmonitor"} {
		gitIn(t, dir, "config", key, "touch "+marker)
	}
	s := open(t, dir, nil)
	for _, name := range []string{"overlap.txt", "index.txt"} {
		editAs(t, s, "one", name, "b\n", "B\n")
	}
	editAs(t, s, "two", "overlap.txt", "B\n", "Bee\n")
	noErr(t, os.WriteFile(filepath.Join(dir, "index.txt"), []byte(strings.Replace(lettered, "b\n", "other\n", 1)), 0o644))
	gitIn(t, dir, "-c", "core.fsmonitor=false", "add", "index.txt")
	for name, text := range map[string]string{"filtered.dat": "y\n", "id.c": "$Id: y $\n", "binary": "y\x00\n", "ignored.txt": "new\n"} {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: "one"}, Path: name, Content: []byte(text), Mode: rw.ModeOverwrite}))(t)
	}
	os.Remove(marker)
	index := read(t, dir, ".git/index")
	got := must(s.StageChanges(background, around.ChangesRequest{Session: "one"}))(t)
	want := map[string]string{"overlap.txt": around.HunksOverlap, "index.txt": around.HunksOverlap, "filtered.dat": around.HunksFiltered, "id.c": around.HunksFiltered, "binary": around.HunksBinary, "ignored.txt": around.HunksIgnored}
	for _, f := range got.Skipped {
		equal(t, want[f.Path], f.Reason, f)
		delete(want, f.Path)
	}
	expect(t, len(want) == 0 && len(got.Staged) == 0 && read(t, dir, ".git/index") == index, "%v %+v", want, got)
	expect(t, errorOf(os.Stat(marker)) != nil, "git ran a program")
	editAs(t, s, "three", "index.txt", "other\n", "mine\n")
	noErr(t, os.WriteFile(filepath.Join(dir, ".git/index.lock"), nil, 0o600))
	_, err := s.StageChanges(background, around.ChangesRequest{Session: "three"})
	expect(t, err != nil && read(t, dir, ".git/index") == index && read(t, dir, ".git/index.lock") == "", "%v", err)
	// What no row records took the line away before another session wrote it again.
	for _, session := range []string{"four", "five"} {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: session}, Path: "again.txt", Content: []byte("1\n2\n3\nagain\n"), Mode: rw.ModeOverwrite}))(t)
		noErr(t, os.WriteFile(filepath.Join(dir, "again.txt"), []byte("1\n2\n3\n"), 0o644))
	}
	list := must(s.Changes(background, around.ChangesRequest{Session: "four", Hunks: true}))(t)
	expect(t, !strings.Contains(list.Files[0].Patch, "+again"), "%+v", list.Files)
}

// TestBlame: lines belong to the call that wrote them: over edits of others,
// scans, moves, undo and redo, and changes that no row records.
func TestBlame(t *testing.T) {
	s, dir := opened(t, nil)
	ctx := rw.WithVia(background, rw.Via{Client: "host", Thread: "t", Call: "call_1", Model: "m-1", Turn: "turn_1", Trace: "trace_1"})
	first := must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "old.txt", Content: []byte("a\nb\nc\n")}))(t)
	must(s.Scan(background, around.ScanRequest{}))(t)
	seq := func(r rw.Receipt) uint64 { return r.JournalSeq }
	one := seq(first.Receipt)
	edit := func(session, path, old, now string) uint64 {
		t.Helper()
		r := must(s.Edit(background, rw.EditRequest{Call: rw.Call{Session: session}, Path: path, Edits: []rw.EditOp{{Old: old, New: now}}}))(t)
		return seq(r.Receipt)
	}
	two := edit("s2", "old.txt", "b\n", "B\nB2\n")
	must(s.Move(background, rw.MoveRequest{Path: "old.txt", To: "f.txt"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "f.txt"), []byte("a\nB\nB2\nc\nshell\n"), 0o644))
	scan, err := s.Scan(background, around.ScanRequest{Session: "s3", Calls: []string{"call_9"}, Command: "echo shell >> f.txt"})
	require(t, err == nil && scan.Seq != 0, "%v %v", scan, err)
	check := func(when, want string, undone map[uint64]bool) around.BlameResult {
		t.Helper()
		got := must(s.Blame(background, around.BlameRequest{Path: "f.txt"}))(t)
		have := ""
		for i, l := range got.Lines {
			equal(t, l.Line, i+1, l)
			have += fmt.Sprintf("%s:%d:%v ", l.Text, l.Row, l.Unrecorded)
		}
		expect(t, have == want && got.Complete, "%s: %s\nwant %s (%v)", when, have, want, got.Complete)
		for _, c := range got.Calls {
			expect(t, (c.UndoneBy > 0) == undone[c.Row] && (c.UndoneBy == 0 || c.UndoneBy > c.Row), "%s: %+v", when, c)
		}
		return got
	}
	text := func(last string) string {
		return fmt.Sprintf("a:%d:false B:%d:false B2:%d:false c:%d:false shell:%d:false ", one, two, two, one, scan.Seq) + last
	}
	got := check("written", text(""), nil)
	calls := map[uint64]around.BlameCall{}
	for _, c := range got.Calls {
		calls[c.Row] = c
	}
	c := calls[one]
	expect(t, c.Via != nil && c.Via.Call == "call_1" && c.Via.Model == "m-1" && c.Via.Turn == "turn_1" && c.Via.Trace == "trace_1" && c.Lines == 2, "%+v", c)
	if c := calls[scan.Seq]; c.Caller != around.CallerOutside || len(c.During) != 1 || c.During[0] != "call_9" || !strings.HasPrefix(c.Command, "echo") || c.Session != "s3" {
		t.Errorf("%+v", c)
	}
	three := edit("s4", "f.txt", "shell\n", "SHELL\nmore\n")
	undo := func() {
		t.Helper()
		must(s.Undo(background, rw.UndoRequest{Row: func() uint64 { // the newest commit of any caller
			return must(s.History(background, rw.HistoryRequest{Path: "f.txt"}))(t).Versions[0].Version
		}()}))(t)
	}
	undo()
	check("undone", text(""), map[uint64]bool{three: true})
	undo()
	redone := strings.Replace(text(""), fmt.Sprintf("shell:%d:false", scan.Seq), fmt.Sprintf("SHELL:%d:false more:%d:false", three, three), 1)
	check("redone", redone, map[uint64]bool{three + 1: true})
	f := must(os.OpenFile(filepath.Join(dir, "f.txt"), os.O_APPEND|os.O_WRONLY, 0))(t)
	f.WriteString("unseen")
	f.Close()
	check("changed outside", redone+"unseen:0:true ", map[uint64]bool{three + 1: true})
	expect(t, errorOf(s.Blame(background, around.BlameRequest{Path: "none.txt"})) != nil, "a file that is not there")
	for name, row := range map[string]struct {
		make func(path string) error
		move bool // the first row is a move
		want string
	}{
		"moved over another": {func(path string) error {
			return do(put(path, "old\n", rw.ModeCreate), put(path+"1", "a\nb\n", rw.ModeCreate))(s)
		}, true, "a:2 b:2 c:4"},
		"moved, without a row": {func(path string) error { return os.WriteFile(filepath.Join(dir, path+"1"), []byte("a\nb\n"), 0o644) }, true, "a:0 b:0 c:2"},
		"removed and made again": {func(path string) error {
			return errors.Join(do(put(path, "a\nb\n", rw.ModeCreate))(s), s.Sync(background), os.Remove(filepath.Join(dir, path)))
		}, false, "a:2 b:2 c:2"},
	} {
		head := must(s.Describe(background, rw.DescribeRequest{}))(t).HeadSeq
		noErr(t, row.make(name))
		if row.move {
			must(s.Move(background, rw.MoveRequest{Path: name + "1", To: name, Overwrite: true}))(t)
		}
		noErr(t, do(put(name, "a\nb\nc\n", rw.ModeOverwrite))(s))
		var have []string
		for _, l := range must(s.Blame(background, around.BlameRequest{Path: name}))(t).Lines {
			have = append(have, fmt.Sprint(l.Text, ":", l.Row-min(l.Row, head)))
		}
		equal(t, strings.Join(have, " "), row.want, name)
	}
}

// TestUndoAfterAnUndoneGroup: a row can be undone although a scan recorded a change after it,
// if that was undone. Otherwise the refusal names the group, and only one that exists.
func TestUndoAfterAnUndoneGroup(t *testing.T) {
	s, dir := quick(t, nil)
	path := filepath.Join(dir, "a.txt")
	write(t, s, "a.txt", "zero\n", rw.ModeCreate)
	one := write(t, s, "a.txt", "one\n", rw.ModeOverwrite).JournalSeq
	must(s.Scan(background, around.ScanRequest{}))(t)
	noErr(t, os.WriteFile(path, []byte("outside\n"), 0o644))
	group := must(s.Scan(background, around.ScanRequest{}))(t).Group
	err := errorOf(s.Undo(background, rw.UndoRequest{Row: one}))
	expect(t, errors.Is(err, rw.ErrChangedOutside) && strings.Contains(rw.AsError("", err).Hint, group+" first"), "%v: %s", err, rw.AsError("", err).Hint)
	must(s.Undo(background, rw.UndoRequest{Group: group}))(t)
	must(s.Undo(background, rw.UndoRequest{Row: one}))(t)
	fileIs(t, dir, "a.txt", "zero\n")
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	err = errorOf(s.Undo(background, rw.UndoRequest{Row: one}))
	expect(t, errors.Is(err, rw.ErrChangedOutside) && !strings.Contains(rw.AsError("", err).Hint, "obs_"), "%v: %s", err, rw.AsError("", err).Hint)
}

// TestSessionOfAContext: a host that knows the connection of a call sets it once, for
// every verb; the value in the request takes precedence.
func TestSessionOfAContext(t *testing.T) {
	s, _ := quick(t, &rw.Options{Session: "of the store"})
	first, second := rw.WithCaller(background, "", "first"), rw.WithCaller(background, "", "second")
	for _, c := range []struct {
		want string
		call func() (rw.Receipt, error)
	}{
		{"of the store", func() (rw.Receipt, error) {
			r, err := s.SafeWrite(background, put("a.txt", "a", rw.ModeOverwrite))
			return r.Receipt, err
		}},
		{"first", func() (rw.Receipt, error) {
			r, err := s.SafeWrite(first, put("a.txt", "b", rw.ModeOverwrite))
			return r.Receipt, err
		}},
		{"named", func() (rw.Receipt, error) {
			r := put("a.txt", "c", rw.ModeOverwrite)
			r.Session = "named"
			out, err := s.SafeWrite(first, r)
			return out.Receipt, err
		}},
		{"second", func() (rw.Receipt, error) {
			r, err := s.ChunkAppend(second, rw.ChunkAppendRequest{Session: "pieces", Content: []byte("d")})
			return r.Receipt, err
		}},
		{"second", func() (rw.Receipt, error) {
			r, err := s.ChunkCompose(second, rw.ChunkComposeRequest{Session: "pieces", OutputPath: "out.txt"})
			return r.Receipt, err
		}},
		{"first", func() (rw.Receipt, error) {
			r, err := s.Edit(rw.WithCaller(first, "", ""), rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "c", New: "e"}}})
			return r.Receipt, err
		}},
	} {
		r := must(c.call())(t)
		tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1}))(t)
		if row := tail.Entries[len(tail.Entries)-1]; r.Session != c.want || row.Session != c.want || row.JournalID == "" {
			t.Errorf("%s: the receipt says %q, the row %q, want %q", r.Op, r.Session, row.Session, c.want)
		}
	}
}

// TestUndoTakesItsOwnSession: without caller and session, nothing of another session is
// touched; a call that names the caller undoes the newest commit.
func TestUndoTakesItsOwnSession(t *testing.T) {
	s, dir := quick(t, nil)
	for _, name := range []string{"first", "second", "third"} {
		must(s.SafeWrite(rw.WithCaller(background, "", name), put(name+".txt", name, rw.ModeCreate)))(t)
	}
	left := func(want ...string) {
		t.Helper()
		got := must(filepath.Glob(filepath.Join(dir, "*.txt")))(t)
		for i, name := range got {
			got[i] = strings.TrimSuffix(filepath.Base(name), ".txt")
		}
		require(t, slices.Equal(got, want), "left are %v, want %v", got, want)
	}
	undo := func(session string, r rw.UndoRequest) error {
		return errorOf(s.Undo(rw.WithCaller(background, "", session), r))
	}
	noErr(t, undo("first", rw.UndoRequest{}))
	left("second", "third")
	err := undo("fourth", rw.UndoRequest{})
	e := (*rw.Error)(nil)
	require(t, errors.As(err, &e) && e.Detail == rw.ErrNothingToUndo && strings.Contains(e.Hint, "pass caller"), "in a session without commits: %v", err)
	left("second", "third")
	noErr(t, undo("fourth", rw.UndoRequest{Call: rw.Call{Caller: "unknown"}})) // the newest is the undo itself
	left("first", "second", "third")
	noErr(t, undo("fourth", rw.UndoRequest{Call: rw.Call{Session: "second"}}))
	left("first", "third")
}

// TestAnotherConnectionIsNoOtherCall: an agent that connects again has the
// budget and the key that it had.
func TestAnotherConnectionIsNoOtherCall(t *testing.T) {
	s, dir := quick(t, nil)
	r := put("a.txt", "x", rw.ModeCreate)
	human(t, dir, "a.txt", "there")
	for _, name := range []string{"first", "second", "third"} {
		fails(s.SafeWrite(rw.WithCaller(background, "", name), r))(t, rw.ErrFileAlreadyExists)
	}
	fails(s.SafeWrite(rw.WithCaller(background, "", "fourth"), r))(t, rw.ErrRetryExhausted, "the fourth connection")
	r.Session = "named"
	fails(s.SafeWrite(background, r))(t, rw.ErrFileAlreadyExists, "a request that names another session")
	r = put("b.txt", "x", rw.ModeCreate)
	r.IdempotencyKey = "k"
	for _, name := range []string{"first", "second"} {
		must(s.SafeWrite(rw.WithCaller(background, "", name), r))(t)
	}
}

// TestLabelsOfAContextAreCut: a name from the wire cannot break a row.
func TestLabelsOfAContextAreCut(t *testing.T) {
	s, _ := quick(t, nil)
	for in, want := range map[string]string{
		strings.Repeat("é", 150): strings.Repeat("é", 100), "a\xffb": "a\uFFFDb", strings.Repeat("x", 199) + "é": strings.Repeat("x", 199),
	} {
		r := must(s.SafeWrite(rw.WithCaller(background, in, in), put("a.txt", "x", rw.ModeOverwrite)))(t)
		expect(t, r.Receipt.Session == want && r.Receipt.Caller == want, "%q became %q and %q", in, r.Receipt.Caller, r.Receipt.Session)
	}
}

// TestVersionsOfALink: a path means the link itself if the journal knows it, and otherwise
// the file that it leads to.
func TestVersionsOfALink(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "content of a file\n", rw.ModeCreate)
	must(s.Scan(background, around.ScanRequest{}))(t)
	link := filepath.Join(dir, "link")
	noErr(t, os.Symlink("a.txt", link))
	newest := func() rw.FileVersion {
		t.Helper()
		h := must(s.History(background, rw.HistoryRequest{Path: "link"}))(t)
		require(t, len(h.Versions) != 0, "no versions")
		return h.Versions[0]
	}
	equal(t, newest().Path, "a.txt", "a link that the journal does not know")
	must(s.Scan(background, around.ScanRequest{}))(t)
	first := newest()
	equal(t, first.Path, "link")
	noErr(t, errors.Join(os.Remove(link), os.Symlink("elsewhere", link)))
	must(s.Scan(background, around.ScanRequest{}))(t)
	must(s.Restore(background, rw.RestoreRequest{Path: "link", Version: first.Version}))(t)
	equal(t, must(os.Readlink(link))(t), "a.txt")
	fileIs(t, dir, "a.txt", "content of a file\n")
}
