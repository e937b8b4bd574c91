package toolbox

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestExamplesSurviveTheCodec decodes and encodes an example of the arguments and of the
// reply of every tool, made from the published schemas: no member is lost, renamed or
// of another type. The bytes are text, then base64.
func TestExamplesSurviveTheCodec(t *testing.T) {
	var published struct {
		Tools []struct {
			Name                      string
			InputSchema, OutputSchema map[string]any
		}
	}
	raw, err := os.ReadFile("../spec/tools.schema.json")
	testbed.Require(t, err == nil && json.Unmarshal(raw, &published) == nil, "%v", err)
	types := map[string][2]reflect.Type{}
	for _, one := range table {
		types["rw_"+one.name] = [2]reflect.Type{one.in, one.out}
	}
	testbed.Require(t, len(published.Tools) == len(types), "%d tools are published, %d exist", len(published.Tools), len(types))
	for _, tool := range published.Tools {
		for i, shape := range []map[string]any{tool.InputSchema, replySchema(tool.OutputSchema)} {
			for _, encoding := range []string{"utf-8", "base64"} {
				want := exampleOf(shape, "", encoding)
				text := testbed.Must(json.Marshal(want))(t)
				into := reflect.New(types[tool.Name][i])
				wire, err := schema.Decode(context.Background(), text, into.Interface())
				if err != nil || wire.Malformed != nil {
					t.Errorf("%s: %v %v\n%s", tool.Name, err, wire.Malformed, text)
					continue
				}
				back, err := schema.Reply(into.Elem().Interface(), wire.Encoding)
				var got any
				if err != nil || json.Unmarshal(back, &got) != nil {
					t.Errorf("%s: %v\n%s", tool.Name, err, back)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", tool.Name, diff)
				}
			}
		}
	}
}

// replySchema returns the schema of a reply without what the struct of a tool does not
// have: ok, next steps, and the members that only a refusal has.
func replySchema(s map[string]any) map[string]any {
	props := map[string]any{}
	for name, p := range s["properties"].(map[string]any) {
		desc, _ := p.(map[string]any)["description"].(string)
		if name != "ok" && name != "next_actions" && !strings.HasPrefix(desc, "Errors only:") {
			props[name] = p
		}
	}
	return map[string]any{"type": "object", "properties": props}
}

var timeName = regexp.MustCompile(`^(at|ts|since|until)$|_at$|^(first|last)_(write|entry)$`)

// exampleOf returns a value that conforms to a schema, with every member. name is that
// of the member.
func exampleOf(s map[string]any, name, encoding string) any {
	if list, ok := s["anyOf"].([]any); ok {
		return exampleOf(list[0].(map[string]any), name, encoding)
	}
	kind := s["type"]
	if list, ok := kind.([]any); ok {
		kind = list[0]
	}
	switch kind {
	case "object":
		out := map[string]any{}
		props, _ := s["properties"].(map[string]any)
		for name, p := range props {
			out[name] = exampleOf(p.(map[string]any), name, encoding)
		}
		values, open := s["additionalProperties"].(map[string]any)
		switch {
		case name == "limits": // a struct that is shown as a map
			for name := range schema.Members(reflect.ValueOf(rw.Limits{})) {
				out[name] = exampleOf(values, name, encoding)
			}
		case open:
			out["<any>"] = exampleOf(values, "", encoding)
		}
		return out
	case "array":
		return []any{exampleOf(s["items"].(map[string]any), name, encoding)}
	case "integer":
		return max(3, number(s["minimum"]))
	case "number":
		return 1.25
	case "boolean":
		return true
	}
	enum, _ := s["enum"].([]any)
	switch {
	case slices.Contains(enum, any(encoding)):
		return encoding
	case enum != nil:
		return enum[0]
	case strings.HasSuffix(name, "sha256"), name == "chunk_hashes":
		return strings.Repeat("0f", 32)
	case timeName.MatchString(name):
		return "2026-01-31T09:05:07.120000Z"
	case encoding == "base64" && (name == "content" || name == "body"):
		return "/+8="
	}
	return "a <" + name + ">"
}

func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

// TestPartsOfATextEndBetweenCharacters: the part of a file that a reply holds
// as text never ends within a character, unless nothing follows it.
func TestPartsOfATextEndBetweenCharacters(t *testing.T) {
	for _, row := range []struct {
		content   string
		truncated bool
		want      string
		text      bool
	}{
		{"ab", true, "ab", true}, {"a\xe6\x97", true, "a", true}, {"a日", true, "a日", true}, {"a\xe6\x97", false, "a\xe6\x97", false},
		{"\xff", true, "\xff", false}, {"\x97\xa5b", true, "\x97\xa5b", false}, {"", true, "", true}, {"a\xf0\x9f\x98", true, "a", true},
	} {
		r := rw.ChunkPreviewResult{Content: []byte(row.content), Truncated: row.truncated}
		text := isText(&r)
		testbed.Expect(t, text == row.text && string(r.Content) == row.want, "%q: %q, text %v", row.content, r.Content, text)
	}
	testbed.Expect(t, isText(&rw.SafeWriteResult{}), "a reply without content cannot be sent")
}
