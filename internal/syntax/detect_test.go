package syntax

import "testing"

func TestDetect(t *testing.T) {
	for _, c := range []struct{ hint, path, content, want string }{
		{"json", "a.yaml", "---", "json"},
		{" .PY ", "", "", "python"},
		{"auto", "a.toml", "", "toml"},
		{"rust", "a.py", "{", Unknown},
		{"", "a.json", "", "json"},
		{"", "a.ndjson", "", "jsonl"},
		{"", "a.JSONL", "", "jsonl"},
		{"", "dir.go/a.yml", "", "yaml"},
		{"", `dir\a.YAML`, "", "yaml"},
		{"", "a.tex", "", "latex"},
		{"", "a.sty", "", "latex"},
		{"", "a.cls", "", "latex"},
		{"", "a.py", "{", "python"},
		{"", "a.pyi", "", "python"},
		{"", "a.go", "", "go"},
		{"", "a.svg", "", "xml"},
		{"", "a.xhtml", "", "xml"},
		{"", "README.md", "---", "markdown"},
		{"", "a.txt", "[1]", Unknown},
		{"", "data", "\ufeff {\"a\": 1}", "json"},
		{"", "data", "\n[\n[1]]", "json"},
		{"", "data", "[true]", "json"},
		{"", "config", "[core]\na = 1", Unknown},
		{"", "config", "[[bin]]", Unknown},
		{"", "template", "{{ a }}", Unknown},
		{"", "template", "{% if a %}", Unknown},
		{"", "x", "---\na: 1", "yaml"},
		{"", "x", "----", Unknown},
		{"", "x", "<?xml version='1.0'?>", "xml"},
		{"", "x", "<p>", Unknown},
		{"", "", "", Unknown},
		{"", "x", "plain", Unknown},
	} {
		if got := Detect(c.hint, c.path, []byte(c.content)); got != c.want {
			t.Errorf("Detect(%q, %q, %q) = %s, want %s", c.hint, c.path, c.content, got, c.want)
		}
	}
}
