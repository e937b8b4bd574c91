package protect

import (
	"strings"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestTable: every row can be found, has a reason, and begins in a way that the
// index understands.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	for _, r := range Rules() {
		testbed.Expect(t, r.Reason() != "" && r.Since >= 1 && r.Since <= Version && (r.Answer == Ask || r.Answer == Warn), "%+v", r)
		testbed.Expect(t, doublestar.ValidatePattern(r.Pattern), "%s is no pattern", r.Pattern)
		for _, p := range alternatives(r.Pattern) {
			other, twice := seen[strings.ToLower(p)]
			testbed.Expect(t, !twice, "%s is in %s and in %s", p, other, r.Pattern)
			seen[strings.ToLower(p)] = r.Pattern
			first, rest, _ := strings.Cut(p, "/")
			testbed.Expect(t, !strings.ContainsAny(strings.TrimPrefix(first, "*"), "*?[") && (!strings.HasPrefix(first, "*") || rest == ""),
				"%s begins with a glob", p)
			testbed.Expect(t, !strings.ContainsAny(p, "{}"), "%s has nested braces", r.Pattern)
			for _, path := range []string{sample(p), "a/b/" + sample(p), strings.ToUpper(sample(p))} {
				got, ok := Match(path)
				testbed.Expect(t, ok && (got.Answer != Warn || r.Answer != Ask), "%s, of %s: %+v", path, r.Pattern, got)
			}
		}
	}
}

// sample is a path that a pattern without braces fits.
func sample(p string) string {
	return strings.ReplaceAll(strings.ReplaceAll(p, "**", "x/y"), "*", "z")
}

// TestMatchIsThePattern: the index finds what the patterns themselves find.
func TestMatchIsThePattern(t *testing.T) {
	for _, path := range []string{
		".vscode/tasks.json", ".vscode/tasks.json/x", "x.vscode/tasks.json", ".vscode", "tasks.json", ".husky", ".husky/a/b", ".claude/settings.x.json", ".claude/a/settings.json",
		"a.pth", "pth", ".pth", "a.pth/b", "package.json", "package.json/x", ".github/workflows/x", ".github/x", "HANDOFF.md", ".codex/hooks", ".codex/hooks.d/x", ".envrc/x", ".run/x.run.xml", ".run/a/x.run.xml",
	} {
		want := ""
		for _, r := range Rules() {
			if ok, _ := doublestar.Match("**/"+strings.ToLower(r.Pattern), strings.ToLower(path)); ok && !(strings.HasSuffix(r.Pattern, "/**") && !strings.Contains(path, "/")) {
				want = r.Pattern
				break
			}
		}
		got, _ := Match(path)
		testbed.Equal(t, got.Pattern, want, path)
	}
}

func BenchmarkMatch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Match("internal/server/handlers/users_test.go")
	}
}

// FuzzLinear: looking a path up in the table takes work in proportion to its
// length.
func FuzzLinear(f *testing.F) {
	seeds := []string{".claude/", ".CLAUDE/hooks/", ".cursor/mcp.json/", "a/.vscode/tasks.json", ".github/workflows/", ".ssh/", "package.json/", "*/", "~1/", ".idea/runConfigurations/"}
	testbed.FuzzLinear(f, 4<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		Match(string(text))
		Match("a/" + string(text) + "/.envrc")
		return 0
	})
}
