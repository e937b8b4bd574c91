// Package gitignore decides whether .gitignore files hide a path from git. It reads
// patterns as gitignore(5) describes them and runs nothing. It does not know which
// files git tracks: git sees a tracked file regardless of the patterns.
package gitignore

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is one .gitignore file.
type File struct {
	dir   string // the directory it is in, "" for the top
	rules []rule // last first
}

type rule struct {
	re      *regexp.Regexp
	negated bool
	dirOnly bool
	base    bool // compared with the last component alone
}

// maxPattern bounds one pattern in bytes; a longer one is passed over.
const maxPattern = 1000

// maxRules bounds the patterns of one file; what follows is passed over.
const maxRules = 2000

// Parse reads the patterns of the file that is in dir, a path relative to the
// top with forward slashes, "" for the top itself. A pattern that cannot be
// read matches nothing, as in git.
func Parse(dir string, text []byte) File {
	f := File{dir: dir}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		if r, ok := parse(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")); ok {
			f.rules = append(f.rules, r)
		}
		if len(f.rules) == maxRules {
			break
		}
	}
	slices.Reverse(f.rules)
	return f
}

func parse(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" || len(line) > maxPattern {
		return r, false
	}
	r.base = !strings.Contains(line, "/")
	expr, ok := translate(strings.TrimPrefix(line, "/"))
	if !ok {
		return r, false
	}
	re, err := regexp.Compile(`^(?s:` + expr + `)$`)
	r.re = re
	return r, err == nil
}

// separator takes the place of slashes in an expression and in what it is matched with,
// because a set of characters never matches a slash.
const separator = "\x00"

// translate makes an expression of package regexp of a pattern, which takes
// linear time to match.
func translate(p string) (expr string, ok bool) {
	var b strings.Builder
	literal := strings.IndexAny(p, `*?[\`) // git matches what follows it as if the pattern began there
	for i := 0; i < len(p); {
		rest := p[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == literal || p[i-1] == '/'):
			b.WriteString(`(?:.*\x00)?`)
			i += 3
		case rest == "**" && (i == literal || p[i-1] == '/'):
			b.WriteString(`.*`)
			i += 2
		case p[i] == '*':
			for i < len(p) && p[i] == '*' {
				i++
			}
			b.WriteString(`[^\x00]*`)
		case p[i] == '?':
			b.WriteString(`[^\x00]`)
			i++
		case p[i] == '[':
			class, n := bracket(rest)
			if n == 0 {
				return "", false
			}
			b.WriteString(class)
			i += n
		case p[i] == '\\':
			if i++; i == len(p) {
				return "", false
			}
			fallthrough
		default:
			b.WriteString(regexp.QuoteMeta(strings.ReplaceAll(p[i:i+1], "/", separator)))
			i++
		}
	}
	return b.String(), true
}

// bracket translates a set of characters at the start of p; n is its length, 0
// for one that does not end.
func bracket(p string) (class string, n int) {
	b := []byte("[")
	i := 1
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		b = append(b, `^\x00`...)
		i++
	}
	for first := true; i < len(p); first = false {
		switch c := p[i]; {
		case c == ']' && !first:
			return string(append(b, ']')), i + 1
		case c == '[' && named(p[i:]) > 0:
			b = append(b, p[i:i+named(p[i:])]...)
			i += named(p[i:])
		case c == '-' && !first && i+1 < len(p) && p[i+1] != ']':
			b = append(b, '-')
			i++
		case c == '\\' && i+1 < len(p):
			b = append(b, regexp.QuoteMeta(p[i+1:i+2])...)
			i += 2
		case c == '-' || c == '^' || c == '[' || c == ']' || c == '\\' || c == '&' || c == '~':
			b = append(b, '\\', c)
			i++
		default:
			b = append(b, c)
			i++
		}
	}
	return "", 0
}

// named returns the length of a named class, such as [:alpha:], at the start of p, 0 if
// there is none.
func named(p string) int {
	end := strings.IndexByte(p, ']')
	if end < len("[::") || p[1] != ':' || p[end-1] != ':' {
		return 0
	}
	return end + 1
}

// Hides reports whether the patterns hide one path, relative to the top, which is a
// directory or a file; what hides a directory that it is in does not count. files holds
// the patterns of the directories from the top to the path, the top first: the last
// pattern that matches it decides, the deepest file first.
func Hides(files []File, name string, dir bool) bool {
	for i := len(files) - 1; i >= 0; i-- {
		f := &files[i]
		rel := name
		if f.dir != "" {
			var below bool
			if rel, below = strings.CutPrefix(name, f.dir+"/"); !below {
				continue
			}
		}
		for _, r := range f.rules {
			text := rel
			if r.base {
				text = path.Base(rel)
			}
			if (dir || !r.dirOnly) && r.re.MatchString(strings.ReplaceAll(text, "/", separator)) {
				return !r.negated
			}
		}
	}
	return false
}
