//go:build linux

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// vices break what one oracle checks.
var vices = map[string]func(ctx context.Context, r *resilient, dir string, c call) reply{
	// reports a write that it did not make
	"forgets": func(ctx context.Context, r *resilient, dir string, c call) reply {
		if !odd(c) || c.Verb != write && c.Verb != appendTo {
			return r.Call(ctx, c)
		}
		rep := r.Call(ctx, call{Verb: write, Path: "elsewhere/" + hashOf(c.Key + c.Path)[:8], Text: "nothing", Key: c.Key + "/forgotten"})
		rep.OK = true
		return rep
	},
	// reports that the pieces are joined, and that the change is made, but does neither
	"pretends": func(ctx context.Context, r *resilient, dir string, c call) reply {
		if c.Verb == join || c.Verb == commit {
			return yes
		}
		return r.Call(ctx, c)
	},
	// leaves the beginning of the text when it fails
	"tears": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if !rep.OK && c.Verb == write && len(c.Text) > 8 {
			os.WriteFile(filepath.Join(dir, c.Path), []byte(c.Text[:8]), 0o644)
		}
		return rep
	},
	// replies with text that no program can read, or gives wrong advice
	"mumbles": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if rep.OK {
			return rep
		}
		if odd(c) {
			rep.Text = strings.Replace(rep.Text, `"schema_version":"1"`, `"schema_version":1`, 1)
			return rep
		}
		for _, action := range rw.Actions() {
			rep.Text = strings.Replace(rep.Text, fmt.Sprintf(`"suggested_action":%q`, action), `"suggested_action":"escape"`, 1)
		}
		return rep
	},
	// writes what it refused into a log
	"gossips": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if !rep.OK && c.Text != "" {
			if f, err := os.OpenFile(filepath.Join(dir, stateName, "debug.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				f.WriteString(c.Text)
				f.Close()
			}
		}
		return rep
	},
	// creates a file at every refusal
	"litters": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if !rep.OK {
			os.WriteFile(filepath.Join(dir, filepath.Dir(filepath.Dir(c.Path)), "tried.tmp"), nil, 0o644)
		}
		return rep
	},
	// overwrites the current content
	"tramples": func(ctx context.Context, r *resilient, dir string, c call) reply {
		if c.Verb == handoff {
			for _, place := range []string{filepath.Join(dir, c.Path), filepath.Join(dir, stateName, "handoffs")} {
				os.RemoveAll(place)
			}
		}
		if c.Verb == write && c.Path == board {
			meet(dir)
		}
		c.Prev = ""
		return r.Call(ctx, c)
	},
}

// meet waits until all writers of a race have something to write. On a machine
// that is slow to start processes they would otherwise take turns, and no
// writer would overwrite another.
func meet(dir string) {
	place := dir + "-met"
	os.MkdirAll(place, 0o755)
	os.WriteFile(filepath.Join(place, strconv.Itoa(os.Getpid())), nil, 0o644)
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if here, _ := os.ReadDir(place); len(here) >= writers {
			return
		}
	}
}

// wicked is the best arm with one vice, so that an oracle can find nothing
// else.
type wicked struct {
	*resilient
	dir  string
	vice func(ctx context.Context, r *resilient, dir string, c call) reply
}

func (w *wicked) Call(ctx context.Context, c call) reply { return w.vice(ctx, w.resilient, w.dir, c) }

// odd picks half of the calls.
func odd(c call) bool {
	h := fnv.New32a()
	io.WriteString(h, c.Key+c.Path)
	return h.Sum32()%2 == 1
}

// fights caches the cells, by their parameters.
type fights map[string]*cell

// cell makes the trials of one cell, once.
func (f fights) cell(t *testing.T, s scenario, arm string, who agent, trials int) *cell {
	t.Helper()
	key := fmt.Sprint(s.id, arm, who, trials)
	if c, ok := f[key]; ok {
		return c
	}
	base := testbed.Must(scratch(true))(t)
	defer os.RemoveAll(base)
	c := testbed.Must(measureCell(t.Context(), settings{seed: 3, trials: trials, smoke: true}, &s, filepath.Join(base, "cell"), arm, who))(t, s.id, arm, who)
	testbed.Require(t, c.Trials != 0, "%s %s: no trials", s.id, arm)
	f[key] = c
	return c
}

// sights lists what each oracle must be able to detect, with an arm that shows
// it.
var sights = []struct {
	s      scenario
	arm    string
	who    agent
	trials int
	what   string
	got    func(c *cell) int
}{
	{contentFilter, "resilient-gateless", guided, 8, "a draft that went into the sink", func(c *cell) int { return c.Lost }},
	{contentFilter, "resilient-forgets", guided, 8, "a draft that is nowhere", func(c *cell) int { return c.Lost }},
	{truncation, "resilient-tears", guided, 6, "a torn file", func(c *cell) int { return c.Broken }},
	{truncation, "resilient-tears", guided, 6, "a file that stays torn", func(c *cell) int { return c.Lost }},
	{truncation, "resilient-mumbles", guided, 6, "an untyped refusal", func(c *cell) int { return c.Counts["untyped"] }},
	{killAtCall, "resilient-amnesia", blind, 4, "a forgotten file", func(c *cell) int { return c.Lost }},
	{killAtCall, "resilient-amnesia", blind, 4, "a file left over", func(c *cell) int { return c.Counts["left_over"] }},
	{killAtCall, "resilient-amnesia", blind, 4, "a touched journal", func(c *cell) int { return c.Counts["unexplained"] }},
	{killAtCall, "naive", blind, 6, "a torn file", func(c *cell) int { return c.Broken }},
	{thrash, "resilient-litters", guided, 8, "a change on disk", func(c *cell) int { return c.Broken }},
	{thrash, "naive", blind, 4, "work beyond the budget", func(c *cell) int { return c.Counts["over_budget"] }},
	{opaque, "resilient-mumbles", guided, 20, "an untyped refusal", func(c *cell) int { return c.Counts["untyped"] }},
	{opaque, "resilient-mumbles", guided, 20, "a wrong suggestion", func(c *cell) int { return c.Counts["wrong_action"] }},
	{opaque, "resilient-tears", guided, 20, "a torn file", func(c *cell) int { return c.Broken }},
	{opaque, "naive", guided, 20, "a file outside", func(c *cell) int { return c.Counts["escaped"] }},
	{sessionLoss, "resilient-pretends", guided, 6, "a file that is not there", func(c *cell) int { return c.Lost }},
	{sessionLoss, "naive", guided, 6, "half of a change", func(c *cell) int { return c.Broken }},
	{sessionLoss, "naive", blind, 6, "pieces sent again", func(c *cell) int { return c.Counts["sent_again"] }},
	{leakage, "resilient-gateless", guided, 20, "a credential that no check finds", func(c *cell) int { return c.Counts["secrets"] - c.Counts["caught"] - 1 }},
	{leakage, "resilient-gateless", guided, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
	{leakage, "resilient-gossips", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
	{leakage, "naive", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
	{handoffs, "resilient-tramples", guided, 8, "a handoff that is gone", func(c *cell) int { return c.Lost }},
	{handoffs, "naive", guided, 8, "a fault that no check noticed", func(c *cell) int { return c.Counts["faults"] - c.Counts["found"] }},
	{concurrency, "resilient-tramples", guided, 4, "a line that another writer replaced", func(c *cell) int { return c.Lost }},
	{concurrency, "resilient-edited", guided, 1, "a touched journal", func(c *cell) int { return c.Counts["unexplained"] }},
	{concurrency, "resilient-forgets", guided, 1, "an acknowledged line that is not there", func(c *cell) int { return c.Lost }},
}

// TestEveryOracleCanFail adds a vice for everything that an oracle checks; in
// the same trials the arm without it is clean.
func TestEveryOracleCanFail(t *testing.T) {
	done := fights{}
	child(t, "naive") // skips if processes cannot be watched
	for _, c := range sights {
		if n := c.got(done.cell(t, c.s, c.arm, c.who, c.trials)); n <= 0 {
			t.Errorf("%s does not see %s of %s", c.s.id, c.what, c.arm)
		}
		if n := c.got(done.cell(t, c.s, "resilientwrite", guided, c.trials)); n > 0 {
			t.Errorf("%s finds %s in the arm without the vice: %d", c.s.id, c.what, n)
		}
	}
}
