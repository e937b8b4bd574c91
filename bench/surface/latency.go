package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
)

const (
	rounds    = 5  // turns of each server
	callsEach = 40 // calls of each kind in a turn
)

// latency measures how long servers take to start and to answer, in turns.
func (t *tables) latency(temp string, all []contestant) error {
	arms := []contestant{all[1], all[1]}
	arms[0].title, arms[1].title = "ours, `full`", "ours, `off`"
	arms[1].env = []string{"RW_SYNC=off"}
	arms = append(arms, all[3:]...)
	kinds := []string{"start-up, to the list of tools", "write of 1 KiB", "read of 1 KiB"}
	taken := map[string][3][]time.Duration{}
	for round := range rounds {
		for i := range arms {
			c := arms[(i+round)%len(arms)]
			turn, err := oneTurn(c, temp)
			if err != nil {
				return fmt.Errorf("%s: %w", c.title, err)
			}
			sum := taken[c.title]
			for k := range kinds {
				sum[k] = append(sum[k], turn[k]...)
			}
			taken[c.title] = sum
		}
	}
	var columns [][]string
	for _, c := range arms {
		column := []string{c.title}
		for k := range kinds {
			list := taken[c.title][k]
			slices.Sort(list)
			column = append(column, fmt.Sprintf("%s (%s–%s)", ms(list[len(list)/2]), ms(list[len(list)/20]), ms(list[len(list)-1-len(list)/20])))
		}
		columns = append(columns, column)
	}
	t.printf("Milliseconds on stdio, medians of %d starts and %d calls (the range without a twentieth at each end), load %s; only `full` flushes:\n\n", rounds, rounds*callsEach, page.Load())
	t.table(append([]string{""}, kinds...), columns)
	return t.share()
}

// ms formats a time in milliseconds, to three digits.
func ms(d time.Duration) string {
	text := strconv.FormatFloat(float64(d.Microseconds())/1000, 'g', 3, 64)
	v, _ := strconv.ParseFloat(text, 64)
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// oneTurn starts a server and calls it.
func oneTurn(c contestant, temp string) (turn [3][]time.Duration, err error) {
	dir, err := workspace(temp)
	if err != nil {
		return turn, err
	}
	began := time.Now()
	s, err := start(c, dir)
	if err != nil {
		return turn, err
	}
	defer s.stop()
	if _, err := s.list(); err != nil {
		return turn, err
	}
	turn[0] = append(turn[0], time.Since(began))
	body := strings.Repeat("0123456789abcde\n", 64)
	for k, make := range []func(int) op{
		func(i int) op {
			return op{kind: "replace", path: fmt.Sprintf("f%d.txt", i%8), text: fmt.Sprintf("%08d", i) + body[8:]}
		},
		func(i int) op { return op{kind: "read", path: fmt.Sprintf("f%d.txt", i%8)} },
	} {
		for i := range callsEach {
			began := time.Now()
			sent, r, err := s.perform(c, make(i), dir)
			if err != nil || r.refused {
				return turn, fmt.Errorf("%.60s: %w %.300s", sent, err, r.text)
			}
			turn[k+1] = append(turn[k+1], time.Since(began))
		}
	}
	return turn, nil
}

// share runs the benchmark of our own share.
func (t *tables) share() error {
	out, err := exec.Command("go", "test", "-run", "xxx", "-bench", "Share", "-benchtime", "3000x", "./mcp").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	columns := [][]string{{"write of 1 KiB"}, {"read of 1 KiB"}}
	for i, kind := range []string{"write_1KiB", "read_1KiB"} {
		line := regexp.MustCompile(`BenchmarkShare/` + kind + `\S*\s.*`).FindString(string(out))
		for _, metric := range []string{"store-µs", "tools-µs", "server-µs", "ours-µs", "library-µs"} {
			m := regexp.MustCompile(`([0-9.]+) ` + metric).FindStringSubmatch(line)
			if m == nil {
				return fmt.Errorf("no %s of %s in %s", metric, kind, out)
			}
			columns[i] = append(columns[i], m[1])
		}
	}
	t.printf("Our own share of a call in process, microseconds at level `off`, medians of 3,000 calls that take turns (`go test -run xxx -bench Share -benchtime 3000x ./mcp`), load %s:\n\n", page.Load())
	t.table([]string{"", "the method of the Store", "what the tools add to it", "what our server adds to its protocol library", "**ours, goal 100**", "the protocol library"}, columns)
	return nil
}
