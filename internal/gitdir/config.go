package gitdir

import (
	"path/filepath"
	"slices"
	"strings"
)

// config collects the hook settings of configuration files.
type config struct {
	repo      *Repository
	top, home string
}

// file reads one configuration file and the files that it includes. Conditions of an
// inclusion are taken as met: protecting one directory too many is better than one too
// few.
func (c *config) file(name string, depth int) {
	if depth > maxDepth || len(c.repo.read) > maxFiles {
		return
	}
	if _, ok := c.repo.read[name]; ok {
		return
	}
	hooks := "" // of several settings in one file git takes the last
	for key, value := range settings(c.repo.text(name, maxConfig)) {
		switch {
		case value == "":
		case key == setting{"core", "hookspath"}:
			hooks = c.path(c.top, value)
		case key == setting{"core", "excludesfile"}:
			c.repo.Excludes = c.path(c.top, value)
		case key.name == "path" && (key.section == "include" || strings.HasPrefix(key.section, "includeif.")):
			c.named(c.path(filepath.Dir(name), value), depth+1)
		}
	}
	if hooks != "" && !slices.Contains(c.repo.Hooks, hooks) {
		c.repo.Hooks = append(c.repo.Hooks, hooks)
	}
}

// named is file for one that can have any name.
func (c *config) named(name string, depth int) {
	if !slices.Contains(c.repo.Configs, name) && len(c.repo.Configs) < maxFiles {
		c.repo.Configs = append(c.repo.Configs, name)
	}
	c.file(name, depth)
}

// WorkTree is the work tree that a repository's own directory names, "" where it
// names none.
func WorkTree(dir string) (top string) {
	r := &Repository{read: map[string]stamp{}}
	for key, value := range settings(r.text(filepath.Join(dir, Config), maxConfig)) {
		if key == (setting{"core", "worktree"}) && value != "" {
			top = within(dir, value)
		}
	}
	return top
}

// path is the path that a value means, relative to dir.
func (c *config) path(dir, value string) string {
	value = strings.TrimPrefix(value, ":(optional)")
	if rest, ok := strings.CutPrefix(value, "~/"); ok && c.home != "" {
		return filepath.Join(c.home, rest)
	}
	return within(dir, value)
}

const blank = " \t\r" // also a return that ends no line

// setting is the key of a setting: its section and its name, which are in lower case,
// and a subsection unchanged.
type setting struct{ section, name string }

// settings yields the keys of a configuration file with their values.
func settings(text string) func(yield func(key setting, value string) bool) {
	return func(yield func(key setting, value string) bool) {
		section := ""
		text = strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\ufeff")
		for text != "" {
			text = strings.TrimLeft(text, blank+"\n")
			if text == "" {
				return
			}
			switch text[0] {
			case '#', ';':
				_, text, _ = strings.Cut(text, "\n")
				continue
			case '[':
				section, text = header(text[1:])
				continue
			}
			end := strings.IndexFunc(text, func(r rune) bool { return r != '-' && !isAlnum(r) })
			if end < 0 {
				end = len(text)
			}
			name, value := strings.ToLower(text[:end]), ""
			if end == 0 { // git would refuse the file here
				end = 1
			}
			text = strings.TrimLeft(text[end:], " \t")
			if strings.HasPrefix(text, "=") {
				value, text = valueOf(text[1:])
			}
			if !yield(setting{section, name}, value) {
				return
			}
		}
	}
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// header reads the head of a section after its bracket.
func header(text string) (section, rest string) {
	end := strings.IndexAny(text, "]\"\n")
	if end < 0 {
		return "", ""
	}
	section = strings.ToLower(strings.TrimSpace(text[:end]))
	if text[end] != '"' {
		return section, text[end+1:]
	}
	var sub strings.Builder
	for i := end + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			sub.WriteByte(text[i])
		case c == '"':
			_, rest, _ = strings.Cut(text[i:], "]")
			return section + "." + sub.String(), rest
		case c == '\n':
			return "", text[i:]
		default:
			sub.WriteByte(c)
		}
	}
	return "", ""
}

// valueOf reads a value to the end of its line: quotes and escapes are
// resolved, comments and outer white space left out, continued lines joined.
func valueOf(text string) (value, rest string) {
	var b strings.Builder
	kept := 0 // bytes that are no white space at the end
	quoted := false
	i := 0
loop:
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			break loop
		case !quoted && strings.IndexByte(blank, c) >= 0:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				return b.String()[:kept], text[i+end:]
			}
			return b.String()[:kept], ""
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(text):
			i++
			if at := strings.IndexByte("tnb", text[i]); at >= 0 {
				b.WriteByte("\t\n\b"[at])
			} else if text[i] != '\n' {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
		kept = b.Len()
	}
	return b.String()[:kept], text[i:]
}
