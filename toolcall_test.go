package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestToolCalls: what changes between the begin and the end of a call is a
// group of that call, also when another process ends it, and what changed
// before is not.
func TestToolCalls(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	put := func(name, text string) {
		t.Helper()
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("a.txt", "known")
	if r, err := s.Scan(background, rw.ScanRequest{}); err != nil || !r.Baseline {
		t.Fatalf("%+v %v", r, err)
	}
	put("before.txt", "before")
	call := rw.ToolCall{ID: "c1", Host: "loop", Session: "s", Event: "before", Command: "make"}
	begun, err := s.BeginCall(background, call)
	if err != nil || begun.Created != 1 || begun.Files[0].Path != "before.txt" {
		t.Fatalf("%+v %v", begun, err)
	}
	put("a.txt", "changed")
	other := open(t, dir, nil)
	if c, err := other.Capture(background); err != nil || len(c.Open) != 1 || c.Open[0].ID != "c1" || len(c.Hosts) != 1 || c.Hosts[0].Event != "before" {
		t.Fatalf("%+v %v", c, err)
	}
	call.Event = "after"
	ended, err := other.EndCall(background, call)
	if err != nil || ended.Changed != 1 || ended.Created != 0 {
		t.Fatalf("%+v %v", ended, err)
	}
	list := must(s.Changes(background, rw.ChangesRequest{}))(t)
	for _, g := range list.Groups {
		if want := map[string][]string{begun.Group: nil, ended.Group: {"c1"}}[g.Group]; !slices.Equal(g.Calls, want) || (g.Command == "make") != (want != nil) {
			t.Errorf("%+v, want the calls %q", g, want)
		}
	}
	if c, err := s.Capture(background); err != nil || len(c.Open) != 0 || c.Hosts[0].Event != "after" {
		t.Errorf("%+v %v", c, err)
	}
	must(s.Undo(background, rw.UndoRequest{Group: "c1"}))(t)
	fileIs(t, dir, "a.txt", "known")
	fileIs(t, dir, "before.txt", "before")
}

// TestToolCallsOfASessionEndTogether: an end without a call ends those of its
// session, not those of others.
func TestToolCallsOfASessionEndTogether(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for _, c := range []rw.ToolCall{{ID: "a1", Host: "h", Session: "a"}, {ID: "a2", Host: "h", Session: "a"}, {ID: "b1", Host: "h", Session: "b"}} {
		must(s.BeginCall(background, c))(t)
	}
	must(s.EndCall(background, rw.ToolCall{Host: "h", Session: "a"}))(t)
	if c, err := s.Capture(background); err != nil || len(c.Open) != 1 || c.Open[0].ID != "b1" {
		t.Errorf("%+v %v", c, err)
	}
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
		r, err := s.BeginCall(background, rw.ToolCall{ID: fmt.Sprint("c", i), Host: "h", Within: 3 * time.Millisecond})
		noErr(t, err)
		if r.Created+r.Deleted+r.Changed > 0 {
			t.Fatalf("call %d: %+v", i, r)
		}
		if !r.Partial {
			break
		}
		if partial++; partial == 3 { // enough of the machine's pace
			if r, err = s.Scan(background, rw.ScanRequest{}); err != nil || r.Partial || r.Created > 0 {
				t.Fatalf("%+v %v", r, err)
			}
			break
		}
	}
	put := filepath.Join(dir, "new.txt")
	noErr(t, os.WriteFile(put, []byte("new\n"), 0o644))
	if r, err := s.EndCall(background, rw.ToolCall{ID: "c0", Host: "h"}); err != nil || r.Created != 1 || r.Deleted != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	t.Logf("%d partial scans", partial)
}

// TestLag: it is known how long changes may be missing, and the lag ends with the next
// scan that sees everything.
func TestLag(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	lag := func(within time.Duration) float64 {
		t.Helper()
		for i := range 300 {
			noErr(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(time.Now().String()), 0o644))
		}
		must(s.BeginCall(background, rw.ToolCall{Host: "h", Event: "e", Within: within}))(t)
		c, err := s.Capture(background)
		if err != nil || len(c.Hosts) != 1 {
			t.Fatal(c, err)
		}
		return c.Hosts[0].LagSeconds
	}
	if first, whole, part, again := lag(0), lag(0), lag(1), lag(0); first != 0 || whole != 0 || part <= 0 || again != 0 {
		t.Error(first, whole, part, again)
	}
}

// TestFindingsWaitForAModel: the findings of the scan of another event are returned by
// the next end of a call, once.
func TestFindingsWaitForAModel(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Gate: rw.GateOfAgents})
	must(s.BeginCall(background, rw.ToolCall{ID: "t1", Host: "h", Session: "s"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "k.env"), []byte("GH_TOKEN="+ghToken(7)+"\n"), 0o644))
	must(s.BeginCall(background, rw.ToolCall{ID: "t2", Host: "h", Session: "s"}))(t)
	must(s.EndCall(background, rw.ToolCall{Host: "h", Session: "another"}))(t)
	for i, want := range []int{1, 0} {
		r, err := s.EndCall(background, rw.ToolCall{ID: fmt.Sprint("t", i+1), Host: "h", Session: "s"})
		if err != nil || len(r.Findings) != want {
			t.Fatalf("%d: %+v %v", i, r.Findings, err)
		}
	}
}

// TestCallsOfStrangeHosts: names that a host invents do not prevent the recording of
// others, and contain no secret.
func TestCallsOfStrangeHosts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for _, name := range []string{strings.Repeat("s", 300), "mcp-1234", "\xff\x00", ghToken(8)} {
		if _, err := s.BeginCall(background, rw.ToolCall{ID: name, Host: name, Session: name, Event: name, Command: name}); err != nil {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o644))
	if r, err := s.EndCall(background, rw.ToolCall{ID: "good", Host: "h", Session: "s"}); err != nil || r.Created != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	for name, text := range readTree(t, dir, true) {
		if strings.Contains(string(text), ghToken(8)) {
			t.Errorf("%s holds the secret", name)
		}
	}
	must(s.EndCall(background, rw.ToolCall{Host: "mcp-1234", Session: "mcp-1234"}))(t)
}

// TestFindingsAreReturnedAgain: a process that ends after the row and before it has
// reported its findings loses nothing: the next end of a call returns them.
func TestFindingsAreReturnedAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Gate: rw.GateOfAgents})
	must(s.BeginCall(background, rw.ToolCall{ID: "t1", Host: "h"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "k.env"), []byte("GH_TOKEN="+ghToken(9)+"\n"), 0o644))
	ended := make(chan bool)
	go func() {
		defer close(ended)
		s.EndCall(background, rw.ToolCall{ID: "t1", Host: "h", Report: func(rw.ScanResult) { runtime.Goexit() }})
	}()
	<-ended
	for i, want := range []int{1, 0} {
		reported := -1
		r, err := s.EndCall(background, rw.ToolCall{ID: fmt.Sprint("t", i+2), Host: "h", Report: func(r rw.ScanResult) { reported = len(r.Findings) }})
		if err != nil || len(r.Findings) != want || reported != want {
			t.Fatalf("%d: %+v %d %v", i, r.Findings, reported, err)
		}
	}
}

// TestCallsThatAreAlike: equal calls of a host that gives no identifiers are
// distinct, also when they overlap; the oldest ends first.
func TestCallsThatAreAlike(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	c := rw.ToolCall{ID: "make", Host: "h", Session: "s", Alike: true}
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
	left, err := s.Capture(background)
	if noErr(t, err); len(open.Open) != 2 || len(left.Open) != 1 || left.Open[0].ID != open.Open[1].ID {
		t.Errorf("%+v %+v", open.Open, left.Open)
	}
	list, err := s.Changes(background, rw.ChangesRequest{})
	noErr(t, err)
	if len(list.Groups) != 2 || list.Groups[0].Calls[0] == list.Groups[1].Calls[0] {
		t.Fatalf("%+v", list.Groups)
	}
	for i := range 2 {
		_, err = s.Undo(background, rw.UndoRequest{Group: list.Groups[1-i].Calls[0]})
		noErr(t, err)
		if i == 0 {
			fileIs(t, dir, "a.txt", "alone 0")
		}
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestScansSideBySide: however the scans of several processes overlap with each other
// and with the changes, and whichever saves its index last, each version has one row,
// in order, and none is lost.
func TestScansSideBySide(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	must(first.Scan(background, rw.ScanRequest{}))(t)
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
				if _, err := s.Scan(background, rw.ScanRequest{}); err != nil {
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
			must(first.Scan(background, rw.ScanRequest{}))(t)
		}
	}
	close(done)
	wg.Wait()
	if r, err := first.Scan(background, rw.ScanRequest{}); err != nil || r.Created+r.Changed+r.Deleted+r.Moved+r.Modes > 0 && len(r.Busy) == 0 {
		t.Errorf("%+v %v", r, err)
	}
	list := must(first.Changes(background, rw.ChangesRequest{}))(t)
	for _, f := range list.Files {
		data, err := os.ReadFile(filepath.Join(dir, f.Path))
		if f.Conflict || err == nil && f.SHA256 != rw.DigestOf(data) || err != nil && !f.SHA256.IsZero() {
			t.Errorf("%+v %v", f, err)
		}
	}
	if r, err := first.Check(background, rw.CheckRequest{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v %v", r, err)
	}
}
