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

// plant adds arms that break what one oracle watches over. Each is the best
// arm with one vice, so that nothing else can be what is found.
func plant() {
	vices := map[string]func(r *resilient, dir string) func(context.Context, call) reply{
		// says that it wrote, and did not
		"forgets": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				if odd(c) && (c.Verb == write || c.Verb == appendTo || c.Verb == piece) {
					rep := r.Call(ctx, call{Verb: write, Path: "elsewhere/" + hashOf(c.Key + c.Path)[:8], Text: "nothing", Key: c.Key + "/forgotten"})
					rep.OK = true
					return rep
				}
				return r.Call(ctx, c)
			}
		},
		// leaves half of the text there when it fails
		"tears": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				rep := r.Call(ctx, c)
				if !rep.OK && c.Verb == write && len(c.Text) > 8 {
					os.WriteFile(filepath.Join(dir, c.Path), []byte(c.Text[:8]), 0o644)
				}
				return rep
			}
		},
		// answers what no program can read, and gives wrong advice
		"mumbles": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				rep := r.Call(ctx, c)
				if !rep.OK && odd(c) {
					rep.Text = strings.Replace(rep.Text, `"schema_version":"1"`, `"schema_version":1`, 1)
				} else if !rep.OK {
					for _, action := range rw.Actions() {
						rep.Text = strings.Replace(rep.Text, fmt.Sprintf(`"suggested_action":%q`, action), `"suggested_action":"escape"`, 1)
					}
				}
				return rep
			}
		},
		// lets the whole world see what it refused
		"gossips": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				rep := r.Call(ctx, c)
				if !rep.OK && c.Text != "" {
					f, err := os.OpenFile(filepath.Join(dir, stateName, "debug.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
					if err == nil {
						f.WriteString(c.Text)
						f.Close()
					}
				}
				return rep
			}
		},
		// makes a file at every refusal
		"litters": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				rep := r.Call(ctx, c)
				if !rep.OK {
					os.WriteFile(filepath.Join(dir, filepath.Dir(filepath.Dir(c.Path)), "tried.tmp"), nil, 0o644)
				}
				return rep
			}
		},
		// writes over whatever is there
		"tramples": func(r *resilient, dir string) func(context.Context, call) reply {
			return func(ctx context.Context, c call) reply {
				if c.Verb == handoff {
					for _, place := range []string{filepath.Join(dir, c.Path), filepath.Join(dir, stateName, "handoffs")} {
						os.RemoveAll(place)
					}
				}
				c.Prev = ""
				return r.Call(ctx, c)
			}
		},
	}
	for name, vice := range vices {
		arms["resilient-"+name] = func(dir, level string) (tool, error) {
			r, err := openResilient(dir, rw.SyncLevel(level))
			if err != nil {
				return nil, err
			}
			return &wicked{resilient: r, call: vice(r, dir)}, nil
		}
	}
	// comes back from a crash without what was there, with a file too many and
	// with a journal that somebody touched
	arms["resilient-amnesia"] = func(dir, level string) (tool, error) {
		old, err := filepath.Glob(filepath.Join(dir, "c3", "*-before.txt"))
		if err == nil && len(old) > 0 {
			for _, name := range old {
				os.Remove(name)
			}
			os.WriteFile(filepath.Join(dir, "c3", ".tmp-1"), nil, 0o644)
			err = tamper(dir)
		}
		if err != nil {
			return nil, err
		}
		return openResilient(dir, rw.SyncLevel(level))
	}
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

type wicked struct {
	*resilient
	call func(context.Context, call) reply
}

func (w *wicked) Call(ctx context.Context, c call) reply { return w.call(ctx, c) }

// fight makes the trials of one cell.
func fight(t *testing.T, s scenario, arm string, who agent, trials int) *cell {
	t.Helper()
	c, err := measureCell(t.Context(), settings{seed: 3, trials: trials, smoke: true}, &s, filepath.Join(t.TempDir(), "cell"), arm, who)
	if err != nil {
		t.Fatalf("%s %s %s: %v", s.id, arm, who, err)
	}
	if c.Trials == 0 {
		t.Fatalf("%s %s: no trials", s.id, arm)
	}
	return c
}

// TestEveryOracleCanFail plants a vice for each thing that an oracle watches
// over, and the arm without it in the same trials is clean.
func TestEveryOracleCanFail(t *testing.T) {
	child(t, "naive") // skips where processes cannot be watched
	for _, c := range []struct {
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
		{leakage, "resilient-gossips", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] - 1 }},
		{leakage, "naive", blind, 20, "a leak", func(c *cell) int { return c.Counts["leaked"] }},
		{handoffs, "resilient-tramples", guided, 8, "a handoff that is gone", func(c *cell) int { return c.Lost }},
		{handoffs, "naive", guided, 8, "a fault that nobody noticed", func(c *cell) int { return c.Counts["faults"] - c.Counts["found"] }},
		{concurrency, "resilient-forgets", guided, 1, "an acknowledged line that is not there", func(c *cell) int { return c.Lost }},
	} {
		if n := c.got(fight(t, c.s, c.arm, c.who, c.trials)); n <= 0 {
			t.Errorf("%s does not see %s of %s", c.s.id, c.what, c.arm)
		}
		if n := c.got(fight(t, c.s, "resilientwrite", guided, c.trials)); n > 0 {
			t.Errorf("%s finds %s in the arm without the vice: %d", c.s.id, c.what, n)
		}
	}
}
