package surface_test

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
)

// TestADeprecationSaysWhatItMust: since when, what instead, until when.
func TestADeprecationSaysWhatItMust(t *testing.T) {
	stay := toolOf("stay", "facade")
	for _, row := range []struct {
		name string
		tier string
		d    surface.Deprecation
		want []string
	}{
		{"well", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.4.0"}, nil},
		{"later", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.7.0"}, nil},
		{"at the next major version", "facade", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "1.0.0"}, nil},
		{"advanced tools live shorter", "advanced", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.3.0"}, nil},
		{"too soon", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.3.0"}, []string{"which is before 0.4.0"}},
		{"too soon for an advanced one", "advanced", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.2.0"}, []string{"which is before 0.3.0"}},
		{"in a patch", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "0.4.1"}, []string{"cannot remove a tool"}},
		{"dated back", "standard", surface.Deprecation{Since: "0.1.0", Replacement: "stay", RemoveIn: "0.3.0"}, []string{"0.2.0 is the first version that says so"}},
		{"dated forward", "standard", surface.Deprecation{Since: "0.3.0", Replacement: "stay", RemoveIn: "0.5.0"}, []string{"0.2.0 is the first version that says so"}},
		{"nothing instead", "standard", surface.Deprecation{Since: "0.2.0", RemoveIn: "0.4.0"}, []string{"is not a tool that stays"}},
		{"itself instead", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "go", RemoveIn: "0.4.0"}, []string{"is not a tool that stays"}},
		{"no version", "standard", surface.Deprecation{Since: "soon", Replacement: "stay", RemoveIn: "0.4.0"}, []string{"since: "}},
		{"no end", "standard", surface.Deprecation{Since: "0.2.0", Replacement: "stay", RemoveIn: "later"}, []string{"remove in: "}},
	} {
		var p project
		p.release(t, surfaceOf("0.1.0", toolOf("go", row.tier), stay))
		now := going(toolOf("go", row.tier), row.d.Since, row.d.Replacement, row.d.RemoveIn)
		wants(t, row.name, p.review(t, surfaceOf("0.2.0", now, stay), "### Compatible", "- `tools/go/deprecated`: use stay"), row.want...)
	}
	var p project
	a, b := going(toolOf("a", "standard"), "0.1.0", "b", "0.3.0"), going(toolOf("b", "standard"), "0.1.0", "stay", "0.3.0")
	wants(t, "from one that goes to another", p.review(t, surfaceOf("0.1.0", a, b, stay)), "a is deprecated: its replacement \"b\" is not a tool that stays")
}

// TestAToolGoesWhenItsTimeHasCome walks through the life of tools: neither
// before the end that was promised, nor without the versions that were
// promised, nor after the end.
func TestAToolGoesWhenItsTimeHasCome(t *testing.T) {
	stay := toolOf("stay", "facade")
	removed := []string{"### Breaking", "- `tools/go`: use stay"}
	life := func(tier, end string, versions ...string) *project {
		p := &project{}
		p.release(t, surfaceOf("0.1.0", toolOf("go", tier), stay))
		for _, v := range versions {
			p.release(t, surfaceOf(v, going(toolOf("go", tier), versions[0], "stay", end), stay))
		}
		return p
	}
	gone := func(v string) surface.Document { return surfaceOf(v, stay) }
	kept := func(v, since, end string) surface.Document {
		return surfaceOf(v, going(toolOf("go", "standard"), since, "stay", end), stay)
	}
	wants(t, "never deprecated", life("standard", "").review(t, gone("0.2.0"), removed...), "go was removed: it was never deprecated")
	wants(t, "after its two versions", life("standard", "0.4.0", "0.2.0", "0.3.0").review(t, gone("0.4.0"), removed...))
	wants(t, "after one version, before its end", life("standard", "0.4.0", "0.2.0").review(t, gone("0.3.0"), removed...),
		"it was promised until 0.4.0, and this is 0.3.0", "it was deprecated for 1 minor versions, its users were promised 2")
	wants(t, "patches are no versions", life("standard", "0.4.0", "0.2.0", "0.2.1", "0.2.2").review(t, gone("1.0.0"), removed...), "it was deprecated for 1 minor versions")
	wants(t, "an advanced one after one version", life("advanced", "0.3.0", "0.2.0").review(t, gone("0.3.0"), removed...))
	wants(t, "in a patch", life("standard", "0.4.0", "0.2.0", "0.3.0", "0.4.0").review(t, gone("0.4.1"), removed...), "it is 0.5.0 at least")
	wants(t, "still there before its end", life("standard", "0.4.0", "0.2.0").review(t, kept("0.3.0", "0.2.0", "0.4.0")))
	wants(t, "still there at its end", life("standard", "0.4.0", "0.2.0", "0.3.0").review(t, kept("0.4.0", "0.2.0", "0.4.0")), "it was to be removed in 0.4.0, and this is 0.4.0")
	wants(t, "put off", life("standard", "0.4.0", "0.2.0", "0.3.0").review(t, kept("0.4.0", "0.2.0", "0.6.0"), "### Compatible", "- `tools/go/deprecated`: stays longer"))
	wants(t, "put on", life("standard", "0.6.0", "0.2.0", "0.3.0").review(t, kept("0.4.0", "0.2.0", "0.5.0"), "### Breaking", "- `tools/go/deprecated`: goes earlier"))
	wants(t, "stays after all", life("standard", "0.4.0", "0.2.0").review(t, surfaceOf("0.3.0", toolOf("go", "standard"), stay), "### Compatible", "- `tools/go/deprecated`: stays"))
}

// TestALowerTierDoesNotShortenALife: a tool is not made advanced to be rid of
// it sooner.
func TestALowerTierDoesNotShortenALife(t *testing.T) {
	stay := toolOf("stay", "facade")
	var p project
	p.release(t, surfaceOf("0.1.0", toolOf("go", "facade"), stay))
	p.release(t, surfaceOf("0.2.0", going(toolOf("go", "advanced"), "0.2.0", "stay", "0.3.0"), stay))
	wants(t, "lowered and removed", p.review(t, surfaceOf("0.3.0", stay), "### Breaking", "- `tools/go`: gone"), "it was deprecated for 1 minor versions, its users were promised 2")
	var q project
	q.release(t, surfaceOf("0.1.0", toolOf("go", "advanced"), stay))
	q.release(t, surfaceOf("0.2.0", going(toolOf("go", "standard"), "0.2.0", "stay", "0.3.0"), stay))
	wants(t, "raised and removed", q.review(t, surfaceOf("0.3.0", stay), "### Breaking", "- `tools/go`: gone"), "it was deprecated for 1 minor versions, its users were promised 2")
}

// TestFromOneZeroOnToolsGoInMajorVersions: a minor version may not break.
func TestFromOneZeroOnToolsGoInMajorVersions(t *testing.T) {
	stay := toolOf("stay", "facade")
	dead := func(since, end string) surface.Tool { return going(toolOf("go", "standard"), since, "stay", end) }
	var p project
	p.release(t, surfaceOf("1.0.0", toolOf("go", "standard"), stay))
	entry := []string{"### Compatible", "- `tools/go/deprecated`: use stay"}
	wants(t, "in a minor version", p.review(t, surfaceOf("1.1.0", dead("1.1.0", "1.3.0"), stay), entry...), "1.3.0 cannot remove a tool")
	wants(t, "in a major version", p.review(t, surfaceOf("1.1.0", dead("1.1.0", "2.0.0"), stay), entry...))
	p.release(t, surfaceOf("1.1.0", dead("1.1.0", "2.0.0"), stay))
	wants(t, "one minor version later", p.review(t, surfaceOf("2.0.0", stay), "### Breaking", "- `tools/go`: gone"), "it was deprecated for 1 minor versions")
	p.release(t, surfaceOf("1.2.0", dead("1.1.0", "2.0.0"), stay))
	wants(t, "two minor versions later", p.review(t, surfaceOf("2.0.0", stay), "### Breaking", "- `tools/go`: gone"))
}
