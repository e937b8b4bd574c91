//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// smoke runs all scenarios except the power cuts, which have a separate test.
func smoke(t *testing.T, seed uint64, which string) *results {
	t.Helper()
	measured.Clear() // as in a new process
	began := time.Now()
	b := testbed.Must(measureAll(t.Context(), settings{seed: seed, smoke: true, quiet: true, scenario: which}))(t)
	t.Logf("a smoke run took %v", time.Since(began))
	return b
}

// TestSameSeedSameFigures: two smoke runs with one seed differ only in their
// times, unless the results depend on the scheduler. Another seed means other
// faults.
func TestSameSeedSameFigures(t *testing.T) {
	child(t, "naive")
	const same = "C1,C2,C3,C4,C5,C6,C7,C8"
	first, second := smoke(t, 7, same+",C3r,C9"), smoke(t, 7, same)
	steady := func(b *results) (list []string) {
		for _, c := range b.cells {
			if b.scenario(c.Scenario).unsteady {
				continue
			}
			if c.Scenario == "C6" && c.Arm == "resilientwrite" { // the store works in the background too, so the moment of a death moves by a system call
				c.Calls, c.Tries = 0, 0
			}
			doc, err := json.Marshal(c) // everything but the times
			testbed.NoErr(t, err)
			list = append(list, string(doc))
		}
		return list
	}
	one, two := steady(first), steady(second)
	testbed.Require(t, len(one) == 8*3*3 && len(one) == len(two), "%d and %d steady cells", len(one), len(two))
	for i := range one {
		testbed.Expect(t, one[i] == two[i], "one seed, two results:\n%s\n%s", one[i], two[i])
	}
	a, b := dice(7, "C2", 0).Uint64(), dice(8, "C2", 0).Uint64()
	testbed.Expect(t, a != b, "another seed, the same faults")
	documented(t, first)
}

// documented checks the page and the plot of a run.
func documented(t *testing.T, b *results) {
	t.Helper()
	counts := `[{"arm":"naive","trials":9,"faults":8,"right":2,"lost":6,"broken":5,"calls":12,"tries":10,"answered":5,"answer_lost":4,"torn":1,"left_over":0,"points":4},
		{"arm":"defensive","trials":9,"calls":9},{"arm":"resilientwrite","trials":9,"faults":4,"right":4,"calls":13}]`
	crash := machineCrash
	cells := testbed.Must(machineCells(&crash, []byte(counts)))(t)
	c := cells[0]
	testbed.Expect(t, c.Lost == 6 && c.Right == 2 && c.Counts["unanswered"] == 4 && c.Counts["torn"] == 1 && c.Agent == anyAgent && c.Scenario == "C10", "counts were read as %+v", *c)
	b.cells, b.done = append(b.cells, cells...), append(b.done, crash)
	page := b.markdown()
	for _, s := range b.done {
		testbed.Expect(t, strings.Contains(page, "### "+s.id+" "), "the page does not name %s", s.id)
		rows := len(b.one(&s).rows)
		testbed.Expect(t, rows == 9 || s.id == "C10" && rows == 3, "%s has %d rows", s.id, rows)
	}
	list := missing(page)
	testbed.Expect(t, len(list) == 0, "the page lacks %v", list)
	for _, word := range []string{"NaN", "Inf", "%!", "estimates of its authors", "2604.10842"} {
		testbed.Expect(t, strings.Contains(page+b.plot(), word) == !slices.Contains([]string{"NaN", "Inf", "%!"}, word), "page and plot and %q", word)
	}
	for _, line := range strings.Split(page, "\n") {
		testbed.Expect(t, !strings.HasPrefix(line, "|") || strings.HasSuffix(line, "|"), "a row without an end: %s", line)
	}
	wellFormed(t, b.plot())
}

// TestTiesAreReported: if another arm does better, the page says so.
func TestTiesAreReported(t *testing.T) {
	b := &results{done: []scenario{{id: "C1"}}, cells: []*cell{
		{Scenario: "C1", Arm: "naive", Agent: "text", Trials: 10, Faults: 10, Right: 9, Calls: 20, modeled: []time.Duration{time.Second}},
		{Scenario: "C1", Arm: "resilientwrite", Agent: "text", Trials: 10, Faults: 10, Right: 5, Lost: 1, Calls: 20, Wasted: 5, modeled: []time.Duration{2 * time.Second}},
	}}
	var titles []string
	for _, row := range b.equals().rows {
		titles = append(titles, row[2])
	}
	want := []string{"self-correction", "recovery with 0.4 s a call", "data loss", "wasted calls"}
	testbed.Expect(t, slices.Equal(titles, want), "titles: %v", titles)
}

// TestScenariosAreDescribed: each scenario has what the page needs, and a smoke
// run.
func TestScenariosAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		testbed.Expect(t, !seen[s.id] && s.name != "" && s.fault != "" && s.oracle != "" && s.trials >= 1 && s.smoke >= 1 && (s.run == nil) != (s.whole == nil), "%+v", s)
		seen[s.id] = true
		if s.level != "full" { // the defensive arm flushes everywhere: nothing is compared with less
			t.Errorf("%s: level %q", s.id, s.level)
		}
	}
	for _, id := range []string{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10"} {
		testbed.Expect(t, seen[id], "%s is missing", id)
	}
	if _, err := chosen(settings{scenario: "C1, c3R"}); err != nil {
		t.Error(err)
	}
	if _, err := chosen(settings{scenario: "C11"}); err == nil {
		t.Error("C11 exists?")
	}
	for _, tr := range slices.Concat(troubles, mistakes) {
		testbed.Expect(t, len(tr.helps) != 0 && len(tr.actions) != 0 && (tr.errno == 0 || len(tr.calls) != 0), "%s is not described", tr.name)
	}
}

// TestCorpusIsWhatItSays: every text with a credential contains it once, no
// harmless one contains any, and the same random numbers make the same corpus.
func TestCorpusIsWhatItSays(t *testing.T) {
	values := map[string]bool{}
	for n := range 10 * len(families) {
		s, again := makeSecret(dice(1, "corpus", n), n), makeSecret(dice(1, "corpus", n), n)
		testbed.Expect(t, s == again && !values[s.value] && len(s.value) >= 16 && strings.Contains(s.line, s.value), "%s: a line of %d bytes, a value of %d", s.family, len(s.line), len(s.value))
		values[s.value] = true
	}
	for n := range 10 * len(harmless) {
		line := harmless[n%len(harmless)](dice(2, "corpus", n))
		for v := range values {
			testbed.Expect(t, !strings.Contains(line, v), "harmless line %d holds a credential", n)
		}
	}
}

// TestOrdersSurviveThePipe: a call of an agent arrives unchanged, byte for
// byte.
func TestOrdersSurviveThePipe(t *testing.T) {
	p, _ := child(t, "naive")
	for _, text := range []string{"", "\n", "a\nb\n", "\x00\xff\n\"", strings.Repeat("long\n", 500_000)} {
		rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: text})
		testbed.Require(t, rep.OK, "%v", rep.Text)
		got := (&ring{dir: p.dir}).is("a.txt", text)
		testbed.Expect(t, got, "a text of %d bytes did not arrive", len(text))
	}
	rep := p.Call(t.Context(), call{Verb: write, Raw: `{"path": "a.txt", "content": `})
	testbed.Contains(t, rep.Text, "invalid arguments: unexpected end of JSON input")
}
