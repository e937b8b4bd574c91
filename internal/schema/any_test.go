package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

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
			if string(got) != text {
				t.Errorf("%d: %s became %s", i, text, got)
			}
		}
		out, err := schema.Reply(anySample{Data: s.Data}, "")
		if want := `{"name":"","data":` + text + `}`; err != nil || string(out) != want {
			t.Errorf("%s %v, want %s", out, err, want)
		}
		if all, err := json.Marshal(s); err != nil || !json.Valid(all) {
			t.Errorf("%s %v", all, err)
		}
	}
	out, err := schema.Reply(anySample{}, "")
	if err != nil || string(out) != `{"name":"","data":null}` {
		t.Errorf("%s %v", out, err)
	}
	for _, bad := range []string{`{`, `NaN`, `1 2`, `1},"x":{`, ` `} {
		if out, err := schema.Reply(anySample{Data: json.RawMessage(bad)}, ""); err == nil {
			t.Errorf("%s was written: %s", bad, out)
		}
	}
	type plain struct {
		A string `json:"a"`
	}
	if out, err := schema.Reply(plain{"<"}, ""); err != nil || string(out) != `{"a":"\u003c"}` {
		t.Errorf("%s %v", out, err)
	}
}

// isProblem checks the problem of arguments, code "" for none.
func isProblem(t *testing.T, args string, into any, code, argument string) {
	t.Helper()
	_, err := schema.Decode(context.Background(), []byte(args), into)
	var p *schema.Problem
	errors.As(err, &p)
	if p == nil {
		p = &schema.Problem{}
	}
	if (err != nil) != (code != "") || p.Code != code || p.Argument != argument {
		t.Errorf("%.80s: %v", args, err)
	}
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
	if _, err := schema.Decode(context.Background(), []byte(`{"data":0}`), &s); err != nil || s.More != nil || s.Maybe != nil {
		t.Errorf("%+v %v", s, err)
	}
}

// content of any JSON is not the text of a file.
func TestAnyJSONNamedContentIsNoText(t *testing.T) {
	var s struct {
		Path    string          `json:"path" required:"true"`
		Content json.RawMessage `json:"content" required:"true"`
	}
	wire, err := schema.Decode(context.Background(), []byte(`{"path":"a.json","content":{"a": 1}}`), &s)
	if err != nil || len(wire.Notes) != 0 || string(s.Content) != `{"a": 1}` {
		t.Errorf("%s %v %v", s.Content, wire, err)
	}
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
		if !bytes.Contains(in, []byte(want)) {
			t.Errorf("%s\nhas no %s", in, want)
		}
	}
	out := schema.Output(reflect.TypeFor[nullable]())
	for _, want := range []string{
		`"data":` + all, `"maybe":` + all, `"n":{"type":["integer","null"]}`, `"word":{"type":["string","null"],"enum":["a","b",null]}`,
		`"flag":{"anyOf":[{"type":"boolean"},{"type":"string"},{"type":"null"}]}`,
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s\nhas no %s", out, want)
		}
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
		if json.Valid([]byte(text)) && string(s.Data) != strings.Trim(text, " \t\r\n") {
			t.Fatalf("%q became %q", text, s.Data)
		}
		if out, err := schema.Reply(s, ""); err != nil || string(out) != `{"data":`+string(s.Data)+`}` {
			t.Fatalf("%s %v", out, err)
		}
	})
}
