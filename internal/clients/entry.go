package clients

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Entry is a server of a configuration, independent of the client's names for its
// parts.
type Entry struct {
	Command []string
	Env     map[string]string
	Cwd     string
	URL     string
	Headers map[string]string
	Off     bool
}

// Entries are the servers in the text of a file of the client that are ours: by
// their name, or because they start our program.
func (c Client) Entries(text string) (map[string]Entry, error) {
	doc, err := Read(c.Format, text)
	if err != nil {
		return nil, err
	}
	for _, key := range c.At {
		doc, _ = doc[key].(map[string]any)
	}
	out := map[string]Entry{}
	for name, v := range doc {
		fields, _ := v.(map[string]any)
		e := entryOf(fields)
		own := len(e.Command) > 0 && program(e.Command[0]) == Program
		if fields != nil && (own || name == Server) {
			out[name] = e
		}
	}
	return out, nil
}

// program is the name of a command without its directory.
func program(command string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(command, `\`, "/")), ".exe")
}

func entryOf(fields map[string]any) (e Entry) {
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := fields[key].(string); ok {
			e.URL = url
		}
	}
	e.Command = words(fields["command"])
	e.Command = append(e.Command, words(fields["args"])...)
	e.Env, e.Headers = pairs(fields["env"]), pairs(fields["headers"])
	maps.Copy(e.Env, pairs(fields["environment"]))
	e.Cwd, _ = fields["cwd"].(string)
	if name, ok := fields["bearer_token_env_var"].(string); ok {
		e.Headers["Authorization"] = "Bearer ${" + name + "}"
	}
	e.Off = fields["enabled"] == false || fields["disabled"] == true
	return e
}

// words are a string, or a list of them.
func words(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
	}
	return list
}

func pairs(v any) map[string]string {
	out := map[string]string{}
	m, _ := v.(map[string]any)
	for key, value := range m {
		out[key] = fmt.Sprint(value)
	}
	return out
}

// In returns how the client starts an entry in a project: placeholders for the
// directory of the project are replaced.
func (e Entry) In(project string) (command string, args, env []string) {
	swap := strings.NewReplacer(claudeRoot, project, folder, project)
	for _, word := range e.Command {
		args = append(args, swap.Replace(word))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, name+"="+swap.Replace(e.Env[name]))
	}
	if len(args) == 0 {
		return "", nil, env
	}
	return args[0], args[1:], env
}

var variable = regexp.MustCompile(`\$?\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}`)

// HeadersFrom are the headers of an entry, with the variables that they name.
func (e Entry) HeadersFrom(env func(string) string) map[string]string {
	out := map[string]string{}
	for name, value := range e.Headers {
		out[name] = variable.ReplaceAllStringFunc(value, func(ref string) string { return env(variable.FindStringSubmatch(ref)[1]) })
	}
	return out
}

// Approves reports whether an edit is one that approves calls.
func (e Edit) Approves(c Client) bool {
	return slices.ContainsFunc(c.Approve, func(a Edit) bool { return a.Key == e.Key && a.Value == e.Value })
}

// Has reports whether an edit was made in a text.
func (c Client) Has(text string, e Edit) bool {
	doc, err := Read(c.Format, text)
	if err != nil {
		return false
	}
	value, err := canonical(e.Value)
	done, ok := put(doc, e, value)
	return err == nil && ok && done
}
