//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// plant adds the worse arms, here and in the child processes.
func plant() {
	for name, vice := range vices {
		arms["resilient-"+name] = func(dir, level string) (tool, error) {
			r, err := openResilient(dir, rw.Options{Sync: rw.SyncLevel(level)})
			if err != nil {
				return nil, err
			}
			return &wicked{r, dir, vice}, nil
		}
	}
	for name, options := range map[string]rw.Options{"gateless": {Gate: rw.Gate{Mode: rw.GateOff}}} {
		arms["resilient-"+name] = func(dir, level string) (tool, error) {
			options.Sync = rw.SyncLevel(level)
			return openResilient(dir, options)
		}
	}
	for name, spoil := range spoilers {
		arms["resilient-"+name] = func(dir, level string) (tool, error) {
			if err := spoil(dir); err != nil {
				return nil, err
			}
			return openResilient(dir, rw.Options{Sync: rw.SyncLevel(level)})
		}
	}
}

// TestACommitIsBrokenOffAnywhere kills the process before each system call of a
// commit. Without recovery the disk is sometimes found with some files new and
// others old, so the critical moments are among those that the benchmark picks.
// With recovery it never is.
func TestACommitIsBrokenOffAnywhere(t *testing.T) {
	child(t, "naive")
	for arm, want := range map[string]bool{"resilientwrite": false, "resilient-unrecovered": true} {
		base := testbed.Must(scratch(true))(t)
		defer os.RemoveAll(base)
		s := sessionLoss
		r := &ring{ctx: t.Context(), seed: 5, s: &s, arm: arm, who: guided, base: base, small: true}
		testbed.NoErr(t, r.renew())
		pace := testbed.Must(r.paces())(t)
		p := testbed.Must(startProc(arm, r.dir, s.level))(t)
		defer p.kill()
		broken, kills, points := 0, 0, pace.change[members]
		// A set of slots that is created in between takes two calls for each of 64.
		points += 2 * 64
		for at := 0; at < points; at += members - 3 { // the renames are consecutive, so one is hit
			got, err := r.changeDies(p, at, fate{members, at})
			testbed.Require(t, err == nil && !got.Lost && got.Right, "%s, killed in front of call %d: %+v, %v", arm, at, got, err)
			broken, kills = broken+btoi(got.Broken), kills+1
		}
		t.Logf("%s: broken after %d of %d kills, of %d calls", arm, broken, kills, points)
		testbed.Expect(t, kills >= members && (broken > 0) == want, "%s: broken after %d of %d kills", arm, broken, kills)
	}
}

// spoilers modify a workspace before the store is opened on it.
var spoilers = map[string]func(dir string) error{
	// no recovery: the store's state is gone, its unfinished commit stays as it is
	"unrecovered": func(dir string) error { return os.RemoveAll(filepath.Join(dir, stateName)) },
	// has other files after a crash than before
	"amnesia": forget,
	// the journal is modified once the writers are done
	"edited": func(dir string) error {
		if _, err := os.Stat(filepath.Join(dir, board)); err != nil || os.Getenv(armEnv) != "" {
			return nil
		}
		return tamper(dir)
	},
}

// forget makes a workspace look as if a crash had lost its files, with one file
// too many and a modified journal.
func forget(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "c3", "*-before.txt"))
	if err != nil || len(old) == 0 {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c3", ".tmp-1"), nil, 0o644); err != nil {
		return err
	}
	return tamper(dir)
}

// tamper changes one hash in the journal.
func tamper(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, stateName, "journal", "*.jsonl"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no journal: %w", err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	i := bytes.Index(data, []byte(`"sha256":"`)) + len(`"sha256":"`)
	data[i] = map[bool]byte{true: '0', false: '1'}[data[i] != '0']
	return os.WriteFile(names[0], data, 0o600)
}
