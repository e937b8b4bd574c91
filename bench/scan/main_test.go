package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestArmsFindAToken checks that what is measured is a scan: each arm finds one
// more secret in a text of any class when a token is inserted, and ours finds
// none in clean text.
func TestArmsFindAToken(t *testing.T) {
	arms, _ := start(false)
	for _, a := range arms {
		for _, c := range append(texts.Classes, texts.Slowest) {
			text := c.Text(4 << 10)
			with := append(bytes.Clone(text), "\nkey: "+texts.Token()+"\n"...)
			_, before, err1 := a.scan(text)
			_, after, err2 := a.scan(with)
			testbed.Expect(t, err1 == nil && err2 == nil && after > before, "%s in %s: %d found without the token, %d with it (%v, %v)", a.name, c.Name, before, after, err1, err2)
			testbed.Expect(t, !c.Clean || a.name != "resilientwrite" || before <= 0 || c.Name == "base64 in 76 columns", "ours in %s: %d found in clean text", c.Name, before)
		}
	}
}

// TestTextsAreOrdinary checks that texts have the requested length, and that no
// class repeats itself within 100 KiB.
func TestTextsAreOrdinary(t *testing.T) {
	for _, c := range texts.Classes {
		text := c.Text(100 << 10)
		testbed.Expect(t, len(text) == 100<<10 && bytes.Equal(text, c.Text(100<<10)), "%s: %d bytes, or another text the second time", c.Name, len(text))
		at := bytes.Index(text[1000:], text[:200])
		testbed.Expect(t, at < 0, "%s repeats itself after %d bytes", c.Name, 1000+at)
	}
}

func TestRecipes(t *testing.T) {
	seen := map[string]string{}
	for _, h := range texts.Hostile {
		text := h.Text(4 << 10)
		testbed.Expect(t, len(text) == 4<<10 && bytes.Equal(text, h.Text(4<<10)), "%s: %d bytes, or another text the second time", h.Name, len(text))
		testbed.Equal(t, seen[string(text)], "", h.Name)
		seen[string(text)] = h.Name
	}
	for _, w := range texts.Wraps {
		r := texts.Recipe{Unit: []string{"key={an 12}\n"}, Wrap: []string{w}}
		text := r.Text(1 << 10)
		testbed.Expect(t, len(text) == 1<<10 && (!bytes.Contains(text, []byte("key=")) || w == "json"), "%s does not wrap: %q", w, text[:32])
	}
	for unit, want := range map[string]string{"": "    ", "{": "{{{{", "{an": "{an{", "{an x}": "{an ", "{num 0}": "    ", "}{": "}{}{"} {
		testbed.Equal(t, string((texts.Recipe{Unit: []string{unit}}).Text(4)), want, unit)
	}
}

// TestChild drives the child through its pipe. Substitutes for trufflehog's
// packages have the same names and find the word "secret".
func TestChild(t *testing.T) {
	dir := t.TempDir()
	testbed.Plant(t, dir, 0o600, standIn)
	a := testbed.Must(trufflehog(pinned + "\nreplace github.com/trufflesecurity/trufflehog/v3 => " + dir + "\n"))(t)
	defer a.stop()
	for text, want := range map[string]int{"": 0, "nothing": 0, "a secret, and a secret": 2, strings.Repeat("x", 35<<10) + "secret": 1} {
		if cpu, found, err := a.scan([]byte(text)); err != nil || found != want || cpu < 0 {
			t.Errorf("%d bytes: %d found, want %d (%v)", len(text), found, want, err)
		}
	}
}

// TestWithoutTrufflehog: if trufflehog cannot be built, the run reports that
// and continues without it.
func TestWithoutTrufflehog(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	_, err := trufflehog(pinned)
	testbed.Require(t, err != nil, "built from nothing")
	arms, _ := start(false)
	page, err := report(arms, err.Error(), []int{1 << 10, 2 << 10}, 1)
	testbed.Expect(t, err == nil && strings.Contains(page, "trufflehog is not in this run") && strings.Contains(page, "cannot be built here"), "%v\n%s", err, page)
	for _, c := range texts.Classes {
		testbed.Expect(t, strings.Contains(page, "| "+c.Name+" | 1 KiB |"), "no row of %s", c.Name)
	}
}

// TestGoals checks that the statements about the goals follow from the figures.
func TestGoals(t *testing.T) {
	one := func(name string, clean bool, rate float64, allocations int) row {
		return row{texts.Class{Name: name, Clean: clean, Goal: 500}, 1 << 10, []rates{{rate}, {1}, {rate / 5}}, allocations}
	}
	rows := []row{one("source", true, 600, 1), one("prose", true, 400, 3), one("hostile", false, 30, 900), one(texts.Slowest.Name, false, 25, 900)}
	page := goals(rows, 1<<10, 30)
	for _, want := range []string{"source, 500 MB/s: 600: **met**", "prose, 500 MB/s: 400: **missed**", "20 MB/s: 30.0: **met**", "clean one (400): 30.0: **missed**", "3 at most: **missed**", "hostile, four times trufflehog: 5.0 times: **met**", "\n- " + texts.Slowest.Name + ": 5.0 times trufflehog, which has no goal.\n"} {
		testbed.Expect(t, strings.Contains(page, want), "no %q in\n%s", want, page)
	}
	rows[0].rates = rows[0].rates[:2]
	if page := goals(rows[:1], 1<<10, 10); !strings.Contains(page, "not measured in this run") || !strings.Contains(page, "20 MB/s: 10.0: **missed**") {
		t.Error(page)
	}
}

func TestPut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	testbed.NoErr(t, os.WriteFile(name, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600))
	testbed.NoErr(t, page.Replace(name, begin, end, "new"))
	testbed.Holds(t, name, "before\n"+begin+"\n\nnew\n"+end+"\nafter\n")
	for _, place := range []string{"no marks", begin, end + begin, begin + begin + end} {
		os.WriteFile(name, []byte(place), 0o600)
		testbed.Expect(t, page.Replace(name, begin, end, "new") != nil, "written into %q", place)
	}
}

func TestRates(t *testing.T) {
	for want, r := range map[string]rates{"–": nil, "0.50": {0.5}, "10.0 ± 50 %": {10, 5, 11}, "200 ± 10 %": {200, 220, 180, 200}} {
		testbed.Equal(t, r.cell(), want, r)
	}
}

// standIn provides what child.go.txt uses of trufflehog.
var standIn = map[string]string{
	"go.mod":                  "module github.com/trufflesecurity/trufflehog/v3\n\ngo 1.25.0\n",
	"pkg/sources/sources.go":  "package sources\n\ntype Chunk struct{ Data []byte }\n",
	"pkg/decoders/decoder.go": "package decoders\n\nimport \"github.com/trufflesecurity/trufflehog/v3/pkg/sources\"\n\ntype DecodableChunk struct{ *sources.Chunk }\ntype Decoder interface{ FromChunk(*sources.Chunk) *DecodableChunk }\ntype plain struct{}\ntype none struct{}\n\nfunc (plain) FromChunk(c *sources.Chunk) *DecodableChunk { return &DecodableChunk{c} }\nfunc (none) FromChunk(*sources.Chunk) *DecodableChunk { return nil }\nfunc DefaultDecoders() []Decoder { return []Decoder{plain{}, none{}} }\n",
	"pkg/detectors/detectors.go": `package detectors

import (
	"bytes"
	"context"
)

type Result struct{}
type Detector interface {
	FromData(ctx context.Context, verify bool, data []byte) ([]Result, error)
}
type Word struct{}

func (Word) FromData(_ context.Context, _ bool, data []byte) ([]Result, error) {
	return make([]Result, bytes.Count(data, []byte("secret"))), nil
}
`,
	"pkg/engine/defaults/defaults.go": "package defaults\n\nimport \"github.com/trufflesecurity/trufflehog/v3/pkg/detectors\"\n\nfunc DefaultDetectors() []detectors.Detector { return []detectors.Detector{detectors.Word{}} }\n",
	"pkg/engine/ahocorasick/core.go": `package ahocorasick

import (
	"bytes"

	"github.com/trufflesecurity/trufflehog/v3/pkg/detectors"
)

type Core struct{ all []detectors.Detector }
type DetectorMatch struct {
	detectors.Detector
	matches [][]byte
}

func (m *DetectorMatch) Matches() [][]byte { return m.matches }

func NewAhoCorasickCore(all []detectors.Detector) *Core { return &Core{all} }

func (c *Core) FindDetectorMatches(data []byte) []*DetectorMatch {
	if !bytes.Contains(data, []byte("secret")) {
		return nil
	}
	return []*DetectorMatch{{Detector: c.all[0], matches: [][]byte{data}}}
}
`,
}
