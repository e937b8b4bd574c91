package surface_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// surfaceOf is a small surface of some tools.
func surfaceOf(version string, tools ...surface.Tool) surface.Document {
	d := surface.Document{SchemaVersion: version, EnvelopeVersion: "1", Envelope: json.RawMessage(`{}`), Tools: tools}
	return d
}

func toolOf(name, tier string) surface.Tool {
	return surface.Tool{Name: name, Tier: tier, Description: "Does it.", Input: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`), Output: json.RawMessage(`{"type":"object"}`)}
}

// project is a history: what testdata/surface and the changelog hold.
type project struct {
	goldens map[string][]byte
	log     []string // sections, newest first
}

// release freezes a surface.
func (p *project) release(t *testing.T, d surface.Document) {
	t.Helper()
	data := testbed.Must(d.Encode())(t)
	if p.goldens == nil {
		p.goldens = map[string][]byte{}
	}
	p.goldens[d.SchemaVersion] = data
	sum := sha256.Sum256(data)
	p.log = append([]string{fmt.Sprintf("## %s – 2026-12-01\n\nSurface: `sha256:%s`\n\n\n", d.SchemaVersion, hex.EncodeToString(sum[:]))}, p.log...)
}

// review judges a surface in the making whose own golden is up to date.
func (p *project) review(t *testing.T, now surface.Document, entries ...string) []string {
	t.Helper()
	data := testbed.Must(now.Encode())(t)
	goldens := map[string][]byte{now.SchemaVersion: data}
	maps.Copy(goldens, p.goldens)
	log := "# Changes\n\n" + fmt.Sprintf("## %s – unreleased\n\n%s\n\n", now.SchemaVersion, strings.Join(entries, "\n")) + strings.Join(p.log, "\n")
	return surface.Review(goldens, []byte(log), now)
}

// wants demands that exactly one problem holds each of the texts, and that
// there is no other.
func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, w) }) {
			t.Errorf("%s: no message %q: %s", what, w, strings.Join(got, "\n"))
		}
	}
	testbed.Expect(t, len(got) == len(want), "%s: %d problems, want %d: %s", what, len(got), len(want), strings.Join(got, "\n"))
}

func TestFirstVersionNeedsAGoldenAndASection(t *testing.T) {
	var p project
	now := surfaceOf("0.1.0", toolOf("a", "facade"))
	wants(t, "all is well", p.review(t, now, "The first version."))
	data, _ := now.Encode()
	log := []byte("## 0.1.0 – unreleased\n")
	wants(t, "no golden", surface.Review(nil, log, now), "run the test with -update")
	changed := surfaceOf("0.1.0", toolOf("a", "advanced"))
	wants(t, "a stale golden", surface.Review(map[string][]byte{"0.1.0": data}, log, changed), "run the test with -update", "breaking: tools/a/tier")
	wants(t, "no changelog", surface.Review(map[string][]byte{"0.1.0": data}, nil, now), "cannot be read")
	wants(t, "another version", surface.Review(map[string][]byte{"0.1.0": data}, []byte("## 0.2.0 – unreleased\n"), now), "no section", "they go together")
	now.SchemaVersion = "v0.1"
	wants(t, "no version", surface.Review(nil, log, now), `"v0.1" is not a version`)
}

// TestADifferenceNeedsItsVersion: the number must be as far from the last
// release as the worst difference asks, and one of those that may follow.
func TestADifferenceNeedsItsVersion(t *testing.T) {
	plain := toolOf("a", "facade")
	worded, extended, broken := plain, plain, plain
	worded.Description = "Does it well."
	extended.Input = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"additionalProperties":false}`)
	broken.Input = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	entry := map[string]string{
		"words": "### Documentation\n- `tools/*/description`: clearer", "compatible": "### Compatible\n- `tools/a/input/b`: for b",
		"breaking": "### Breaking\n- `tools/a/input/a`: without it nothing works",
	}
	for _, row := range []struct {
		last, now string
		class     string
		tool      surface.Tool
		want      []string
	}{
		{"0.1.0", "0.1.1", "words", worded, nil}, {"0.1.0", "0.1.1", "compatible", extended, nil}, {"0.1.0", "0.2.0", "compatible", extended, nil},
		{"0.1.0", "1.0.0", "breaking", broken, nil}, {"0.1.0", "0.2.0", "breaking", broken, nil},
		{"0.1.0", "0.1.1", "breaking", broken, []string{"it is 0.2.0 at least"}},
		{"0.9.3", "0.9.4", "breaking", broken, []string{"it is 0.10.0 at least"}},
		{"1.4.2", "1.4.3", "words", worded, nil}, {"1.4.2", "1.4.3", "compatible", extended, []string{"it is 1.5.0 at least"}},
		{"1.4.2", "1.5.0", "compatible", extended, nil}, {"1.4.2", "1.5.0", "breaking", broken, []string{"it is 2.0.0 at least"}}, {"1.4.2", "2.0.0", "breaking", broken, nil},
		{"0.1.0", "0.3.0", "breaking", broken, []string{"0.3.0 does not follow 0.1.0: 0.1.1, 0.2.0 or 1.0.0 would"}},
		{"1.4.2", "1.6.0", "compatible", extended, []string{"does not follow"}}, {"1.4.2", "1.5.1", "compatible", extended, []string{"does not follow"}},
		{"0.2.0", "0.1.9", "words", worded, []string{"does not follow", "it is 0.2.1 at least"}},
	} {
		var p project
		p.release(t, surfaceOf(row.last, plain))
		wants(t, row.last+" to "+row.now+", "+row.class, p.review(t, surfaceOf(row.now, row.tool), entry[row.class]), row.want...)
	}
}

func TestEachDifferenceNeedsAnEntryAndEachEntryADifference(t *testing.T) {
	old, now := toolOf("a", "facade"), toolOf("a", "facade")
	now.Title, now.Tier, now.Input = "A", "advanced", json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"additionalProperties":false}`)
	var p project
	p.release(t, surfaceOf("0.1.0", old))
	next := surfaceOf("0.2.0", now, toolOf("new", "facade"))
	const tier, title, b, fresh = "lacks, under Breaking: - `tools/a/tier`", "lacks, under Documentation: - `tools/a/title`", "lacks, under Compatible: - `tools/a/input/b`", "lacks, under Compatible: - `tools/new`: new"
	const brk, com, doc = "### Breaking\n", "### Compatible\n", "### Documentation\n"
	for _, row := range []struct {
		name, entries string
		want          []string
	}{
		{"none", "", []string{tier, title, b, fresh}},
		{"all", brk + "- `tools/a/tier`: less seen\n" + com + "- `tools/a/input/b`, `tools/new`: more\n" + doc + "- `tools/a/title`: better", nil},
		{"a whole tool under the worst", brk + "- `tools/a`: all of it\n" + com + "- `tools/new`: more", nil},
		{"a star below breaking", brk + "- `tools/a/tier`: less seen\n" + com + "- `tools/*/input`, `tools/new`: more\n" + doc + "- `tools/*/title`: better", nil},
		{"a star for what breaks", brk + "- `tools/*`: all of it\n", []string{"no breaking difference at tools/*", tier, title, b, fresh}},
		{"a part for what breaks", brk + "- `tools`: all of it\n", []string{"no breaking difference at tools", tier, title, b, fresh}},
		{"under the wrong heading", com + "- `tools/a/tier`, `tools/a`, `tools/new`: more\n", []string{"no compatible difference at tools/a/tier", tier}},
		{"under a heading that is too grave", brk + "- `tools/a`: all of it\n- `tools/new`: more", []string{"no breaking difference at tools/new"}},
		{"what did not happen", brk + "- `tools/a`: all\n- `tools/b`: gone\n" + com + "- `tools/new`: more", []string{"line 7: no breaking difference at tools/b"}},
		{"half of a name is no prefix", brk + "- `tools/a`: all of it\n" + com + "- `tools/ne`: more", []string{"no compatible difference at tools/ne", fresh}},
	} {
		wants(t, row.name, p.review(t, next, strings.Split(row.entries, "\n")...), row.want...)
	}
}

// TestAReleasedToolStays: no tool can be deprecated yet, so none can go.
func TestAReleasedToolStays(t *testing.T) {
	stay := toolOf("stay", "facade")
	var p project
	p.release(t, surfaceOf("0.1.0", toolOf("go", "standard"), stay))
	wants(t, "removed", p.review(t, surfaceOf("0.2.0", stay), "### Breaking", "- `tools/go`: use stay"), "go was removed")
}

// TestTheChangelogIsReadStrictly: what only looks like an entry is not
// passed over.
func TestTheChangelogIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		"## 0.1 – unreleased":                                               "line 1: \"0.1\" is not a version",
		"## 0.1.0 - unreleased":                                             "line 1: a version is",
		"## 0.1.0 – soon":                                                   "line 1: a version is",
		"## 01.1.0 – unreleased":                                            "not a version",
		"## 0.1.0 – unreleased\n### Fixed":                                  "line 2: the headings",
		"### Breaking":                                                      "line 1: the headings",
		"## 0.1.0 – unreleased\n### Breaking\n- tools/a: gone":              "line 3: an entry is",
		"## 0.1.0 – unreleased\n### Breaking\n- `tools/a` gone":             "line 3: an entry is",
		"## 0.1.0 – unreleased\n### Breaking\n- `tools/a`: ":                "line 3: an entry is",
		"## 0.1.0 – 2026-12-01\nSurface: `sha256:12`":                       "line 2: the line is",
		"## 0.1.0 – 2026-12-01\nSurface: sha256:" + strings.Repeat("0", 64): "line 2: the line is",
	} {
		_, problems := surface.ParseChangelog([]byte(text))
		testbed.Expect(t, len(problems) == 1 && strings.Contains(problems[0], want), "%q: %v", text, problems)
	}
	sections, problems := surface.ParseChangelog([]byte("# T\n- words\n## 0.2.0 – unreleased\n\n- words\r\n### Compatible\r\n\n- `a/b`, `c`: text: more `d`\r\nwords\n## 0.1.0 – 2026-12-01\n"))
	testbed.Require(t, len(problems) == 0 && len(sections) == 2 && len(sections[0].Entries) == 1 && sections[1].Released == "2026-12-01",
		"%v %+v", problems, sections)
	e := sections[0].Entries[0]
	testbed.Expect(t, slices.Equal(e.Addresses, []string{"a/b", "c"}) && e.Line == 8 && e.Class == surface.Compatible, "%+v", e)
}

// TestWhatWasReleasedIsFrozen: neither the golden nor the code may move under a
// number that was released.
func TestWhatWasReleasedIsFrozen(t *testing.T) {
	a := surfaceOf("0.1.0", toolOf("a", "facade"))
	var p project
	p.release(t, a)
	log := []byte(p.log[0])
	wants(t, "as released", surface.Review(p.goldens, log, a))
	moved := surfaceOf("0.1.0", toolOf("a", "facade"), toolOf("b", "facade"))
	wants(t, "the code moved", surface.Review(p.goldens, log, moved), "begin a new version", "compatible: tools/b: new")
	data, _ := moved.Encode()
	wants(t, "the golden moved with it", surface.Review(map[string][]byte{"0.1.0": data}, log, moved), "frozen, but its golden was changed")
	wants(t, "no hash", surface.Review(p.goldens, []byte("## 0.1.0 – 2026-12-01\n"), a), "needs the line Surface: `sha256:")
	wants(t, "the golden is gone", surface.Review(nil, log, a), "its golden is gone", "begin a new version")
	next := surfaceOf("0.1.1", toolOf("a", "facade"))
	wants(t, "a released version below one in the making", p.review(t, next))
	p.goldens["0.0.9"] = data
	wants(t, "a golden without a section", p.review(t, next), "there is a golden of 0.0.9, but no section")
	delete(p.goldens, "0.0.9")
	p.log = append(p.log, "## 0.0.9 – unreleased\n")
	wants(t, "an old version never released", p.review(t, next), "has 0.0.9 unreleased, but a newer version")
	for name, golden := range map[string]string{"rubbish": "{", "another version": `{"schema_version":"9.9.9"}`, "unknown members": `{"schema_version":"0.1.0","zzz":1}`} {
		sum := sha256.Sum256([]byte(golden))
		log := fmt.Sprintf("## 0.1.0 – 2026-12-01\nSurface: `sha256:%x`\n", sum)
		got := surface.Review(map[string][]byte{"0.1.0": []byte(golden)}, []byte(log), a)
		testbed.Expect(t, slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "cannot be read") }), "%s: %v", name, got)
	}
}
