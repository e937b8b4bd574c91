package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func inSession(name string) context.Context { return rw.WithCaller(background, "agent", name) }

func overwriteIn(ctx context.Context, s *rw.Store, path string) error {
	_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(fmt.Sprint("by ", path, time.Now())), Mode: rw.ModeOverwrite})
	return err
}

// TestClaims checks who may change claimed paths, through every way to change them.
func TestClaims(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	for _, path := range []string{"a.txt", "d/b.txt", "e.txt"} {
		write(t, s, path, "text\n", rw.ModeCreate)
	}
	mine, other := inSession("one"), inSession("two")
	c, err := s.Claim(mine, []string{"a.txt", "d", "new.txt"}, time.Minute)
	if err != nil || c.Fence == 0 || c.Session != "one" || c.Until.Before(time.Now().Add(50*time.Second)) {
		t.Fatal(c, err)
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"write":  func(ctx context.Context) error { return overwriteIn(ctx, s, "a.txt") },
		"create": func(ctx context.Context) error { return overwriteIn(ctx, s, "new.txt") },
		"below":  func(ctx context.Context) error { return overwriteIn(ctx, s, "d/x/new.txt") },
		"edit": func(ctx context.Context) error {
			_, err := s.Edit(ctx, rw.EditRequest{Path: "d/b.txt", Edits: []rw.EditOp{{Old: "text", New: "x"}}})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := s.Delete(ctx, rw.DeleteRequest{Path: "a.txt"})
			return err
		},
		"move away": func(ctx context.Context) error {
			_, err := s.Move(ctx, rw.MoveRequest{Path: "d", To: "z"})
			return err
		},
		"move onto": func(ctx context.Context) error {
			_, err := s.Move(ctx, rw.MoveRequest{Path: "e.txt", To: "a.txt", Overwrite: true})
			return err
		},
		"tx": func(ctx context.Context) error {
			_, err := s.Tx(ctx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "free.txt"}, {Op: "delete", Path: "a.txt"}}})
			return err
		},
		"claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, []string{"d/b.txt"}, time.Minute)
			return err
		},
		"claim above": func(ctx context.Context) error {
			_, err := s.Claim(rw.WithCaller(ctx, "", "two"), []string{"D"}, time.Minute)
			return err
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
	// Free are other paths, the session itself, and an operator.
	for name, call := range map[string]func() error{
		"another path": func() error { return overwriteIn(other, s, "e.txt") },
		"like a name":  func() error { return overwriteIn(other, s, "a.txt.bak") },
		"its own":      func() error { return overwriteIn(mine, s, "a.txt") },
		"operator":     func() error { return overwriteIn(rw.WithOperator(other), s, "a.txt") },
		"fence":        func() error { return overwriteIn(rw.WithFence(mine, c.Fence), s, "a.txt") },
		"no file of the workspace": func() error {
			_, err := s.Checkpoint(other, rw.CheckpointRequest{Name: "c", Data: []byte(`"x"`)})
			return err
		},
	} {
		noErr(t, call(), name)
	}
	// The changes of another program are reported.
	must(s.Scan(background, rw.ScanRequest{}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "d/b.txt"), []byte("shell\n"), 0o644))
	if r, err := s.Scan(background, rw.ScanRequest{Session: "two"}); err != nil || len(r.Claimed) != 1 || r.Claimed[0].Path != "d/b.txt" || r.Claimed[0].Session != "one" || !r.Claimed[0].Until.Equal(c.Until) {
		t.Errorf("%+v %v", r, err)
	}
	if err := s.Release(other, c.Fence); err != nil || overwriteIn(other, s, "a.txt") == nil {
		t.Error("another session released the claim", err)
	}
	noErr(t, s.Release(mine, c.Fence))
	noErr(t, overwriteIn(other, s, "a.txt"))
	isErr(t, overwriteIn(rw.WithFence(mine, c.Fence), s, "a.txt"), rw.ErrClaimLost)
	fails(s.Renew(mine, c.Fence, time.Minute))(t, rw.ErrClaimLost)
	for _, bad := range []func() (rw.Claim, error){
		func() (rw.Claim, error) { return s.Claim(background, []string{"a.txt"}, time.Minute) },
		func() (rw.Claim, error) { return s.Claim(mine, []string{"a.txt"}, rw.MaxClaim+1) },
		func() (rw.Claim, error) { return s.Claim(mine, []string{"a.txt"}, 0) },
		func() (rw.Claim, error) { return s.Claim(mine, nil, time.Minute) },
	} {
		fails(bad())(t, rw.ErrInvalidArgument)
	}
	if _, err := s.Claim(mine, []string{"../x"}, time.Minute); err == nil {
		t.Error("a path outside")
	}
	check(t, s, false)
}

// TestClaimsEnd: a claim expires, sooner or later than after ten minutes depending on
// its renewals; its number is never assigned again, even if the file is lost.
func TestClaimsEnd(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	mine, other := inSession("one"), inSession("two")
	c := must(s.Claim(mine, []string{"a.txt"}, time.Hour/100))(t)
	again, err := s.Renew(mine, c.Fence, rw.MaxClaim)
	if err != nil || again.Fence != c.Fence || !again.Until.After(c.Until) {
		t.Fatal(again, err)
	}
	file := statePath(dir, "claims/claims.json")
	data := must(os.ReadFile(file))(t)
	until := again.Until.Format(time.RFC3339Nano)
	for name, now := range map[string]string{
		"over":      time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano),
		"too long":  time.Now().Add(rw.MaxClaim + time.Hour).UTC().Format(time.RFC3339Nano),
		"no time":   "x",
		"truncated": "",
	} {
		text := strings.Replace(string(data), until, now, 1)
		if name == "truncated" {
			text = text[:len(text)/2]
		}
		if text == string(data) {
			t.Fatalf("%s is not in %s", until, data)
		}
		noErr(t, os.WriteFile(file, []byte(text), 0o600))
		noErr(t, overwriteIn(other, s, "a.txt"), name)
	}
	next, err := s.Claim(other, []string{"a.txt"}, time.Minute)
	if err != nil || next.Fence <= c.Fence {
		t.Error(next, err)
	}
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
		var got []rw.Claim
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
							if err := overwriteIn(rw.WithFence(ctx, c.Fence), s, path); err != nil {
								t.Error(err)
							}
							continue
						} else if !errors.Is(err, rw.ErrPathClaimed) {
							t.Error(err)
						}
					}
					if err := overwriteIn(ctx, s, path); err != nil && !errors.Is(err, rw.ErrPathClaimed) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("%d claims were granted", len(got))
		}
		rows := must(stores[0].JournalTail(background, rw.JournalTailRequest{N: 100, FilterPath: path}))(t)
		claimed := false
		for _, e := range rows.Entries {
			if e.Session == got[0].Session {
				claimed = true
			} else if claimed && e.Op != "" && e.SHA256.String() != "" && !e.SHA256.IsZero() && e.Caller == "agent" && e.TS > got[0].Until.Add(-time.Minute).Format("2006-01-02T15:04:05.000000Z07:00") {
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
			if oerr != nil {
				t.Fatal(oerr)
			}
			list, lerr := after.Claims(background)
			if lerr != nil || len(list) == 0 || list[0].Fence != first.Fence || len(list) > 2 || err == nil && len(list) != 2 {
				t.Fatalf("operation %d: %+v %v, the call said %v", n, list, lerr, err)
			}
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
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "n.txt", "0", rw.ModeCreate)
	var children []*exec.Cmd
	for i := range 3 {
		cmd, _ := spawnIn(t, dir, "claims", fmt.Sprint(i))
		children = append(children, cmd)
	}
	for _, cmd := range children {
		noErr(t, cmd.Wait())
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
	return s.Close(ctx)
}
