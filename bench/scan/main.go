// Command scan compares the scanner with gitleaks, as a library, and
// trufflehog, as a child process built for the run, on the same texts. The arms
// take turns, and CPU time is measured.
//
//	cd bench && go run ./scan [-write] [-rounds 5] [-smoke] [-trufflehog=false]
//
// It prints the tables of docs/benchmark.md; -write puts them there.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
)

func main() {
	log.SetFlags(0)
	write := flag.Bool("write", false, "put the tables into docs/benchmark.md")
	rounds := flag.Int("rounds", 5, "turns of each arm at each text")
	smoke := flag.Bool("smoke", false, "one turn at small texts: shows that it works, measures nothing")
	peer := flag.Bool("trufflehog", true, "build trufflehog and measure it")
	flag.Parse()
	sizes := []int{1 << 10, 100 << 10, 10 << 20}
	if *smoke {
		sizes, *rounds = []int{1 << 10, 8 << 10}, 1
	}
	arms, skipped := start(*peer)
	defer func() {
		for _, a := range arms {
			a.stop()
		}
	}()
	tables, err := report(arms, skipped, sizes, *rounds)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(tables)
	if *write {
		if err := page.Replace(filepath.Join("..", "docs", "benchmark.md"), begin, end, tables); err != nil {
			log.Fatal(err)
		}
	}
}

const (
	begin = "<!-- Made by `cd bench && go run ./scan -write`, up to the end mark. Do not edit. -->"
	end   = "<!-- End of the scanner's tables. -->"
)

// rates are the MB/s of an arm on one text, one for each turn.
type rates []float64

func (r rates) median() float64 {
	if len(r) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(r))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// cell returns the median and the spread of the runs around it, in percent.
func (r rates) cell() string {
	if len(r) == 0 {
		return "–"
	}
	m, spread := r.median(), ""
	if len(r) > 1 {
		spread = fmt.Sprintf(" ± %.0f %%", 100*max(slices.Max(r)-m, m-slices.Min(r))/m)
	}
	digits := 0
	if m < 20 {
		digits = 1
	}
	if m < 1 {
		digits = 2
	}
	return fmt.Sprintf("%.*f%s", digits, m, spread)
}

const (
	// long is the CPU time of one scan above which an arm gets only one turn.
	long = time.Second
	// tooLong is the CPU time, estimated from the rate at the previous size, above
	// which an arm gets none.
	tooLong = 8 * time.Second
)

// turns measures all arms on a text, one after the other in each round; before
// holds their rates on a shorter one.
func turns(arms []arm, text []byte, rounds int, before []rates) ([]rates, error) {
	all := make([]rates, len(arms))
	mb := float64(len(text)) / 1e6
	for round := range rounds {
		for i, a := range arms {
			if len(text) > a.most || before != nil && mb > before[i].median()*tooLong.Seconds() || round > 0 && mb > all[i][0]*long.Seconds() {
				continue
			}
			spent, n := time.Duration(0), 0
			for spent < 30*time.Millisecond || n == 0 {
				cpu, _, err := a.scan(text)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", a.name, err)
				}
				spent += cpu
				n++
			}
			all[i] = append(all[i], float64(n)*mb/spent.Seconds())
		}
	}
	return all, nil
}

// row holds the measurements of one text.
type row struct {
	class       texts.Class
	size        int
	rates       []rates // one for each arm
	allocations int     // of ours; -1 if not counted
}

// report measures everything and returns the section of the page.
func report(arms []arm, skipped string, sizes []int, rounds int) (string, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Measured %s on one of %d cores (%s, %s), MB/s of CPU time, median of %d turns and the farthest of them; one turn where a scan takes more than %v, none where it would take more than %v.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOARCH, runtime.Version(), rounds, long, tooLong)
	if skipped != "" {
		fmt.Fprintf(&out, "\n**trufflehog is not in this run**: %s.\n", skipped)
	}
	names := make([]string, len(arms))
	for i, a := range arms {
		names[i] = a.name
	}
	fmt.Fprintf(&out, "\n| text | size | %s | allocations of ours |\n|---|---|%s---|\n", strings.Join(names, " | "), strings.Repeat("---|", len(arms)))
	var rows []row
	for _, c := range append(slices.Clone(texts.Classes), texts.Slowest) {
		var all []rates
		for _, size := range sizes {
			text := c.Text(size)
			var err error
			if all, err = turns(arms, text, rounds, all); err != nil {
				return "", err
			}
			r := row{c, size, all, allocations(arms[0], text, all[0])}
			rows = append(rows, r)
			fmt.Fprint(&out, r)
			log.Print(c.Name, ", ", human(size))
		}
	}
	fmt.Fprintf(&out, "\nTexts made to be slow, ours alone, %s:\n\n| text | MB/s |\n|---|---|\n", human(sizes[1]))
	slowest := 1e9
	for _, h := range texts.Hostile {
		all, err := turns(arms[:1], h.Text(sizes[1]), rounds, nil)
		if err != nil {
			return "", err
		}
		slowest = min(slowest, all[0].median())
		fmt.Fprintf(&out, "| %s | %s |\n", h.Name, all[0].cell())
	}
	fmt.Fprintf(&out, "\n%s", goals(rows, sizes[1], slowest))
	return out.String(), nil
}

func (r row) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "| %s | %s |", r.class.Name, human(r.size))
	for _, x := range r.rates {
		fmt.Fprintf(&out, " %s |", x.cell())
	}
	count := "–"
	if r.allocations >= 0 {
		count = fmt.Sprint(r.allocations)
	}
	return out.String() + " " + count + " |\n"
}

// goals reports which goals the rows of a size meet.
func goals(rows []row, size int, slowest float64) string {
	var out strings.Builder
	report := func(ok bool, format string, args ...any) {
		word := "missed"
		if ok {
			word = "met"
		}
		fmt.Fprintf(&out, "- %s: **%s**.\n", fmt.Sprintf(format, args...), word)
	}
	clean, most := 1e9, 0
	for _, r := range rows {
		if r.class.Clean && r.size == size {
			clean = min(clean, r.rates[0].median())
			if r.class.Goal > 0 {
				report(r.rates[0].median() >= r.class.Goal, "%s, %.0f MB/s: %s", r.class.Name, r.class.Goal, r.rates[0].cell())
			}
		}
		if r.class.Clean {
			most = max(most, r.allocations)
		}
	}
	report(slowest >= 20, "the slowest text, 20 MB/s: %.1f", slowest)
	report(slowest >= clean/10, "the slowest text, a tenth of the slowest clean one (%.0f): %.1f", clean, slowest)
	report(most <= 2, "clean text, 2 allocations: %d at most", most)
	if len(rows[0].rates) < 3 {
		fmt.Fprint(&out, "- four times trufflehog at every text: not measured in this run.\n")
		return out.String()
	}
	for _, r := range rows {
		ours, theirs := r.rates[0].median(), r.rates[2].median()
		switch {
		case r.size != size || theirs == 0:
		case r.class.Name == texts.Slowest.Name: // its goal is a rate of its own
			fmt.Fprintf(&out, "- %s: %.1f times trufflehog, which has no goal.\n", r.class.Name, ours/theirs)
		default:
			report(ours >= 4*theirs, "%s, four times trufflehog: %.1f times", r.class.Name, ours/theirs)
		}
	}
	return out.String()
}

// allocations returns the number of allocations of one scan, after another that
// filled the pools; -1 if a scan takes too long.
func allocations(a arm, text []byte, r rates) int {
	if len(r) < 2 {
		return -1
	}
	var before, after runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // each processor has its own pools
	a.scan(text)
	runtime.ReadMemStats(&before)
	a.scan(text)
	runtime.ReadMemStats(&after)
	return int(after.Mallocs - before.Mallocs)
}

func human(size int) string {
	if size >= 1<<20 {
		return fmt.Sprintf("%d MiB", size>>20)
	}
	return fmt.Sprintf("%d KiB", size>>10)
}
