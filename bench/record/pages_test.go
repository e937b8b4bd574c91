//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// published reads one of the published pages.
func published(t *testing.T, name string) string {
	t.Helper()
	data := testbed.Must(os.ReadFile(filepath.Join("..", "..", "docs", name)))(t)
	return string(data)
}

// TestThePublishedPagesAreWhole: the pages contain every scenario with every
// arm and every agent, agree with each other, show the figures of the
// literature as they were published, and show a plot that can be parsed.
func TestThePublishedPagesAreWhole(t *testing.T) {
	record, overview := published(t, "benchmark-record.md"), published(t, "benchmark.md")
	list := append(missing(record), missingShell(record)...)
	testbed.Expect(t, len(list) == 0, "the page lacks %v", list)
	from, to, ok := blockIn(overview)
	testbed.Require(t, ok && strings.Contains(record, overview[from:to]), "benchmark.md does not hold the summary of benchmark-record.md")
	block := overview[from:to]
	testbed.Contains(t, block,
		"| literature | naive | 10 s | – | 5 % * | – | 5 % * | 25 % |",
		"| literature | defensive | 5.5 s | – | 1 % * | – | 15 % * | 12.5 % |",
		"| literature | their system | 2 s | – | 0.1 % * | – | 65 % * | 3 % |",
		"](benchmark-record.svg)", "estimates of its authors",
	)
	for _, who := range []string{"guided agent", "mean of all agents"} {
		for _, arm := range []string{"naive", "defensive", "resilientwrite"} {
			testbed.Expect(t, strings.Count(block, "\n| "+who+" | "+arm+" | ") == 1, "the summary has no row for %s, %s", who, arm)
		}
	}
	wellFormed(t, published(t, "benchmark-record.svg"))
}

// TestWhatAPageLacksIsNamed covers a section, a row of an arm, and an agent.
func TestWhatAPageLacksIsNamed(t *testing.T) {
	record := published(t, "benchmark-record.md")
	from := strings.Index(record, "\n### C6 ")
	to := from + 1 + strings.Index(record[from+1:], "\n### ")
	for want, less := range map[string]string{
		"C6":                        record[:from] + record[to:],
		"C6 naive text":             record[:from] + strings.Replace(record[from:], "\n| naive | text |", "\n| naive |", 1),
		"C10 resilientwrite guided": record[:from] + strings.Replace(record[from:], "\n| resilientwrite | any |", "\n| gone | any |", 1),
	} {
		if got := missing(less); !slices.Contains(got, want) {
			t.Errorf("%s is missing, and only %v is missed", want, got)
		}
	}
	if got := missingShell(strings.ReplaceAll(record, "| a formatter over", "| over")); len(got) != 1 {
		t.Errorf("a row is missing, and only %v is missed", got)
	}
	if got := missing(""); len(got) != 10 {
		t.Errorf("an empty page lacks %v", got)
	}
}

// TestTheSummaryTakesTheOldOnesPlace checks that nothing else of the page
// changes.
func TestTheSummaryTakesTheOldOnesPlace(t *testing.T) {
	block := blockBegin + "\nnew\n" + blockEnd
	got, err := embed("before\n"+blockBegin+"\nold\n"+blockEnd+"\nafter", block)
	want := "before\n" + block + "\nafter"
	testbed.Expect(t, err == nil && got == want, "%q, %v", got, err)
	for _, place := range []string{"", blockBegin, blockEnd + blockBegin, blockBegin + blockBegin + blockEnd} {
		if _, err := embed(place, block); err == nil {
			t.Errorf("%q has a place?", place)
		}
	}
}

// wellFormed checks an SVG: it can be parsed, and has all bars.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	bars := 0
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		testbed.NoErr(t, err)
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	testbed.Equal(t, bars, 4*3*3+1+3, "rectangles")
}
