package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
)

// repository is the path from this package to the root.
const repository = "../.."

// page reads a document by its path in the repository.
func page(t testing.TB, name string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(repository, filepath.FromSlash(name))))(t)
	return string(data)
}

// fence is one code block of a page.
type fence struct {
	lang, text, heading string
	line                int // number of its first line of text
}

func (f fence) String() string { return fmt.Sprintf("line %d, %s", f.line, f.heading) }

// fences returns the code blocks of a page, each with the preceding
// second-level heading.
func fences(t testing.TB, text string) []fence {
	t.Helper()
	var list []fence
	var open *fence
	heading := ""
	for i, line := range strings.Split(text, "\n") {
		lang, mark := strings.CutPrefix(line, "```")
		switch {
		case open != nil && mark:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case mark:
			open = &fence{lang: lang, heading: heading, line: i + 2}
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		case strings.Contains(line, "```"):
			t.Fatalf("line %d: a code block is indented or quoted, so nothing checks it", i+1)
		}
	}
	if open != nil {
		t.Fatalf("%v: the code block does not end", open)
	}
	return list
}

// decode reads a configuration file strictly: what a lenient reader would
// ignore (a key given twice, a comma at the end, a comment) is an error.
func decode(t testing.TB, f fence) map[string]any {
	t.Helper()
	ctx := context.Background()
	store := must(rw.Open(ctx, t.TempDir(), &rw.Options{ReadOnly: true}))(t)
	defer store.Close(ctx)
	r, err := store.Validate(ctx, rw.ValidateRequest{Content: []byte(f.text), FormatHint: f.lang})
	if err != nil || !r.Valid || len(r.Errors) > 0 {
		t.Fatalf("%v: %v %v", f, r.Errors, err)
	}
	if f.lang == "yaml" {
		doc := must(clients.Read(clients.YAML, f.text))(t, f)
		return doc
	}
	if f.lang == "toml" {
		doc := must(readTOML(f.text))(t, f)
		return doc
	}
	var doc map[string]any
	noErr(t, json.Unmarshal([]byte(f.text), &doc), f)
	return doc
}

var (
	tomlTable = regexp.MustCompile(`^\[([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\]$`)
	tomlPair  = regexp.MustCompile(`^([A-Za-z0-9_-]+) = (.+)$`)
)

// readTOML reads the TOML of our pages: tables, and keys with a string, a
// number, a boolean, or a list of these, each on one line. Such values are
// JSON too. Everything else is an error.
func readTOML(text string) (map[string]any, error) {
	doc := map[string]any{}
	table := doc
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := tomlTable.FindStringSubmatch(line); m != nil {
			table = doc
			for _, key := range strings.Split(m[1], ".") {
				next, ok := table[key].(map[string]any)
				if !ok {
					next = map[string]any{}
					table[key] = next
				}
				table = next
			}
			continue
		}
		m := tomlPair.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d is more TOML than this reader knows: %s", i+1, line)
		}
		var v any
		if err := json.Unmarshal([]byte(m[2]), &v); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		table[m[1]] = v
	}
	return doc, nil
}

// words splits a line of a shell block. It supports only quotes, and fails for
// anything else.
func words(line string) ([]string, error) {
	var list []string
	word, quoted, begun := "", false, false
	for _, c := range line {
		switch {
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				list = append(list, word)
			}
			word, begun = "", false
		case strings.ContainsRune("|;&<>$`'\\*?(){}#", c):
			return nil, fmt.Errorf("%q is more shell than this reader knows", c)
		default:
			word, begun = word+string(c), true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote does not end")
	}
	if begun {
		list = append(list, word)
	}
	return list, nil
}

// TestReadersRefuseWhatTheyDoNotKnow: a reader that ignores what it does not
// understand would make the tests of the pages worthless.
func TestReadersRefuseWhatTheyDoNotKnow(t *testing.T) {
	for _, text := range []string{"[a", "a = [1,\n2]", "a = 2026-11-21", "a.b = 1", "a = 'x'", "# a", "[[a]]", "a = 1 # b", "\n", "a=1"} {
		if doc, err := readTOML(text); err == nil {
			t.Errorf("%q is %v", text, doc)
		}
	}
	doc, err := readTOML("[a.b]\nc = [\"d\", \"e\"]\n[a]\nf = 1\n")
	if got := fmt.Sprint(doc); err != nil || got != "map[a:map[b:map[c:[d e]] f:1]]" {
		t.Errorf("%s %v", got, err)
	}
	for _, line := range []string{"a | b", "a $B", "a 'b'", `a "b`, "a > b", "a; b", "a && b", "a # b", `a \`} {
		if list, err := words(line); err == nil {
			t.Errorf("%q is %q", line, list)
		}
	}
	if list, err := words(`a  "b c" d=e ""`); err != nil || fmt.Sprintf("%q", list) != `["a" "b c" "d=e" ""]` {
		t.Errorf("%q %v", list, err)
	}
	if got := fences(t, "## H\n```json\n{}\n```\n"); len(got) != 1 || got[0] != (fence{"json", "{}\n", "H", 3}) {
		t.Errorf("%v", got)
	}
}
