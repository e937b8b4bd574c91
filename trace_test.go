package resilientwrite_test

import (
	"encoding/json"
	"flag"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestTraceGoldens pins the operations of each verb, in their order: a flush that moves
// or disappears shows in review. Each operation is followed by the effect that may be
// reported to the caller if the process dies right there: none, unknown – from the
// row's write to its flush – or applied.
func TestTraceGoldens(t *testing.T) {
	t.Parallel()
	// A scan reads directories side by side where it has processors.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	all := slices.Clone(scenarios)
	for _, c := range scenarios {
		switch c.name {
		case "create", "overwrite", "append", "delete", "move_over": // the state on another file system
			c.name, c.sim.Mount = "elsewhere_"+c.name, true
			all = append(all, c)
		}
	}
	for _, c := range all {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			c := c
			c.opts.Sync = level
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				fs, s := c.prepare(t)
				fs.ResetTrace()
				noErr(t, c.run(s))
				got := traceText(fs.Trace(), level)
				name := filepath.Join("testdata", "trace", c.name+"."+string(level)+".txt")
				if *update {
					os.MkdirAll(filepath.Dir(name), 0o755)
					os.WriteFile(name, []byte(got), 0o644)
				}
				want := must(os.ReadFile(name))(t)
				equal(t, cmp.Diff(string(want), got), "", "the operations changed; review, then run go test -run TestTraceGoldens -update\n")
			})
		}
	}
}

var changing = regexp.MustCompile(`[0-9a-z]+000[0-9]-[0-9a-z]+(-[0-9a-z]+)?|[0-9a-f]{64}(\.[0-9]+-[0-9]+)?|history/[0-9a-f]{2}`)

// traceText writes the mutating operations, with what changes from run to run
// taken out.
func traceText(ops []simfs.Op, level rw.SyncLevel) string {
	var b strings.Builder
	state := "none"
	for _, op := range ops {
		if op.Mut < 0 || strings.Contains(op.Path, "/locks/") {
			continue
		}
		text := changing.ReplaceAllStringFunc(op.String(), func(s string) string {
			switch {
			case strings.HasPrefix(s, "history/"):
				return "history/aa"
			case strings.Contains(s, "-") && !strings.Contains(s, "."):
				return "SLOT"
			}
			return "SHA"
		})
		text = regexp.MustCompile(`(journal/[0-9]+\.jsonl) [0-9]+$`).ReplaceAllString(text, "$1 ROW")
		journal := strings.Contains(op.Path, "/journal/")
		switch {
		case journal && op.Kind == "write" && state == "none" && op.Len != 4096:
			state = "unknown"
		case journal && op.Kind == "datasync":
			state = "applied"
		case level == rw.SyncOff && state == "unknown":
			state = "applied" // for the death of the process the write is enough
		}
		b.WriteString(text + "  # " + state + "\n")
	}
	return strings.ReplaceAll(b.String(), rw.StateDirName, "S")
}

// importsOf returns the imports of the files of a package, without its tests.
func importsOf(t *testing.T, dir string) []string {
	t.Helper()
	return must(build.ImportDir(dir, 0))(t).Imports
}

// TestRootStaysSmall checks that the root package depends on these modules and no
// others: no MCP, no JSON Schema validator, no HTTP stack.
func TestRootStaysSmall(t *testing.T) {
	t.Parallel()
	out := must(exec.Command("go", "list", "-deps", ".").Output())(t)
	allowed := regexp.MustCompile(`^(github\.com/(resilientwrite/resilientwrite|pelletier/go-toml/v2|aymanbagabas/go-udiff|bmatcuk/doublestar/v4)|go\.yaml\.in/yaml/v4|golang\.org/x/(sys|text))(/|$)`)
	for _, dep := range strings.Fields(string(out)) {
		first, _, _ := strings.Cut(dep, "/")
		module := strings.Contains(first, ".")
		expect(t, (!module || allowed.MatchString(dep)) && dep != "net/http" && !strings.HasSuffix(dep, "/internal/simfs"),
			"the root package reaches %s", dep)
	}
	// The report is made with the public API alone.
	for _, imp := range importsOf(t, "report") {
		expect(t, !strings.Contains(imp, "/internal/"), "report imports %s", imp)
	}
	// Neither do the tests of the root know a protocol.
	for _, imp := range must(build.ImportDir(".", 0))(t).XTestImports {
		expect(t, !strings.HasSuffix(imp, "/mcpserver") && !strings.Contains(imp, "mcp-go"), "tests of the root import %s", imp)
	}
}

// TestReadmeProgramRuns builds and runs the first program of the README unchanged.
func TestReadmeProgramRuns(t *testing.T) {
	t.Parallel()
	data := must(os.ReadFile("README.md"))(t)
	_, rest, _ := strings.Cut(string(data), "```go\n")
	program, _, ok := strings.Cut(rest, "```")
	require(t, ok && strings.Count(string(data[:strings.Index(string(data), program)+len(program)]), "\n") <= 46,
		"the README has no program in its first 45 lines")
	// The overlay puts it outside of the tree: other tests read the files in it.
	root := must(os.Getwd())(t)
	dir := t.TempDir()
	source, overlay, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "readme")
	list := must(json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "examples", "readme", "main.go"): source}}))(t)
	os.WriteFile(source, []byte(program), 0o644)
	os.WriteFile(overlay, list, 0o644)
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, "./examples/readme").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require(t, err == nil && strings.Contains(string(out), "<nil>"), "%v: %s", err, out)
	fileIs(t, cmd.Dir, "notes.md", "# Notes\n")
}
