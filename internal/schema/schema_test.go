package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

type sample struct {
	Path    string   `json:"path" required:"true"`
	Content []byte   `json:"content,omitempty"`
	Mode    string   `json:"mode,omitempty" enum:"create,overwrite"`
	N       int      `json:"n,omitempty" min:"1" max:"10"`
	Seq     *uint64  `json:"seq,omitempty"`
	Deep    bool     `json:"deep,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Name    string   `json:"name,omitempty" maxlen:"3"`
}

func TestDecode(t *testing.T) {
	for _, row := range []struct{ args, code, argument, mean string }{
		{`{"path":"a"}`, "", "", ""}, {`{"path":"a","description":"why"}`, "", "", ""}, {`{"path":"a","n":3.0,"seq":1e3,"deep":true,"tags":["x"]}`, "", "", ""},
		{`{"path":"a","mode":null}`, "", "", ""}, {`{"path":"\ud83d\ude00"}`, "", "", ""}, {`{"path":"a\\ud800"}`, "", "", ""},
		{`{}`, schema.Missing, "path", ""}, {``, schema.Missing, "path", ""}, {`null`, schema.Missing, "path", ""}, {`{"path":null}`, schema.Missing, "path", ""},
		{`[]`, schema.Syntax, "", ""}, {`"x"`, schema.Syntax, "", ""}, {`{"path":"a"} {}`, schema.Syntax, "", ""}, {`{"path":"a"`, schema.Syntax, "", ""},
		{`{"path":"a","pth":"b"}`, schema.Unknown, "pth", "path"}, {`{"path":"a","zzzzzz":1}`, schema.Unknown, "zzzzzz", ""}, {`{"zzzzzz":1}`, schema.Unknown, "zzzzzz", "path"}, {`{"file":null,"zzzzzz":1}`, schema.Unknown, "file", "path"},
		{`{"path":"a","path":"b"}`, schema.Duplicate, "path", ""}, {`{"path":7}`, schema.Type, "path", ""}, {`{"path":{"a":1}}`, schema.Type, "path", ""},
		{`{"path":"a","mode":"overwite"}`, schema.Enum, "mode", "overwrite"}, {`{"path":"a","n":0}`, schema.Range, "n", ""}, {`{"path":"a","n":11}`, schema.Range, "n", ""},
		{`{"path":"a","n":1.5}`, schema.Type, "n", ""}, {`{"path":"a","n":1e999}`, schema.Type, "n", ""}, {`{"path":"a","n":"1"}`, schema.Type, "n", ""},
		{`{"path":"a","seq":-1}`, schema.Range, "seq", ""}, {`{"path":"a","deep":"yes"}`, schema.Type, "deep", ""}, {`{"path":"a","tags":"x"}`, schema.Type, "tags", ""},
		{`{"path":"a","tags":[1]}`, schema.Type, "tags[0]", ""}, {`{"path":"a","name":"abcd"}`, schema.Range, "name", ""},
		{`{"path":"\ud800"}`, schema.UTF8, "path", ""}, {`{"path":"\udc00\ud800"}`, schema.UTF8, "path", ""}, {"{\"path\":\"\xff\"}", schema.UTF8, "arguments", ""},
		{`{"path":"a.txt","content":{"a":1}}`, schema.Type, "content", ""},
	} {
		var s sample
		_, err := schema.Decode(context.Background(), []byte(row.args), &s)
		var p *schema.Problem
		errors.As(err, &p)
		if p == nil {
			p = &schema.Problem{}
		}
		if (err != nil) != (row.code != "") || p.Code != row.code || p.Argument != row.argument || p.DidYouMean != row.mean {
			t.Errorf("%s: %+v, want %s of %s, mean %s", row.args, p, row.code, row.argument, row.mean)
		}
	}
	var s sample
	wire, err := schema.Decode(context.Background(), []byte(`{"path":"a.JSON","content":{"b":1,"a":[2]}}`), &s)
	if err != nil || len(wire.Notes) != 1 || string(s.Content) != "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}\n" {
		t.Errorf("%v %v %q", err, wire, s.Content)
	}
}

// TestBoundsOfACall: members and items are bounded, opaque values are not, and
// an error lists the first unknown names only.
func TestBoundsOfACall(t *testing.T) {
	type call struct {
		Path    string          `json:"path"`
		Content []byte          `json:"content"`
		Tags    []string        `json:"tags"`
		Data    json.RawMessage `json:"data"`
	}
	members := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"k%d":1`, i)
		}
		return strings.Join(list, ",")
	}
	items := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"",`, n), ",") }
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, row := range map[string]struct{ args, code, argument string }{
		"members":    {`{` + members(schema.MaxMembers+1) + `}`, schema.TooMany, ""},
		"unknown":    {`{` + members(schema.MaxMembers) + `}`, schema.Unknown, "k0"},
		"opaque":     {`{"data":{` + members(4*schema.MaxMembers) + `}}`, "", ""},
		"items":      {`{"tags":[` + items(schema.MaxItems) + `]}`, "", ""},
		"many items": {`{"tags":[` + items(schema.MaxItems+1) + `]}`, schema.TooMany, "tags"},
		"no items":   {`{"tags":[ ]}`, "", ""},
		"brackets":   {`{"tags":["` + strings.Repeat(`[,\",`, schema.MaxItems) + `"]}`, "", ""},
		"content":    {`{"path":"a.json","content":{` + members(4*schema.MaxMembers) + `}}`, "", ""},
		"deep":       {`{"path":"a.json","content":` + nested(schema.MaxDepth) + `}`, "", ""},
		"deeper":     {`{"path":"a.json","content":` + nested(schema.MaxDepth+1) + `}`, schema.TooLarge, "content"},
		"indent": {`{"path":"a.json","content":` + strings.Repeat("[", 150) + "1" + strings.Repeat(",1", schema.MaxIndent/300) + strings.Repeat("]", 150) + `}`,
			schema.TooLarge, "content"},
	} {
		var c call
		_, err := schema.Decode(context.Background(), []byte(row.args), &c)
		p := &schema.Problem{}
		errors.As(err, &p)
		if p.Code != row.code || p.Argument != row.argument || len(p.Error()) > 200 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	_, err := schema.Decode(context.Background(), []byte(`{"pth":1,"path":"a","`+strings.Repeat("x", 1000)+`":1,"y":1,"z":1,"description":""}`), new(call))
	_, plain := schema.Decode(context.Background(), []byte(`{"limit":1}`), new(call))
	if want := "unknown argument limit; take path, content, tags, data"; plain == nil || plain.Error() != want {
		t.Errorf("%v, want %s", plain, want)
	}
	if want := "unknown argument pth, did you mean path; unknown argument " + strings.Repeat("x", 60) + "…; unknown argument y; and 1 more"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// looks is a context that is canceled from the nth check on
// at it.
type looks struct {
	context.Context
	n int
}

func (l *looks) Err() error {
	if l.n--; l.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestDecodeLooksAtItsContext: at whichever look the call is canceled, that is
// the last one, and the looks are never far apart.
func TestDecodeLooksAtItsContext(t *testing.T) {
	args := []byte(`{"tags":[` + strings.TrimSuffix(strings.Repeat(`"",`, 10_000), ",") + `]}`)
	for n := range 10_000 / 256 {
		l := &looks{context.Background(), n}
		if _, err := schema.Decode(l, args, new(sample)); err != context.Canceled || l.n != -1 {
			t.Fatalf("canceled at look %d: %v, %d looks after it", n, err, -1-l.n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"path":"a","n":3}`))
	f.Add([]byte(`{"path":"\ud800\udc00","tags":["a",null]}`))
	f.Fuzz(func(t *testing.T, args []byte) {
		var s sample
		if _, err := schema.Decode(context.Background(), args, &s); err != nil {
			var p *schema.Problem
			if !errors.As(err, &p) || p.Error() == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if !utf8.ValidString(s.Path) || s.N != 0 && (s.N < 1 || s.N > 10) {
			t.Fatalf("%+v", s)
		}
	})
}

// TestSchemasAreClosed: every object says which keys it has, every array what
// it holds.
func TestSchemasAreClosed(t *testing.T) {
	var walk func(v any, at string)
	walk = func(v any, at string) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		switch m["type"] {
		case "object":
			if _, ok := m["additionalProperties"]; !ok {
				t.Errorf("%s is open", at)
			}
		case "array":
			if _, ok := m["items"]; !ok {
				t.Errorf("%s has no items", at)
			}
		}
		for k, x := range m {
			walk(x, at+"/"+k)
		}
	}
	for _, raw := range []json.RawMessage{schema.Input(reflect.TypeFor[sample]()), schema.Output(reflect.TypeFor[sample]())} {
		var v any
		testbed.NoErr(t, json.Unmarshal(raw, &v))
		walk(v, "")
	}
}
