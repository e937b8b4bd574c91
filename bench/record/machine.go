//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/resilientwrite/resilientwrite/bench/internal/shell"
)

// A power cut needs a file system that loses what was not flushed. The project
// has one for its tests, and only they can open a store on it: the trials are
// those of TestRecordMachineCrash in the root package.
var machineCrash = scenario{
	id: "C10", name: "machine crash", level: "full", trials: 1200, smoke: 150, timeless: true,
	extra:  []extra{{"answered and lost", "answer_lost", "answered"}, {"not answered, neither old nor new", "torn", "unanswered"}, {"files left over, per trial", "left_over", ""}, {"stores the check finds fault with, per trial", "unexplained", ""}},
	fault:  "the power goes: half of the time after the answer, half of the time in front of each operation of the call in turn, or with the answer unsent; of what was not flushed everything is lost, a part of it by 512-byte sectors and single names, or nothing (on the simulated file system `internal/simfs`; create, overwrite, append)",
	oracle: "after the boot: what was answered is there, whole; what was not is old or new; nothing is left over, the store's own check is clean; the repeated call then brings the file to where it should be",
	whole:  machine,
}

func machine(ctx context.Context, s settings, sc *scenario) ([]*cell, error) {
	root, err := shell.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "record-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "counts.json")
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestRecordMachineCrash$", ".")
	test.Dir = root
	test.Env = append(os.Environ(), "RW_RECORD="+name, fmt.Sprint("RW_RECORD_TRIALS=", sc.count(s)), fmt.Sprint("RW_RECORD_SEED=", s.seed))
	said, failure := test.CombinedOutput()
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("go test: %w\n%s", errors.Join(failure, err), said)
	}
	if failure != nil { // a store that loses data is a result, not an error of the benchmark
		fmt.Fprintf(os.Stderr, "C10: the test of the root package fails; its counts are in the tables:\n%s\n", said)
	}
	return machineCells(sc, data)
}

// machineCells converts the counts to cells. Agents do not differ here: they
// see a call without a reply, and all of them send it again.
func machineCells(sc *scenario, data []byte) ([]*cell, error) {
	var counts []struct {
		Arm         string `json:"arm"`
		Answered    int    `json:"answered"`
		AnswerLost  int    `json:"answer_lost"`
		Torn        int    `json:"torn"`
		LeftOver    int    `json:"left_over"`
		Unexplained int    `json:"unexplained"`
		Points      int    `json:"points"`
		FlushesDir  bool   `json:"flushes_dir"`
	}
	var cells []*cell
	if err := json.Unmarshal(data, &counts); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &cells); err != nil {
		return nil, err
	}
	for i, c := range cells {
		n := counts[i]
		if c.Arm == "defensive" && !n.FlushesDir {
			sc.caveat = "The defensive arm of this scenario does not flush the directory, unlike that of all others."
		}
		c.Scenario, c.Agent = sc.id, anyAgent
		c.Counts = map[string]int{
			"answered": n.Answered, "answer_lost": n.AnswerLost, "unanswered": c.Trials - n.Answered, "torn": n.Torn,
			"left_over": n.LeftOver, "unexplained": n.Unexplained, "operations": n.Points,
		}
	}
	return cells, nil
}

// anyAgent stands for all of them.
const anyAgent = "any"
