package clients

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The edits of TOML and YAML work by line. Constructs that they do not understand are
// edited wrongly, which [Change] detects and refuses.

func readTOML(text string) (map[string]any, error) {
	doc := map[string]any{}
	err := toml.Unmarshal([]byte(text), &doc)
	if at := (*toml.DecodeError)(nil); errors.As(err, &at) { // whose text holds the line
		line, _ := at.Position()
		err = fmt.Errorf("line %d: not valid TOML", line)
	}
	return doc, err
}

// table is the part of the lines that holds a table: from its header to the
// next one that is not below it.
func table(lines []string, name string) (from, to int) {
	from = slices.IndexFunc(lines, func(l string) bool { return header(l) == name })
	if from < 0 {
		return -1, -1
	}
	to = from + 1
	for to < len(lines) && (header(lines[to]) == "" || strings.HasPrefix(header(lines[to]), name+".")) {
		to++
	}
	return from, to
}

// header is the name in a line that begins a table, or nothing. The header of
// a list of tables begins one too.
func header(line string) string {
	line = strings.TrimSpace(line)
	name, _, ok := strings.Cut(strings.TrimLeft(line, "["), "]")
	if !ok || !strings.HasPrefix(line, "[") {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(name), `"`, "")
}

func setTOML(text string, e Edit) (string, error) {
	if e.Key == "" {
		return "", errShape
	}
	name, pair := strings.Join(e.At, "."), e.Key+" = "+renderJSON(e.Value, "", false)
	lines := strings.SplitAfter(text, "\n")
	from, to := table(lines, name)
	if from < 0 {
		return fmt.Sprintf("%s[%s]\n%s\n", paragraph(text), name, pair), nil
	}
	last := from
	for i := from + 1; i < to && header(lines[i]) == ""; i++ {
		key, _, _ := strings.Cut(lines[i], "=")
		if strings.TrimSpace(key) == e.Key {
			comment, err := remark(readTOML, lines[i], "")
			if err != nil {
				return "", err
			}
			lines[i] = lines[i][:len(key)-len(strings.TrimLeft(key, " \t"))] + pair + comment
			return strings.Join(lines, ""), nil
		}
		if line := strings.TrimSpace(lines[i]); line != "" && line[0] != '#' {
			last = i
		}
	}
	if !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n"
	}
	return strings.Join(slices.Insert(lines, last+1, pair+"\n"), ""), nil
}

// remark is the comment of a line, with the blanks before it and the end of the line. It
// is [ErrByHand] if the line means something else without it. before are the characters of
// which one is before every comment, if there are any.
func remark(read func(string) (map[string]any, error), line, before string) (string, error) {
	const opens = " \t[{,=:\"'" // are before a string
	quote := byte(0)
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && strings.IndexByte(opens, line[i-1]) >= 0:
			quote = c
		case c == '#' && (before == "" || strings.IndexByte(before, line[i-1]) >= 0):
			rest := strings.TrimRight(line[:i], " \t")
			whole, _ := read(line)
			if part, _ := read(rest); !reflect.DeepEqual(part, whole) {
				return "", ErrByHand
			}
			return line[len(rest):], nil
		}
	}
	return line[len(strings.TrimRight(line, " \t\r\n")):], nil
}

func unsetTOML(text string, at []string, key string) string {
	lines := strings.SplitAfter(text, "\n")
	from, to := table(lines, strings.Join(append(slices.Clone(at), key), "."))
	if from < 0 {
		return text
	}
	// Comments and blank lines after the last pair stay.
	for line := strings.TrimSpace(lines[to-1]); line == "" || line[0] == '#'; line = strings.TrimSpace(lines[to-1]) {
		to--
	}
	if from > 0 && strings.TrimSpace(lines[from-1]) == "" {
		from--
	}
	return strings.Join(slices.Delete(lines, from, to), "")
}
