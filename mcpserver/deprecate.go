package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Deprecation says that a tool is going away. The versions are those of the
// surface, [SchemaVersion].
type Deprecation struct {
	Since       string // the version that first says so
	Replacement string // the tool to use instead, without the prefix
	RemoveIn    string // the first version without the tool
}

// deprecated marks a line of the table: the tool works as before, its
// description begins with what to use instead, each call warns of it in the
// reply and in the log, and describe tells it. docs/governance.md says how long
// it must stay.
func deprecated(t tool, d Deprecation) tool {
	t.deprecated = &d
	t.description = fmt.Sprintf("Deprecated: use %s; this tool will be removed in version %s of the surface. %s", wireName(d.Replacement, false), d.RemoveIn, t.description)
	return t
}

// use is the tool to use instead, "" when the tool stays.
func (d *Deprecation) use() string {
	if d == nil {
		return ""
	}
	return wireName(d.Replacement, false)
}

// fields are the fields that the reply of a deprecated tool has besides its
// own: the warnings, where it has none.
func (d *Deprecation) fields(own json.RawMessage) []schema.Member {
	if d == nil {
		return nil
	}
	var out struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(own, &out) == nil && out.Properties["warnings"] != nil {
		return nil
	}
	return []schema.Member{schema.Field[[]rw.Warning]("warnings", "What you should know although the call succeeded.")}
}

// warned is a reply with the warning that the tool is going away: in warnings
// of a success, in context.warnings of a refusal. Everything else in it stays
// as it is, to the letter.
func (of *offer) warned(h *host, r reply) reply {
	if of.deprecated == nil {
		return r
	}
	use := of.deprecated.use()
	if other, ok := h.set.find(use); ok {
		use = other.wire // the name under which this server has it
	}
	h.log.Warn("a deprecated tool was called", "tool", of.wire, "use", use, "remove_in", of.deprecated.RemoveIn)
	w, err := json.Marshal(rw.Warning{
		Reason: rw.WarnToolDeprecated,
		Hint:   fmt.Sprintf("use %s; this tool will be removed in version %s of the surface", use, of.deprecated.RemoveIn),
	})
	if err != nil {
		return r
	}
	if !r.failed {
		r.doc = withItem(r.doc, "warnings", w)
		return r
	}
	if start, end, ok := member(r.doc, "context"); ok {
		r.doc = splice(r.doc, start, end, withItem(r.doc[start:end], "warnings", w))
	}
	return r
}

// withItem adds an item to a list that an object holds under a name, or the
// list. What is no object stays as it is.
func withItem(object json.RawMessage, name string, item []byte) json.RawMessage {
	list := append(append([]byte{'['}, item...), ']')
	if start, end, ok := member(object, name); ok {
		value := object[start:end]
		if value[0] == '[' && len(bytes.TrimSpace(value[1:len(value)-1])) > 0 {
			return splice(object, end-1, end-1, append([]byte{','}, item...))
		}
		return splice(object, start, end, list) // it was empty, or null
	}
	last := bytes.LastIndexByte(object, '}')
	if last < 0 || !json.Valid(object) || object[0] != '{' {
		return object
	}
	more := fmt.Appendf(nil, ",%q:%s", name, list)
	if len(bytes.TrimSpace(object[1:last])) == 0 { // it would be the first member
		more = more[1:]
	}
	return splice(object, last, last, more)
}

// member finds the value of a member of an object.
func member(object []byte, name string) (start, end int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return 0, 0, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, 0, false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return 0, 0, false
		}
		if end = int(dec.InputOffset()); key == name {
			return end - len(value), end, true
		}
	}
	return 0, 0, false
}

// splice puts other bytes in the place of some.
func splice(doc []byte, start, end int, with []byte) json.RawMessage {
	out := make([]byte, 0, len(doc)-(end-start)+len(with))
	return append(append(append(out, doc[:start]...), with...), doc[end:]...)
}
