package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
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
			if err1 != nil || err2 != nil || after <= before {
				t.Errorf("%s in %s: %d found without the token, %d with it (%v, %v)", a.name, c.Name, before, after, err1, err2)
			}
			if c.Clean && a.name == "resilientwrite" && before > 0 && c.Name != "base64 in 76 columns" {
				t.Errorf("ours in %s: %d found in clean text", c.Name, before)
			}
		}
	}
}

// TestTextsAreOrdinary checks that texts have the requested length, and that no
// class repeats itself within 100 KiB.
func TestTextsAreOrdinary(t *testing.T) {
	for _, c := range texts.Classes {
		text := c.Text(100 << 10)
		if len(text) != 100<<10 || !bytes.Equal(text, c.Text(100<<10)) {
			t.Errorf("%s: %d bytes, or another text the second time", c.Name, len(text))
		}
		if at := bytes.Index(text[1000:], text[:200]); at >= 0 {
			t.Errorf("%s repeats itself after %d bytes", c.Name, 1000+at)
		}
	}
}

func TestRecipes(t *testing.T) {
	seen := map[string]string{}
	for _, h := range texts.Hostile {
		text := h.Text(4 << 10)
		if len(text) != 4<<10 || !bytes.Equal(text, h.Text(4<<10)) {
			t.Errorf("%s: %d bytes, or another text the second time", h.Name, len(text))
		}
		if other := seen[string(text)]; other != "" {
			t.Errorf("%s is %s", h.Name, other)
		}
		seen[string(text)] = h.Name
	}
	for _, w := range texts.Wraps {
		r := texts.Recipe{Unit: []string{"key={an 12}\n"}, Wrap: []string{w}}
		text := r.Text(1 << 10)
		if len(text) != 1<<10 || bytes.Contains(text, []byte("key=")) && w != "json" {
			t.Errorf("%s does not wrap: %q", w, text[:32])
		}
	}
	for unit, want := range map[string]string{"": "    ", "{": "{{{{", "{an": "{an{", "{an x}": "{an ", "{num 0}": "    ", "}{": "}{}{"} {
		if got := string((texts.Recipe{Unit: []string{unit}}).Text(4)); got != want {
			t.Errorf("%q gives %q, want %q", unit, got, want)
		}
	}
}

// TestChild drives the child through its pipe. Substitutes for trufflehog's
// packages have the same names and find the word "secret".
func TestChild(t *testing.T) {
	dir := t.TempDir()
	for name, text := range standIn {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := trufflehog(pinned + "\nreplace github.com/trufflesecurity/trufflehog/v3 => " + dir + "\n")
	if err != nil {
		t.Fatal(err)
	}
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
	if err == nil {
		t.Fatal("built from nothing")
	}
	arms, _ := start(false)
	page, err := report(arms, err.Error(), []int{1 << 10, 2 << 10}, 1)
	if err != nil || !strings.Contains(page, "trufflehog is not in this run") || !strings.Contains(page, "cannot be built here") {
		t.Errorf("%v\n%s", err, page)
	}
	for _, c := range texts.Classes {
		if !strings.Contains(page, "| "+c.Name+" | 1 KiB |") {
			t.Errorf("no row of %s", c.Name)
		}
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
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	rows[0].rates = rows[0].rates[:2]
	if page := goals(rows[:1], 1<<10, 10); !strings.Contains(page, "not measured in this run") || !strings.Contains(page, "20 MB/s: 10.0: **missed**") {
		t.Error(page)
	}
}

func TestPut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(name, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := page.Replace(name, begin, end, "new"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "before\n"+begin+"\n\nnew\n"+end+"\nafter\n" {
		t.Errorf("%s", got)
	}
	os.WriteFile(name, []byte("no marks"), 0o600)
	if page.Replace(name, begin, end, "new") == nil {
		t.Error("written into a page without a place")
	}
}

func TestRates(t *testing.T) {
	for want, r := range map[string]rates{"–": nil, "0.50": {0.5}, "10.0 ± 50 %": {10, 5, 11}, "200 ± 10 %": {200, 220, 180, 200}} {
		if got := r.cell(); got != want {
			t.Errorf("%v is %q, want %q", r, got, want)
		}
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
