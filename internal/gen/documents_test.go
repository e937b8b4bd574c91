package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

var repository = filepath.Join("..", "..")

// page is one text for readers.
type page struct {
	name   string // from the root, with slashes
	text   string
	prose  string // without what is fenced
	blocks []block
}

// block is the text between two fences.
type block struct {
	lang string
	text string
	line int
}

// pages are the Markdown files of the repository, without those of test data.
func pages(t *testing.T) map[string]page {
	t.Helper()
	out := map[string]page{}
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			data, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			out[name] = parsePage(name, string(data))
		}
		return nil
	})
	testbed.Require(t, err == nil && len(out) >= 15, "%d pages, %v", len(out), err)
	return out
}

func parsePage(name, text string) page {
	p := page{name: name, text: text}
	var prose strings.Builder
	var open *block
	for i, line := range strings.Split(text, "\n") {
		mark := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case mark && open == nil:
			open = &block{lang: strings.TrimPrefix(strings.TrimSpace(line), "```"), line: i + 1}
		case mark:
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		default:
			prose.WriteString(line + "\n")
		}
	}
	p.prose = prose.String()
	return p
}

// TestLinksLeadSomewhere: every link within the repository names a file that is
// there and, after #, one of its headings.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found, anchors := 0, 0
	for name, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			target, anchor, hasAnchor := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			found++
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: %s is not there", name, m[1])
			} else if hasAnchor {
				anchors++
				other, ok := all[file]
				testbed.Expect(t, ok && slices.Contains(headings(other), anchor), "%s: %s has no heading #%s", name, file, anchor)
			}
		}
	}
	testbed.Expect(t, found >= 50 && anchors != 0, "only %d links and %d anchors were found", found, anchors)
}

// headings are the anchors of a page, as its host makes them.
func headings(p page) []string {
	var out []string
	for _, line := range strings.Split(p.prose, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			out = append(out, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return out
}

// TestJSONBlocksParse: who copies a configuration gets one that can be read.
func TestJSONBlocksParse(t *testing.T) {
	n := 0
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "json" {
				continue
			}
			n++
			var doc any
			err := json.Unmarshal([]byte(b.text), &doc)
			testbed.Expect(t, err == nil, "%s:%d: %v", name, b.line, err)
		}
	}
	testbed.Expect(t, n >= 10, "only %d blocks were found", n)
}

// around is the text around the pieces of Go on a page that are no whole
// program. A page that is not named here shows whole programs only, but for
// docs/embed.md, whose pieces another test finds in the examples.
var around = map[string]string{
	"README.md": `package block

import (
	"context"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
)

func piece(store *rw.Store, ctx context.Context, text []byte, seen rw.Digest) error {
	%s
	return err
}
`,
	"docs/http.md": `package block

import (
	"context"
	"net"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func piece(store *rw.Store, ctx context.Context, token string) error {
	%s
}
`,
}

// TestGoBlocksCompile: all of them in one build that links nothing, beside the
// tree, so that nothing is written into it.
func TestGoBlocksCompile(t *testing.T) {
	dir, overlay := t.TempDir(), map[string]string{}
	root := testbed.Must(filepath.Abs(repository))(t)
	var packages []string
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" || name == "docs/embed.md" {
				continue
			}
			source := strings.Replace(b.text, "package main\n", "package block\n", 1)
			if source == b.text {
				if around[name] == "" {
					t.Errorf("%s:%d: a piece of Go, and nothing says what is around it", name, b.line)
					continue
				}
				source = fmt.Sprintf(around[name], b.text)
			}
			at := fmt.Sprintf("internal/gen/block%d", len(packages))
			file := filepath.Join(dir, fmt.Sprintf("%d.go", len(packages)))
			source = fmt.Sprintf("//line %s:%d\n", path.Base(name), b.line) + source
			testbed.NoErr(t, os.WriteFile(file, []byte(source), 0o644))
			overlay[filepath.Join(root, filepath.FromSlash(at), "block.go")] = file
			packages = append(packages, "./"+at)
		}
	}
	testbed.Require(t, len(packages) >= 3, "only %d blocks were found", len(packages))
	data := testbed.Must(json.Marshal(map[string]any{"Replace": overlay}))(t)
	list := filepath.Join(dir, "overlay.json")
	testbed.NoErr(t, os.WriteFile(list, data, 0o644))
	cmd := exec.Command("go", append([]string{"build", "-overlay", list}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	testbed.Expect(t, err == nil, "%v\n%s", err, out)
}

// TestServerPageShowsEveryTool checks that the table of tools is complete.
func TestServerPageShowsEveryTool(t *testing.T) {
	text := pages(t)["docs/mcp.md"].prose
	for _, tool := range mcpserver.Table() {
		testbed.Expect(t, strings.Contains(text, "`rw_"+tool.Name+"`"), "docs/mcp.md does not name rw_%s", tool.Name)
	}
}

// TestConstantsStandWhereTheyAreExplained: a stage is in the drawing of the
// way of a write, in its order; a kind of row, and what a note is about, in the
// format of the journal.
func TestConstantsStandWhereTheyAreExplained(t *testing.T) {
	all := pages(t)
	drawing, at := all["docs/architecture.md"].blocks[0].text, 0
	for _, stage := range constants(t, ".", "Stage") {
		i := strings.Index(drawing[at:], stage)
		if i < 0 {
			t.Errorf("docs/architecture.md does not draw the stage %s, or not in its place", stage)
			continue
		}
		at += i
	}
	for _, prefix := range []string{"Kind", "Note"} {
		for _, value := range constants(t, "internal/journal", prefix) {
			testbed.Expect(t, strings.Contains(all["spec/journal.md"].prose, "`"+value+"`"), "spec/journal.md does not explain %s", value)
		}
	}
}

// TestArchitectureShowsEveryRoom: each package below internal and each file of
// the root has its line on the page of the code layout.
func TestArchitectureShowsEveryRoom(t *testing.T) {
	text := pages(t)["docs/architecture.md"].prose
	var patterns []string
	for _, m := range regexp.MustCompile("`([\\w*/.]+)`").FindAllStringSubmatch(text, -1) {
		patterns = append(patterns, m[1])
	}
	rooms := testbed.Must(filepath.Glob(filepath.Join(repository, "internal", "*")))(t)
	files, err := filepath.Glob(filepath.Join(repository, "*.go"))
	testbed.Require(t, err == nil && len(rooms) >= 15 && len(files) >= 50, "%d rooms, %d files, %v", len(rooms), len(files), err)
	for _, name := range append(rooms, files...) {
		name := testbed.Must(filepath.Rel(repository, name))(t)
		shown := func(pattern string) bool {
			ok, _ := path.Match(pattern, filepath.ToSlash(name))
			return ok
		}
		if !strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(patterns, shown) {
			t.Errorf("docs/architecture.md does not show %s", filepath.ToSlash(name))
		}
	}
}

// constants are the texts of a directory's constants whose names begin so.
func constants(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var out []string
	for _, f := range sources(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				out = append(out, strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	testbed.Require(t, len(out) >= 5, "%s has only %d constants %s…", dir, len(out), prefix)
	return out
}

// sources are the parsed Go files of a directory, without tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(dir), "*.go"))
	testbed.Require(t, err == nil && len(names) != 0, "%s: %d files, %v", dir, len(names), err)
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data := testbed.Must(os.ReadFile(name))(t)
		f := testbed.Must(parser.ParseFile(token.NewFileSet(), name, bytes.TrimSpace(data), parser.ParseComments|parser.SkipObjectResolution))(t)
		out = append(out, f)
	}
	return out
}
