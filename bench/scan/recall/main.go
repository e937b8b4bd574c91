// Command recall measures the scanner on labelled rows and on ordinary files
// of a directory. It holds no rows of its own.
//
//	cd bench && go run ./scan/recall -corpus DIR [-missed FILE] [-noise FILE]
//
// DIR has rows.jsonl, one object a line with text, label (own-prefix, context
// or clean), usable and source, and ordinary.txt, one path a line. A row is
// found if a finding of a credential is anywhere in it; it is refused if the
// verdict of the gate is high, as a server with default settings refuses.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// row is one labelled example.
type row struct {
	Text, Label, Source string
	Usable              bool
}

// seen is the result of the scanner for one text.
type seen struct {
	refused  bool
	blocking int            // findings that alone or together cause a refusal
	findings []scan.Finding // of credentials
}

// notCredentials are the families that are not credentials.
var notCredentials = []string{"pii", "binary_hint", "invisible_unicode", "filter_trigger"}

func look(s *scan.Scanner, text []byte) seen {
	r := s.Score(text, scan.Options{})
	t := r.Tally()
	_, verdict := s.GateVerdict(&t)
	out := seen{refused: verdict == scan.VerdictHigh}
	for _, f := range r.Findings {
		if slices.Contains(notCredentials, f.Family) {
			continue
		}
		out.findings = append(out.findings, f)
		if f.Confidence == scan.Confirmed || out.refused && f.Confidence == scan.Likely {
			out.blocking++
		}
	}
	return out
}

func main() {
	log.SetFlags(0)
	corpus := flag.String("corpus", "", "directory of rows.jsonl and ordinary.txt")
	missed := flag.String("missed", "", "write the rows that were not found to this file")
	noise := flag.String("noise", "", "write the findings in ordinary files to this file")
	workers := flag.Int("workers", runtime.NumCPU(), "files scanned at a time")
	flag.Parse()
	if *corpus == "" {
		log.Fatal("-corpus says where rows.jsonl and ordinary.txt are")
	}
	s, err := scan.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	err = cmp.Or(
		measureRows(s, out, filepath.Join(*corpus, "rows.jsonl"), *missed),
		measureFiles(s, out, filepath.Join(*corpus, "ordinary.txt"), *noise, *workers),
		out.Flush())
	if err != nil {
		log.Fatal(err)
	}
}

// share counts rows of a kind: all of them, found and refused.
type share struct{ all, found, refused int }

func (x *share) add(s seen) {
	x.all++
	if len(s.findings) > 0 {
		x.found++
	}
	if s.refused {
		x.refused++
	}
}

func (x share) String() string {
	n := float64(max(x.all, 1))
	return fmt.Sprintf("%5d rows  found %.3f  refused %.3f", x.all, float64(x.found)/n, float64(x.refused)/n)
}

func measureRows(s *scan.Scanner, out io.Writer, name, missed string) error {
	rows, err := readRows(name)
	if err != nil {
		return err
	}
	kinds, sources := map[string]*share{}, map[string]*share{}
	count := func(m map[string]*share, key string, x seen) {
		if m[key] == nil {
			m[key] = &share{}
		}
		m[key].add(x)
	}
	var lost []row
	for _, r := range rows {
		x := look(s, []byte(r.Text))
		count(kinds, r.Label+" all", x)
		if r.Usable {
			count(kinds, r.Label+" usable", x)
			count(sources, r.Label+" "+r.Source, x)
			if len(x.findings) == 0 {
				lost = append(lost, r)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(out, "%-18s %v\n", k, kinds[k])
	}
	for _, label := range []string{"own-prefix", "context"} {
		bySource(out, label, sources)
	}
	if missed == "" {
		return nil
	}
	return writeMissed(missed, sources, lost)
}

// bySource prints the mean over the sources, so that one with many rows counts
// once.
func bySource(out io.Writer, label string, sources map[string]*share) {
	var n int
	var found, refused float64
	for k, x := range sources {
		if strings.HasPrefix(k, label+" ") {
			n++
			found += float64(x.found) / float64(x.all)
			refused += float64(x.refused) / float64(x.all)
		}
	}
	fmt.Fprintf(out, "%-18s %5d rules found %.3f  refused %.3f\n", label+" by rule", n, found/float64(max(n, 1)), refused/float64(max(n, 1)))
}

func readRows(name string) ([]row, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []row
	for d := json.NewDecoder(f); ; {
		var r row
		if err := d.Decode(&r); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
}

// writeMissed lists the usable rows that were not found, starting with the
// source that has the most.
func writeMissed(name string, sources map[string]*share, lost []row) error {
	w := &bytes.Buffer{}
	left := func(k string) int { return sources[k].all - sources[k].found }
	keys := slices.SortedFunc(maps.Keys(sources), func(a, b string) int {
		return cmp.Or(cmp.Compare(left(b), left(a)), strings.Compare(a, b))
	})
	for _, k := range keys {
		fmt.Fprintf(w, "%5d missed of %v  %s\n", left(k), sources[k], k)
	}
	slices.SortStableFunc(lost, func(a, b row) int {
		x, y := a.Label+" "+a.Source, b.Label+" "+b.Source
		return cmp.Or(cmp.Compare(left(y), left(x)), strings.Compare(x, y))
	})
	for _, r := range lost {
		fmt.Fprintf(w, "\n== %s %s\n%s\n", r.Label, r.Source, r.Text)
	}
	return os.WriteFile(name, w.Bytes(), 0o666)
}

// ordinary is the result for one ordinary file.
type ordinary struct {
	name  string
	bytes int
	text  bool // valid UTF-8 without NUL
	seen
}

func measureFiles(s *scan.Scanner, out io.Writer, list, noise string, workers int) error {
	b, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	files := scanFiles(s, strings.Fields(string(b)), workers)
	var n, texts, bytesOfText, found, blocking, refused, pem int
	for _, f := range files {
		n++
		if f.refused {
			refused++
			if onlyKeys(f.seen) {
				pem++
			}
		}
		if f.text {
			texts++
			bytesOfText += f.bytes
			found += len(f.findings)
			blocking += f.blocking
		}
	}
	mb := float64(bytesOfText) / 1e6
	fmt.Fprintf(out, "ordinary text      %d files, %.0f MB: %.3f findings per MB (%d), of them blocking %.3f (%d)\n",
		texts, mb, float64(found)/mb, found, float64(blocking)/mb, blocking)
	per := func(k int) float64 { return 1000 * float64(k) / float64(max(n, 1)) }
	fmt.Fprintf(out, "ordinary files     %d: refused %.3f per 1,000 (%d), without files that hold only private keys in full %.3f (%d)\n",
		n, per(refused), refused, per(refused-pem), refused-pem)
	if noise == "" {
		return nil
	}
	return writeNoise(noise, files)
}

// onlyKeys reports whether the refusal is caused only by private keys, which
// are genuine keys even in a test.
func onlyKeys(x seen) bool {
	for _, f := range x.findings {
		if f.Family != "pem_block" && f.Family != "private_key" && f.Confidence != scan.Info {
			return false
		}
	}
	return true
}

func scanFiles(s *scan.Scanner, names []string, workers int) []ordinary {
	out := make([]ordinary, len(names))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(names); i += workers {
				b, err := os.ReadFile(names[i])
				if err != nil {
					continue
				}
				out[i] = ordinary{name: names[i], bytes: len(b), text: utf8.Valid(b) && bytes.IndexByte(b, 0) < 0, seen: look(s, b)}
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(out, func(f ordinary) bool { return f.name == "" })
}

// writeNoise lists the refused files, then every finding by its pattern.
func writeNoise(name string, files []ordinary) error {
	w := &bytes.Buffer{}
	patterns := map[string][]string{}
	for _, o := range files {
		if o.refused {
			fmt.Fprintf(w, "REFUSED %s\n", o.name)
		}
		for _, x := range o.findings {
			line := fmt.Sprintf("%s:%d %s %s %s %s", o.name, x.Line, x.Pattern, x.Confidence, x.DecodedFrom, x.Match)
			if o.refused {
				fmt.Fprintf(w, "    %s\n", line)
			}
			patterns[x.Pattern+" "+string(x.Confidence)] = append(patterns[x.Pattern+" "+string(x.Confidence)], line)
		}
	}
	keys := slices.SortedFunc(maps.Keys(patterns), func(a, b string) int { return cmp.Compare(len(patterns[b]), len(patterns[a])) })
	for _, k := range keys {
		fmt.Fprintf(w, "\n== %d %s\n%s\n", len(patterns[k]), k, strings.Join(patterns[k], "\n"))
	}
	return os.WriteFile(name, w.Bytes(), 0o666)
}
