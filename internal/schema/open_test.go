package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
	if got.String() != want.String() {
		t.Errorf("%s\n%s", got.String(), want.String())
	}
	s.Extra = append(s.Extra, extra{"name", json.RawMessage(`"forged"`)}, extra{"z", json.RawMessage(`2`)})
	if again, err := schema.Encode(s); err != nil || !bytes.Equal(again, out) {
		t.Errorf("an unknown field replaced a known one: %s %v", again, err)
	}
	s.Extra = []extra{{"bad", json.RawMessage(`{`)}}
	if _, err := schema.Encode(s); err == nil {
		t.Error("what is not JSON was written")
	}
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
	if !doc.AdditionalProperties || !doc.Properties.Items.Items.AdditionalProperties || len(flag) != 2 || flag[0].Type != "boolean" || flag[1].Type != "string" || len(doc.Required) != 1 {
		t.Errorf("%s", raw)
	}
	if bytes.Contains(schema.Input(reflect.TypeFor[sample]()), []byte(`"additionalProperties":true`)) {
		t.Error("a closed struct is open")
	}
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
	if err != nil || string(doc) != want {
		t.Fatalf("%s %v", doc, err)
	}
	var back reply
	testbed.Must(schema.Decode(context.Background(), doc, &back))(t)
	if again, err := schema.Reply(back, ""); err != nil || string(again) != want {
		t.Errorf("%s %v", again, err)
	}
	var of struct {
		Properties map[string]struct{ Enum []string }
		Required   []string
	}
	testbed.NoErr(t, json.Unmarshal(schema.Input(reflect.TypeFor[reply]()), &of))
	if got := of.Properties["state"].Enum; len(got) != 2 || strings.Join(of.Required, " ") != "state sum at n record" {
		t.Errorf("%v %v", got, of.Required)
	}
}
