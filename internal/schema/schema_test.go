package schema_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
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
		testbed.Equal(t, isProblem(t, row.args, &sample{}, row.code, row.argument).DidYouMean, row.mean, row.args)
	}
	var s sample
	wire, err := schema.Decode(context.Background(), []byte(`{"path":"a.JSON","content":{"b":1,"a":[2]}}`), &s)
	testbed.Expect(t, err == nil && len(wire.Notes) == 1 && string(s.Content) == "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}\n",
		"%v %v %q", err, wire, s.Content)
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
		testbed.Expect(t, p.Code == row.code && p.Argument == row.argument && len(p.Error()) <= 200, "%s: %.200v", name, err)
	}
	_, err := schema.Decode(context.Background(), []byte(`{"pth":1,"path":"a","`+strings.Repeat("x", 1000)+`":1,"y":1,"z":1,"description":""}`), new(call))
	_, plain := schema.Decode(context.Background(), []byte(`{"limit":1}`), new(call))
	want := "unknown argument limit; take path, content, tags, data"
	testbed.Expect(t, plain != nil && plain.Error() == want, "%v, want %s", plain, want)
	want = "unknown argument pth, did you mean path; unknown argument " + strings.Repeat("x", 60) + "…; unknown argument y; and 1 more"
	testbed.Expect(t, err != nil && err.Error() == want, "%v, want %s", err, want)
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
		_, err := schema.Decode(l, args, new(sample))
		testbed.Require(t, err == context.Canceled && l.n == -1, "canceled at look %d: %v, %d looks after it", n, err, -1-l.n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"path":"a","n":3}`))
	f.Add([]byte(`{"path":"\ud800\udc00","tags":["a",null]}`))
	f.Fuzz(func(t *testing.T, args []byte) {
		var s sample
		if _, err := schema.Decode(context.Background(), args, &s); err != nil {
			var p *schema.Problem
			testbed.Require(t, errors.As(err, &p) && p.Error() != "", "%v", err)
			return
		}
		testbed.Require(t, utf8.ValidString(s.Path) && (s.N == 0 || s.N >= 1 && s.N <= 10), "%+v", s)
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
			_, ok := m["additionalProperties"]
			testbed.Expect(t, ok, "%s is open", at)
		case "array":
			_, ok := m["items"]
			testbed.Expect(t, ok, "%s has no items", at)
		}
		for k, x := range m {
			walk(x, at+"/"+k)
		}
	}
	for _, raw := range []json.RawMessage{schema.Input(reflect.TypeFor[sample]()), schema.Output(reflect.TypeFor[sample]())} {
		v := testbed.Decoded[any](t, raw)
		walk(v, "")
	}
}

// FuzzLinear: reading arguments, also those that are kept as they are, and
// writing them again takes work in proportion to their length.
func FuzzLinear(f *testing.F) {
	type op struct {
		Name  string  `json:"name" required:"true"`
		Extra []extra `json:"-" extra:"true"`
	}
	type call struct {
		Path    string          `json:"path"`
		Content []byte          `json:"content"`
		Mode    string          `json:"mode" enum:"create,overwrite"`
		N       int             `json:"n"`
		Tags    []string        `json:"tags"`
		Ops     []op            `json:"ops"`
		Data    json.RawMessage `json:"data"`
		Extra   []extra         `json:"-" extra:"true"`
	}
	seeds := []string{`{"name":"a","k#":1},`, `"",`, `1,`, `{"path":`, `9`, `[{"data": … }]`}
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, seeds, func(text []byte) int {
		piece := string(text)
		quoted, _ := json.Marshal(piece)
		for _, args := range []string{
			piece, "{" + piece + `"z":1}`, `{"data":` + piece + `}`, `{"data":[` + piece + `1]}`, `{"data":{` + piece + `"z":1}}`,
			`{"path":"a.json","content":[` + piece + `1]}`, `{"path":` + string(quoted) + `}`, `{` + string(quoted) + `:1}`, `{"mode":` + string(quoted) + `}`,
			`{"tags":[` + piece + `""]}`, `{"ops":[` + piece + `{"name":""}]}`, `{"n":` + piece + `}`, `{"ops":[{"name":"",` + piece + `"z":1}]}`,
		} {
			var c call
			if _, err := schema.Decode(context.Background(), []byte(args), &c); err != nil {
				_ = err.Error()
			} else {
				schema.Encode(c)
			}
			schema.Decode(context.Background(), []byte(args), new(sample))
		}
		schema.Closest(piece, []string{"rw_safe_write", "rw_edit"})
		return 0
	})
}

type extra struct {
	Name  string
	Value json.RawMessage
}

type item struct {
	ID    string  `json:"id" required:"true"`
	Extra []extra `json:"-" extra:"true"`
}

// toggle reads true, false or a word.
type toggle string

func (t *toggle) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	*t = toggle(data)
	return nil
}

type openSample struct {
	Name  string   `json:"name"`
	Items []item   `json:"items,omitempty"`
	Flag  toggle   `json:"flag,omitempty" types:"boolean,string"`
	Tags  []string `json:"tags,omitempty"`
	Extra []extra  `json:"-" extra:"true"`
}

func (i item) MarshalJSON() ([]byte, error) { return schema.Encode(i) }

// TestOpenStructsKeepWhatIsUnknown: in order, at every level, and back again.
func TestOpenStructsKeepWhatIsUnknown(t *testing.T) {
	var s openSample
	const in = `{"z":{"b":1.10,"a":[]},"name":"n","description":"kept","items":[{"y":1,"id":"i","x":null}],"a":"<&>"}`
	testbed.Must(schema.Decode(context.Background(), []byte(in), &s))(t)
	out := testbed.Must(schema.Encode(s))(t)
	var want, got bytes.Buffer
	json.Compact(&got, out)
	json.Compact(&want, []byte(`{"name":"n","items":[{"id":"i","y":1,"x":null}],"z":{"b":1.10,"a":[]},"description":"kept","a":"<&>"}`))
	testbed.Equal(t, got.String(), want.String())
	s.Extra = append(s.Extra, extra{"name", json.RawMessage(`"forged"`)}, extra{"z", json.RawMessage(`2`)})
	again, err := schema.Encode(s)
	testbed.Expect(t, err == nil && bytes.Equal(again, out), "an unknown field replaced a known one: %s %v", again, err)
	s.Extra = []extra{{"bad", json.RawMessage(`{`)}}
	_, err = schema.Encode(s)
	testbed.Expect(t, err != nil, "what is not JSON was written")
}

func TestOpenStructsAreStrictWhereTheyKnow(t *testing.T) {
	for _, row := range []struct{ args, code, argument string }{
		{`{"name":7}`, schema.Type, "name"}, {`{"items":[{"x":1}]}`, schema.Missing, "items[0].id"}, {`{"items":[{"id":"a","id":"b"}]}`, schema.Duplicate, "items[0].id"},
		{`{"x":1,"x":2}`, schema.Duplicate, "x"}, {`{"flag":1}`, schema.Type, "flag"}, {`{"flag":{}}`, schema.Type, "flag"}, {`{"flag":[]}`, schema.Type, "flag"},
		{`{"flag":"\ud800"}`, schema.UTF8, "flag"}, {`{"flag":true}`, "", ""}, {`{"flag":"x"}`, "", ""}, {`{"flag":null}`, "", ""}, {`{}`, "", ""},
	} {
		isProblem(t, row.args, new(openSample), row.code, row.argument)
	}
}

// TestOpenStructsSayThatTheyAreOpen and others that they are not; a field that
// takes two types says which.
func TestOpenStructsSayThatTheyAreOpen(t *testing.T) {
	raw := schema.Input(reflect.TypeFor[openSample]())
	var doc struct {
		Properties struct {
			Items struct {
				Items struct{ AdditionalProperties bool }
			}
			Flag struct{ AnyOf []struct{ Type string } }
		}
		Required             []string
		AdditionalProperties bool
	}
	testbed.NoErr(t, json.Unmarshal(raw, &doc))
	flag := doc.Properties.Flag.AnyOf
	testbed.Expect(t, doc.AdditionalProperties && doc.Properties.Items.Items.AdditionalProperties && len(flag) == 2 && flag[0].Type == "boolean" &&
		flag[1].Type == "string" && len(doc.Required) == 1, "%s", raw)
	testbed.Expect(t, !bytes.Contains(schema.Input(reflect.TypeFor[sample]()), []byte(`"additionalProperties":true`)), "a closed struct is open")
}

type Record struct {
	ID    string `json:"id"`
	State string `json:"state" enum:"new,old,lost" copied:"2"`
	Sum   string `json:"sum,omitzero"`
	Row   string `json:"row,omitempty"`
	At    string `json:"-" copy:"at"`
}

// TestCopies: fields of an embedded struct that is a field too are fields of the
// struct around it where its tag names them.
func TestCopies(t *testing.T) {
	type reply struct {
		Record `json:"record" copies:"state,sum,row,at"`
		N      int `json:"n"`
	}
	const want = `{"state":"new","sum":"","at":"now","n":1,"record":{"id":"i","state":"new"}}`
	doc, err := schema.Reply(reply{Record: Record{ID: "i", State: "new", At: "now"}, N: 1}, "")
	testbed.Require(t, err == nil && string(doc) == want, "%s %v", doc, err)
	var back reply
	testbed.Must(schema.Decode(context.Background(), doc, &back))(t)
	testbed.Equal(t, string(testbed.Must(schema.Reply(back, ""))(t)), want)
	var of struct {
		Properties map[string]struct{ Enum []string }
		Required   []string
	}
	testbed.NoErr(t, json.Unmarshal(schema.Input(reflect.TypeFor[reply]()), &of))
	got := of.Properties["state"].Enum
	testbed.Expect(t, len(got) == 2 && strings.Join(of.Required, " ") == "state sum at n record", "%v %v", got, of.Required)
}

type anySample struct {
	Name   string            `json:"name"`
	Data   json.RawMessage   `json:"data" required:"true" desc:"Anything."`
	More   json.RawMessage   `json:"more,omitempty" default:"[]"`
	Maybe  *json.RawMessage  `json:"maybe,omitempty"`
	List   []json.RawMessage `json:"list,omitempty"`
	Within *anyWithin        `json:"within,omitempty"`
}

type anyWithin struct {
	Data json.RawMessage `json:"data" required:"true"`
}

var anyValues = []string{
	`null`, `true`, `false`, `0`, `-0`, `-0.0`, `1e400`, `1E+2`, `123456789012345678901234567890.10`, `""`, `{}`, `[]`,
	`{"z":1,"a":2,"z":{"b":1.10,"b":2}}`, "{\n\t\"a\" :  [ 1 ,\r\n 2 ]\n}", `"\u0041\/<>&\ud83d\ude00😀"`, `{"\ud83d\ude00":"\\ud800"}`, "\"\u2028\"",
}

// TestAnyJSONIsKeptToTheLetter: digits, blanks, the order of keys, keys that
// stand twice, escapes; what came in goes out.
func TestAnyJSONIsKeptToTheLetter(t *testing.T) {
	for _, text := range anyValues {
		args := []byte(`{"name":"n","data": ` + text + ` ,"more":` + text + `,"maybe":` + text + `,"list":[` + text + `, ` + text + `],"within":{"data":` + text + `}}`)
		var s anySample
		if _, err := schema.Decode(context.Background(), args, &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for i := range args { // what was read is no part of the arguments
			args[i] = 'x'
		}
		for i, got := range []json.RawMessage{s.Data, s.More, *s.Maybe, s.List[0], s.List[1], s.Within.Data} {
			testbed.Expect(t, string(got) == text, "%d: %s became %s", i, text, got)
		}
		out, err := schema.Reply(anySample{Data: s.Data}, "")
		want := `{"name":"","data":` + text + `}`
		testbed.Expect(t, err == nil && string(out) == want, "%s %v, want %s", out, err, want)
		all, err := json.Marshal(s)
		testbed.Expect(t, err == nil && json.Valid(all), "%s %v", all, err)
	}
	testbed.Equal(t, string(testbed.Must(schema.Reply(anySample{}, ""))(t)), `{"name":"","data":null}`)
	for _, bad := range []string{`{`, `NaN`, `1 2`, `1},"x":{`, ` `} {
		out, err := schema.Reply(anySample{Data: json.RawMessage(bad)}, "")
		testbed.Expect(t, err != nil, "%s was written: %s", bad, out)
	}
	type plain struct {
		A string `json:"a"`
	}
	testbed.Equal(t, string(testbed.Must(schema.Reply(plain{"<"}, ""))(t)), `{"a":"\u003c"}`)
}

// isProblem checks the problem of arguments, code "" for none.
func isProblem(t *testing.T, args string, into any, code, argument string) *schema.Problem {
	t.Helper()
	_, err := schema.Decode(context.Background(), []byte(args), into)
	var p *schema.Problem
	errors.As(err, &p)
	p = cmp.Or(p, &schema.Problem{})
	testbed.Expect(t, (err != nil) == (code != "") && p.Code == code && p.Argument == argument, "%.80s: %v, want %s of %s", args, err, code, argument)
	return p
}

func TestAnyJSONIsStillJSON(t *testing.T) {
	for _, row := range []struct{ args, code, argument string }{
		{`{}`, schema.Missing, "data"}, {``, schema.Missing, "data"}, {`{"data":1,"within":{}}`, schema.Missing, "within.data"},
		{`{"data":null}`, "", ""}, {`{"data":1,"within":{"data":null}}`, "", ""}, {`{"data":1,"within":null}`, "", ""},
		{`{"data":1,"data":1}`, schema.Duplicate, "data"},
		{`{"data":NaN}`, schema.Syntax, ""}, {`{"data":-Infinity}`, schema.Syntax, ""}, {`{"data":}`, schema.Syntax, ""}, {`{"data":01}`, schema.Syntax, ""},
		{`{"data":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, schema.Syntax, ""},
		{`{"data":"\ud800"}`, schema.UTF8, "data"}, {`{"data":{"a":["\udc00"]}}`, schema.UTF8, "data"}, {`{"data":{"\ud83d":1}}`, schema.UTF8, "data"},
		{`{"data":["\ud83d","\ude00"]}`, schema.UTF8, "data"}, {`{"data":1,"list":["\ud83d"]}`, schema.UTF8, "list[0]"},
		{"{\"data\":\"\xff\"}", schema.UTF8, "arguments"}, {"{\"data\":\"\xed\xa0\x80\"}", schema.UTF8, "arguments"},
	} {
		isProblem(t, row.args, new(anySample), row.code, row.argument)
	}
	var s anySample
	_, err := schema.Decode(context.Background(), []byte(`{"data":0}`), &s)
	testbed.Expect(t, err == nil && s.More == nil && s.Maybe == nil, "%+v %v", s, err)
}

// content of any JSON is not the text of a file.
func TestAnyJSONNamedContentIsNoText(t *testing.T) {
	var s struct {
		Path    string          `json:"path" required:"true"`
		Content json.RawMessage `json:"content" required:"true"`
	}
	wire, err := schema.Decode(context.Background(), []byte(`{"path":"a.json","content":{"a": 1}}`), &s)
	testbed.Expect(t, err == nil && len(wire.Notes) == 0 && string(s.Content) == `{"a": 1}`, "%s %v %v", s.Content, wire, err)
}

type nullable struct {
	Data  json.RawMessage  `json:"data"`
	Maybe *json.RawMessage `json:"maybe"`
	N     *int             `json:"n"`
	Word  *string          `json:"word" enum:"a,b"`
	Flag  *toggle          `json:"flag" types:"boolean,string"`
}

// TestSchemaOfAnyJSON names every type; what may be null says so once.
func TestSchemaOfAnyJSON(t *testing.T) {
	const all = `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"object","additionalProperties":true},{"type":"array","items":{}}]}`
	described := strings.TrimSuffix(all, "}") + `,"description":"Anything."}`
	in := schema.Input(reflect.TypeFor[anySample]())
	for _, want := range []string{`"data":` + described, `"maybe":` + all, `"list":{"type":"array","items":` + all + `}`, `"required":["data"]`, strings.TrimSuffix(all, "}") + `,"default":[]}`} {
		testbed.Expect(t, bytes.Contains(in, []byte(want)), "%s\nhas no %s", in, want)
	}
	out := schema.Output(reflect.TypeFor[nullable]())
	for _, want := range []string{
		`"data":` + all, `"maybe":` + all, `"n":{"type":["integer","null"]}`, `"word":{"type":["string","null"],"enum":["a","b",null]}`,
		`"flag":{"anyOf":[{"type":"boolean"},{"type":"string"},{"type":"null"}]}`,
	} {
		testbed.Expect(t, bytes.Contains(out, []byte(want)), "%s\nhas no %s", out, want)
	}
}

func FuzzAnyJSON(f *testing.F) {
	for _, text := range anyValues {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s anyWithin
		if _, err := schema.Decode(context.Background(), []byte(`{"data":`+text+`}`), &s); err != nil {
			return
		}
		testbed.Require(t, !json.Valid([]byte(text)) || string(s.Data) == strings.Trim(text, " \t\r\n"), "%q became %q", text, s.Data)
		out, err := schema.Reply(s, "")
		testbed.Require(t, err == nil && string(out) == `{"data":`+string(s.Data)+`}`, "%s %v", out, err)
	})
}
