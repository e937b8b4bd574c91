//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// vices break what one oracle watches over.
var vices = map[string]func(ctx context.Context, r *resilient, dir string, c call) reply{
	// says that it wrote, and did not
	"forgets": func(ctx context.Context, r *resilient, dir string, c call) reply {
		if !odd(c) || c.Verb != write && c.Verb != appendTo && c.Verb != piece {
			return r.Call(ctx, c)
		}
		rep := r.Call(ctx, call{Verb: write, Path: "elsewhere/" + hashOf(c.Key + c.Path)[:8], Text: "nothing", Key: c.Key + "/forgotten"})
		rep.OK = true
		return rep
	},
	// leaves the beginning of the text there when it fails
	"tears": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if !rep.OK && c.Verb == write && len(c.Text) > 8 {
			os.WriteFile(filepath.Join(dir, c.Path), []byte(c.Text[:8]), 0o644)
		}
		return rep
	},
	// answers what no program can read, or gives wrong advice
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
	// makes a file at every refusal
	"litters": func(ctx context.Context, r *resilient, dir string, c call) reply {
		rep := r.Call(ctx, c)
		if !rep.OK {
			os.WriteFile(filepath.Join(dir, filepath.Dir(filepath.Dir(c.Path)), "tried.tmp"), nil, 0o644)
		}
		return rep
	},
	// writes over whatever is there
	"tramples": func(ctx context.Context, r *resilient, dir string, c call) reply {
		if c.Verb == handoff {
			for _, place := range []string{filepath.Join(dir, c.Path), filepath.Join(dir, stateName, "handoffs")} {
				os.RemoveAll(place)
			}
		}
		c.Prev = ""
		return r.Call(ctx, c)
	},
}

// wicked is the best arm with one vice, so that nothing else can be what an
// oracle finds.
type wicked struct {
	*resilient
	dir  string
	vice func(ctx context.Context, r *resilient, dir string, c call) reply
}

func (w *wicked) Call(ctx context.Context, c call) reply { return w.vice(ctx, w.resilient, w.dir, c) }

// plant adds the worse arms, here and in the child processes.
func plant() {
	for name, vice := range vices {
		arms["resilient-"+name] = func(dir, level string) (tool, error) {
			r, err := openResilient(dir, rw.SyncLevel(level))
			if err != nil {
				return nil, err
			}
			return &wicked{r, dir, vice}, nil
		}
	}
	arms["resilient-amnesia"] = func(dir, level string) (tool, error) {
		if err := spoil(dir); err != nil {
			return nil, err
		}
		return openResilient(dir, rw.SyncLevel(level))
	}
}

// spoil has a workspace come back from a crash without what was there, with a
// file too many and with a journal that somebody touched.
func spoil(dir string) error {
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

// odd picks half of the calls.
func odd(c call) bool {
	h := fnv.New32a()
	io.WriteString(h, c.Key+c.Path)
	return h.Sum32()%2 == 1
}

// fights are the cells that were made, by what they were asked for.
type fights map[string]*cell

// cell makes the trials of one cell, once.
func (f fights) cell(t *testing.T, s scenario, arm string, who agent, trials int) *cell {
	t.Helper()
	key := fmt.Sprint(s.id, arm, who, trials)
	if c, ok := f[key]; ok {
		return c
	}
	base, err := scratch(true)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	c, err := measureCell(t.Context(), settings{seed: 3, trials: trials, smoke: true}, &s, filepath.Join(base, "cell"), arm, who)
	if err != nil {
		t.Fatalf("%s %s %s: %v", s.id, arm, who, err)
	}
	if c.Trials == 0 {
		t.Fatalf("%s %s: no trials", s.id, arm)
	}
	f[key] = c
	return c
}

// sights are what each oracle must be able to see, with an arm that shows it.
var sights = []struct {
	s      scenario
	arm    string
	who    agent
	trials int
	what   string
	got    func(c *cell) int
}{
	{contentFilter, "resilient-forgets", guided, 8, "a draft that is nowhere", func(c *cell) int { return c.Lost }},
	{truncation, "resilient-tears", guided, 6, "a torn file", func(c *cell) int { return c.Broken }},
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
	{sessionLoss, "resilient-forgets", guided, 6, "a file with a hole", func(c *cell) int { return c.Lost + c.Faults - c.Right }},
	{sessionLoss, "naive", guided, 6, "half of a change", func(c *cell) int { return c.Broken }},
	{sessionLoss, "naive", blind, 6, "pieces sent again", func(c *cell) int { return c.Counts["sent_again"] }},
	{leakage, "resilient-gossips", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
	{leakage, "naive", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
	{handoffs, "resilient-tramples", guided, 8, "a handoff that is gone", func(c *cell) int { return c.Lost }},
	{handoffs, "naive", guided, 8, "a fault that nobody noticed", func(c *cell) int { return c.Counts["faults"] - c.Counts["found"] }},
	{concurrency, "resilient-forgets", guided, 1, "an acknowledged line that is not there", func(c *cell) int { return c.Lost }},
}

// TestEveryOracleCanFail plants a vice for each thing that an oracle watches
// over; in the same trials the arm without it is clean.
func TestEveryOracleCanFail(t *testing.T) {
	done := fights{}
	child(t, "naive") // skips where processes cannot be watched
	for _, c := range sights {
		if n := c.got(done.cell(t, c.s, c.arm, c.who, c.trials)); n <= 0 {
			t.Errorf("%s does not see %s of %s", c.s.id, c.what, c.arm)
		}
		if n := c.got(done.cell(t, c.s, "resilientwrite", guided, c.trials)); n > 0 {
			t.Errorf("%s finds %s in the arm without the vice: %d", c.s.id, c.what, n)
		}
	}
}
