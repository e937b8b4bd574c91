package clients

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

func readYAML(text string) (map[string]any, error) {
	// The library compares each key with all others, so keys that are given twice are found
	// before it is asked for values.
	_, problems := strictyaml.Parse(text, strictyaml.Profile{MaxDepth: 100, Any: true})
	for _, p := range problems {
		if p.Kind != strictyaml.Unread {
			return nil, fmt.Errorf("line %d: not valid YAML", p.Line)
		}
	}
	doc := map[string]any{}
	loader, err := yaml.NewLoader(strings.NewReader(text), yaml.WithUniqueKeys(false))
	if err == nil {
		err = loader.Load(&doc)
	}
	if err != nil && err != io.EOF { // its text holds values
		return nil, errors.New("not valid YAML")
	}
	list, ok := doc["mcpServers"].([]any)
	if !ok {
		return doc, nil
	}
	servers := map[string]any{}
	for i, one := range list {
		server, _ := one.(map[string]any)
		name, named := server["name"].(string)
		if !named { // a block of the hub
			name = fmt.Sprint(i)
		}
		if servers[name] != nil || server == nil {
			return nil, errShape
		}
		servers[name] = server
	}
	doc["mcpServers"] = servers
	return doc, nil
}

// newYAML is the content of a new file of Continue, without the servers.
const newYAML = "name: Local Config\nversion: 1.0.0\nschema: v1\n"

// servers are the lines of the list of servers below a key of the first level,
// and those of our element.
func servers(lines []string, list string) (from, to, own, ownEnd int) {
	from, own = slices.IndexFunc(lines, func(l string) bool { return strings.TrimRight(l, " \r\n") == list+":" }), -1
	if from < 0 {
		return -1, -1, -1, -1
	}
	to = from + 1
	for i := from + 1; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \r\n")
		inner := strings.TrimLeft(line, " ")
		if inner == "" || strings.HasPrefix(inner, "#") {
			continue
		}
		dash := strings.HasPrefix(inner, "- ")
		if inner == line && !dash {
			break
		}
		if dash && len(line)-len(inner) <= dashIndent(lines, from) {
			if own >= 0 && ownEnd == 0 {
				ownEnd = to
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(inner, "- name: "), " #")
			if strings.Trim(name, `"' `) == Server {
				own = i
			}
		}
		to = i + 1
	}
	if own >= 0 && ownEnd == 0 {
		ownEnd = to
	}
	return from, to, own, ownEnd
}

// dashIndent is how far the elements of a list are indented.
func dashIndent(lines []string, from int) int {
	for _, line := range lines[from+1:] {
		if inner := strings.TrimLeft(line, " "); strings.HasPrefix(inner, "- ") {
			return len(line) - len(inner)
		}
	}
	return 2
}

// setYAML writes one member of our element of a list; it makes the element when
// the member is its name.
func setYAML(text string, e Edit) (string, error) {
	if len(e.At) != 2 || e.Key == "" {
		return "", errShape
	}
	text = cmp.Or(text, newYAML)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	from, to, own, end := servers(lines, e.At[0])
	pair := e.Key + ": " + renderYAML(e.Value)
	switch {
	case from < 0:
		return text + e.At[0] + ":\n  - " + pair + "\n", nil
	case own < 0:
		return strings.Join(slices.Insert(lines, to, strings.Repeat(" ", dashIndent(lines, from))+"- "+pair+"\n"), ""), nil
	}
	indent := strings.Repeat(" ", dashIndent(lines, from)+2)
	for i := own; i < end; i++ {
		if rest, ok := strings.CutPrefix(strings.Replace(lines[i], "- ", "  ", 1), indent+e.Key+":"); ok {
			stop := i + 1 // a value over several lines
			comment, err := remark(readYAML, e.Key+":"+rest, " \t")
			if err != nil {
				return "", err
			}
			for stop < end && strings.TrimSpace(strings.TrimSuffix(rest, comment)) == "" && strings.HasPrefix(lines[stop], indent+" ") {
				if strings.Contains(lines[stop], "#") {
					return "", ErrByHand // most likely a comment
				}
				stop++
			}
			lines[i] = lines[i][:strings.Index(lines[i], e.Key)] + pair + comment
			return strings.Join(slices.Delete(lines, i+1, stop), ""), nil
		}
	}
	return strings.Join(slices.Insert(lines, end, indent+pair+"\n"), ""), nil
}

func unsetYAML(text string, at []string) string {
	lines := strings.SplitAfter(text, "\n")
	from, to, own, end := servers(lines, at[0])
	switch {
	case own < 0:
		return text
	case own == from+1 && end == to:
		own = from
	}
	return strings.Join(slices.Delete(lines, own, end), "")
}

// renderYAML writes a string, or a list on one line. JSON is YAML; a plain word
// needs no quotes.
func renderYAML(v any) string {
	if s, ok := v.(string); ok && s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '/'
	}) < 0 && s != "true" && s != "false" && s != "null" && s[0] != '-' {
		return s
	}
	return renderJSON(v, "", false)
}
