package clients

import (
	"bytes"
	_ "embed" // the text below
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ErrByHand is the error of a file that cannot be edited without a risk for
// its other content.
var ErrByHand = errors.New("the file is written in a way that is not edited here")

// Read decodes a configuration. An empty text is an empty object. A list of
// servers, as YAML has it, is decoded as an object with their names as keys.
func Read(format Format, text string) (doc map[string]any, err error) {
	switch format {
	case TOML:
		doc, err = readTOML(text)
	case YAML:
		doc, err = readYAML(text)
	default:
		n, jerr := readJSON(text)
		if n == nil || jerr != nil {
			return map[string]any{}, jerr
		}
		if n.open != '{' {
			return nil, errShape
		}
		return n.decoded().(map[string]any), nil
	}
	if err != nil {
		return nil, err
	}
	same, err := canonical(doc)
	if doc, _ = same.(map[string]any); doc == nil {
		doc = map[string]any{}
	}
	return doc, err
}

// canonical is a value as encoding/json decodes it, numbers to the letter.
func canonical(v any) (out any, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&out)
	return out, err
}

// Set applies edits to a text and keeps every other byte. The values of the new text
// are compared with the requested ones: any other difference is [ErrByHand].
func Set(format Format, text string, edits []Edit) (string, error) {
	return withLF(text, func(text string) (string, error) { return set(format, text, edits) })
}

func set(format Format, text string, edits []Edit) (string, error) {
	want, err := Read(format, text)
	if err != nil {
		return "", err
	}
	out := text
	for _, e := range edits {
		value, err := canonical(e.Value)
		if err != nil {
			return "", err
		}
		done, ok := put(want, e, value)
		switch {
		case !ok:
			return "", errShape
		case done:
			continue
		}
		switch format {
		case TOML:
			out, err = setTOML(out, e)
		case YAML:
			out, err = setYAML(out, e)
		default:
			out, err = setJSON(out, e)
		}
		if err != nil {
			return "", err
		}
	}
	if format == YAML && text == "" {
		added, _ := readYAML(newYAML)
		maps.Copy(want, added)
	}
	return out, verify(format, out, want)
}

// withLF edits a text whose lines all end in CRLF as one with LF; the result has CRLF
// again. Any other text is edited as it is.
func withLF(text string, edit func(text string) (string, error)) (string, error) {
	if n := strings.Count(text, "\r\n"); n == 0 || n != strings.Count(text, "\n") || n != strings.Count(text, "\r") {
		return edit(text)
	}
	out, err := edit(strings.ReplaceAll(text, "\r\n", "\n"))
	return strings.ReplaceAll(out, "\n", "\r\n"), err
}

// put makes an edit of a decoded text. done reports that it was made before; ok
// is false where another value is in its place.
func put(doc map[string]any, e Edit, value any) (done, ok bool) {
	at, path := doc, e.At
	if e.Key == "" {
		path = e.At[:len(e.At)-1]
	}
	for _, key := range path {
		if at[key] == nil {
			at[key] = map[string]any{}
		}
		if at, ok = at[key].(map[string]any); !ok {
			return false, false
		}
	}
	if e.Key != "" {
		done = reflect.DeepEqual(at[e.Key], value)
		at[e.Key] = value
		return done, true
	}
	key := e.At[len(e.At)-1]
	list, isList := at[key].([]any)
	if at[key] != nil && !isList {
		return false, false
	}
	if slices.ContainsFunc(list, func(v any) bool { return reflect.DeepEqual(v, value) }) {
		return true, true
	}
	at[key] = append(list, value)
	return false, true
}

// Unset removes our entry, or the element of a list.
func Unset(format Format, text string, e Edit) (string, error) {
	return withLF(text, func(text string) (string, error) { return unset(format, text, e) })
}

func unset(format Format, text string, e Edit) (string, error) {
	want, err := Read(format, text)
	if err != nil {
		return "", err
	}
	out := text
	switch format {
	case TOML:
		out = unsetTOML(text, e.At, e.Key)
	case YAML:
		out = unsetYAML(text, e.At)
	default:
		if out, err = unsetJSON(text, e.At, e.Key, e.Value); err != nil {
			return "", err
		}
	}
	if !take(want, e.At, e) {
		return text, nil
	}
	if err := verify(format, out, want); err != nil {
		return "", err
	}
	if left := strings.TrimSpace(out); left == "{}" || out == newYAML {
		out = "" // nothing of the user's is left
	}
	return out, nil
}

// take removes what [Unset] removes from a decoded text, and reports whether it
// was there.
func take(at map[string]any, path []string, e Edit) bool {
	if len(path) == 0 {
		_, there := at[e.Key]
		delete(at, e.Key)
		return there
	}
	key := path[0]
	if list, isList := at[key].([]any); isList && len(path) == 1 && e.Key == "" {
		at[key] = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == e.Value })
		return len(at[key].([]any)) < len(list)
	}
	inner, ok := at[key].(map[string]any)
	return ok && take(inner, path[1:], e)
}

// verify compares the values of a text with the requested ones. Empty containers are
// treated as absent.
func verify(format Format, text string, want map[string]any) error {
	got, err := Read(format, text)
	if err != nil || !reflect.DeepEqual(bare(got), bare(want)) {
		return ErrByHand
	}
	return nil
}

// bare is a value without empty containers.
func bare(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, one := range v {
			if one = bare(one); one != nil {
				out[key] = one
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// Marks around our lines in an instruction file.
const (
	begin = "<!-- resilient-write: begin -->\n"
	end   = "<!-- resilient-write: end -->\n"
)

// SetLines puts our lines into a text: in the place of those that are there, or
// at the end.
func SetLines(text, lines string) (string, error) {
	return withLF(text, func(text string) (string, error) {
		from, to, err := ours(text)
		if err != nil {
			return "", err
		}
		block := begin + lines + end
		if from >= 0 {
			return text[:from] + block + text[to:], nil
		}
		return paragraph(text) + block, nil
	})
}

// paragraph is a text with its last line ended, and a blank line if it has any.
func paragraph(text string) string {
	if text == "" {
		return ""
	}
	return strings.TrimSuffix(text, "\n") + "\n\n"
}

// UnsetLines removes our lines, and the blank one before them.
func UnsetLines(text string) (string, error) {
	return withLF(text, func(text string) (string, error) {
		from, to, err := ours(text)
		if err != nil || from < 0 {
			return text, err
		}
		before := text[:from]
		if strings.HasSuffix(before, "\n\n") {
			before = before[:len(before)-1]
		}
		return before + text[to:], nil
	})
}

// ours is where our lines are; from is -1 when they are not there.
func ours(text string) (from, to int, err error) {
	ended := text + "\n" // an editor may have removed the last line end
	from, to = strings.Index(text, begin), strings.Index(ended, end)
	switch {
	case from < 0 && to < 0:
		return -1, -1, nil
	case from < 0 || to < from || strings.Count(text, begin) > 1 || strings.Count(ended, end) > 1:
		return -1, -1, fmt.Errorf("the lines that mark our part do not match: %w", ErrByHand)
	}
	return from, min(to+len(end), len(text)), nil
}

// Instructions are the lines that make an agent use the tools. They name
// tools of the default tier only.
//
//go:embed instructions.md
var Instructions string

// cursorRule begins a rule of Cursor that always applies.
const cursorRule = "---\nalwaysApply: true\n---\n\n"

// SetInstructions puts the instructions into the text of a file.
func SetInstructions(name, text string) (string, error) {
	if text == "" && strings.HasSuffix(name, ".mdc") {
		text = cursorRule
	}
	return SetLines(text, Instructions)
}

// UnsetInstructions removes them.
func UnsetInstructions(text string) (string, error) {
	text, err := UnsetLines(text)
	if strings.TrimSpace(text) == strings.TrimSpace(cursorRule) {
		text = ""
	}
	return text, err
}
