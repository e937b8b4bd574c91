package toolbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func text(t *testing.T, name string) string {
	t.Helper()
	data := testbed.Must(os.ReadFile(name))(t)
	return string(data)
}

// TestAdapters: each module below adapters/ has at most 40 lines of code, a
// pinned framework, a test with the scripted model, and a row in docs/embed.md
// with that version, whose lines stand in its example. The library itself
// depends on none of them.
func TestAdapters(t *testing.T) {
	page, root := text(t, "../docs/embed.md"), text(t, "../go.mod")
	if strings.Contains(root, "replace ") {
		t.Error("the library's go.mod replaces a module")
	}
	if !strings.Contains(text(t, "../.ci/run"), "for adapter in adapters/*/") {
		t.Error(".ci/run does not run the adapters")
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v[0-9.]+) \\| \\[(\\w+)\\]\\(\\.\\./adapters/(\\w+)\\) \\| `([^`]+)` \\|(?: `([^`]+)`)? \\|$")
	shown := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		framework, version, dir := m[1], m[2], "../adapters/"+m[4]
		shown[m[4]] = m[3] == m[4]
		if mod := text(t, dir+"/go.mod"); !strings.Contains(mod, framework+" "+version+"\n") || !strings.Contains(mod, "resilientwrite => ../..") {
			t.Errorf("%s: go.mod does not require %s %s, or does not take the library from the tree", dir, framework, version)
		}
		if strings.Contains(root, framework) {
			t.Errorf("the library requires %s", framework)
		}
		for _, line := range m[5:] {
			if !strings.Contains(text(t, dir+"/example/main.go"), line) {
				t.Errorf("%s: the example does not have %s", dir, line)
			}
		}
		if !strings.Contains(text(t, dir+"/example/main_test.go"), "scripted.Check(dir)") {
			t.Errorf("%s: no test with the scripted model", dir)
		}
		lines := 0
		for line := range strings.Lines(text(t, dir+"/"+m[4]+".go")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if lines > 40 {
			t.Errorf("%s: %d lines", dir, lines)
		}
	}
	dirs, err := filepath.Glob("../adapters/*/go.mod")
	if err != nil || len(dirs) < 6 {
		t.Fatal(dirs, err)
	}
	for _, mod := range dirs {
		if name := filepath.Base(filepath.Dir(mod)); !shown[name] || !strings.Contains(text(t, "../adapters/go.work"), "./"+name+"\n") {
			t.Errorf("%s: no row in docs/embed.md, or not in go.work", name)
		}
	}
}

// TestAdaptersRequireWhatTheLibraryDoes: a module that takes the library from
// the tree must list its dependencies, at the same version or a newer one; go
// mod tidy in the module does that.
func TestAdaptersRequireWhatTheLibraryDoes(t *testing.T) {
	out := testbed.Must(exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}`, ".").Output())(t)
	numbers := func(version string) (list []int) {
		for _, n := range regexp.MustCompile(`\d+`).FindAllString(version, 3) {
			i, _ := strconv.Atoi(n)
			list = append(list, i)
		}
		return list
	}
	mods, err := filepath.Glob("../adapters/*/go.mod")
	if err != nil || len(mods) < 6 || len(strings.Fields(string(out))) < 8 {
		t.Fatal(mods, err, string(out))
	}
	for line := range strings.Lines(string(out)) {
		name, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		for _, mod := range mods {
			has := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + ` (v\S+)`).FindStringSubmatch(text(t, mod))
			if ok && (has == nil || slices.Compare(numbers(has[1]), numbers(version)) < 0) {
				t.Errorf("%s: %s %s, the library has %s; run go mod tidy there", mod, name, has, version)
			}
		}
	}
}
