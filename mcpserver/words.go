package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	rw "github.com/resilientwrite/resilientwrite"
)

// Descriptions, hints and instructions name tools as the table does. If a
// server lists a tool under another name, its clients get that name, but only
// in the server's own texts: content of files and journals is not changed.

var toolName = regexp.MustCompile(`\brw_[a-z_]+\b`)

// words is a text of ours with the names that the tools have on this server.
func (set *toolset) words(text string) string {
	if set == nil || !set.renamed {
		return text
	}
	return toolName.ReplaceAllStringFunc(text, func(name string) string {
		if of, ok := set.find(name); ok && wireName(of.name, false) == name {
			return of.wire
		}
		return name
	})
}

// shown is what clients see of the tool.
func (of *offer) shown(p Preset) ToolInfo {
	info := of.info(p)
	info.Description = of.set.words(info.Description)
	info.Input = json.RawMessage(of.set.words(string(info.Input)))
	info.Output = json.RawMessage(of.set.words(string(info.Output)))
	return info
}

// hinted is a reply whose hints name the tools as this server does. Everything
// else in it stays as it is, to the letter.
func (set *toolset) hinted(r reply) reply {
	if !set.renamed {
		return r
	}
	if r.failed {
		r.doc = set.inside(r.doc, "context")
	} else {
		r.doc = set.wordsOf(r.doc)
	}
	return r
}

// ourWords are the members of a reply, and of the context of a refusal, that
// hold nothing but our words, and those in which there may be such members.
var (
	ourWords = []string{"hint", "note", "warnings"}
	around   = []string{"receipt", "recovery", "last_error", "results", "surface"}
)

// wordsOf puts the names into the members of an object that hold our words.
func (set *toolset) wordsOf(object json.RawMessage) json.RawMessage {
	for _, name := range ourWords {
		if start, end, ok := member(object, name); ok {
			object = splice(object, start, end, []byte(set.words(string(object[start:end]))))
		}
	}
	for _, name := range around {
		object = set.inside(object, name)
	}
	return object
}

// inside does the same for an object, or for each object of a list, that is a
// member.
func (set *toolset) inside(object json.RawMessage, name string) json.RawMessage {
	start, end, ok := member(object, name)
	if !ok {
		return object
	}
	var list []json.RawMessage
	if object[start] != '[' {
		return splice(object, start, end, set.wordsOf(object[start:end]))
	}
	if json.Unmarshal(object[start:end], &list) != nil {
		return object
	}
	for i, one := range list {
		list[i] = set.wordsOf(one)
	}
	out, err := json.Marshal(list)
	if err != nil {
		return object
	}
	return splice(object, start, end, out)
}

// told is an error as text for a client of this server.
func (h *host) told(e *rw.Error) error { return errors.New(h.set.words(told(e).Error())) }

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
