//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	list := missing(record)
	testbed.Expect(t, len(list) == 0, "the page lacks %v", list)
	_, block, _ := strings.Cut(overview, blockBegin)
	block, _, ok := strings.Cut(block, blockEnd)
	testbed.Require(t, ok && strings.Contains(record, blockBegin+block+blockEnd), "benchmark.md does not hold the summary of benchmark-record.md")
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

// missing returns the cells that a document lacks: each scenario has a section
// with a row for each arm, and for each agent if the agents differ.
func missing(page string) (list []string) {
	for _, s := range scenarios() {
		_, section, _ := strings.Cut(page, "\n### "+s.id+" ")
		section, _, _ = strings.Cut(section, "\n##")
		for _, arm := range armNames {
			for _, who := range agents {
				if !strings.Contains(section, fmt.Sprintf("\n| %s | %s |", arm, who)) && !strings.Contains(section, fmt.Sprintf("\n| %s | %s |", arm, anyAgent)) {
					list = append(list, fmt.Sprint(s.id, " ", arm, " ", who))
				}
			}
		}
	}
	return list
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
