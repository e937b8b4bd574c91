package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// BriefInput is Input for callers that pay for each byte: the named arguments
// alone, each with the first sentence of its description. "list.name" keeps one
// field of the objects in list, without its description.
func BriefInput(t reflect.Type, names []string) json.RawMessage {
	return marshal(brief(t, names, true))
}

func brief(t reflect.Type, names []string, prose bool) Object {
	props, need := Object{}, []string{}
	for _, f := range fields(t).list {
		inner := below(names, f.name)
		if !slices.Contains(names, f.name) && inner == nil {
			continue
		}
		f.desc, _, _ = strings.Cut(f.desc, ". ")
		f.desc = strings.TrimSuffix(f.desc, ".")
		if !prose {
			f.desc = ""
		}
		f.maxLen = 0 // the server says so in time
		p := property(f)
		for i, m := range p {
			switch {
			case m.Key == "items" && inner != nil:
				p[i].Value = brief(base(f.typ).Elem(), inner, false)
			case m.Key == "items":
				p[i].Value = WithoutDescriptions(marshal(m.Value))
			}
		}
		props = append(props, Member{f.name, p})
		if f.required {
			need = append(need, f.name)
		}
	}
	out := Object{{"type", "object"}, {"properties", props}}
	if len(need) > 0 {
		out = append(out, Member{"required", need})
	}
	return append(out, Member{"additionalProperties", false})
}

// below are the names behind "prefix.".
func below(names []string, prefix string) []string {
	var list []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix+"."); ok {
			list = append(list, rest)
		}
	}
	return list
}

// BriefOutput is the least that is true of every reply.
func BriefOutput() json.RawMessage {
	return marshal(Object{
		{"type", "object"},
		{"properties", Object{{"ok", Object{{"type", "boolean"}}}}},
		{"required", []string{"ok"}},
		{"additionalProperties", true},
		{"anyOf", []Object{
			{{"properties", Object{{"ok", Object{{"const", true}}}}}},
			{{"properties", Object{{"ok", Object{{"const", false}}}}}, {"required", EnvelopeFields()}},
		}},
	})
}

// WithoutDescriptions is a schema without its prose. The order of the members
// stays.
func WithoutDescriptions(doc json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	strip(&out, doc, false)
	return out.Bytes()
}

// strip copies doc without the descriptions. names says that the members of
// doc are names of properties: one of them may be called description.
func strip(out *bytes.Buffer, doc json.RawMessage, names bool) {
	doc = bytes.TrimSpace(doc)
	switch {
	case len(doc) > 0 && doc[0] == '{':
		d := decoder{ctx: context.Background()}
		ms, err := d.split(doc)
		if err != nil {
			panic(err) // the schemas are ours
		}
		out.WriteByte('{')
		first := true
		for _, m := range ms.list {
			if m.Key == "description" && !names {
				continue
			}
			if !first {
				out.WriteByte(',')
			}
			first = false
			out.Write(marshal(m.Key))
			out.WriteByte(':')
			strip(out, m.Value.(json.RawMessage), m.Key == "properties" && !names)
		}
		out.WriteByte('}')
	case len(doc) > 0 && doc[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(doc, &list); err != nil {
			panic(err)
		}
		out.WriteByte('[')
		for i, one := range list {
			if i > 0 {
				out.WriteByte(',')
			}
			strip(out, one, false)
		}
		out.WriteByte(']')
	default:
		out.Write(doc)
	}
}
