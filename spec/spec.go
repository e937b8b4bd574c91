// Package spec holds the formats of resilientwrite as documents: JSON Schemas
// made from the Go types, and the byte format of the journal, journal.md. It
// checks documents against them, so that a program that only reads or writes
// the formats needs nothing else of this module.
//
//	errors   the envelope of a refusal in full replies, [ValidateEnvelope]
//	errors.v2  that in brief replies
//	handoff  the envelope of a handoff, as JSON, [ValidateHandoff]
//	policy   the policy file, [ValidatePolicy] for the YAML
//	tools    the arguments and the replies of each tool, [ValidateArguments], [ValidateReply]
//
// The schemas are generated; a test fails when they are not fresh. They stay in
// what draft-07 and 2020-12 have in common, and none refers to another document.
//
// A document that does not conform is an [*Invalid], which lists what is wrong,
// where, in words that hold none of its values. Documents may come from anywhere:
// what is not one JSON value, has a name twice, a text that is not Unicode, or a
// number that cannot be held is refused before a schema sees it, and nothing is
// ever fetched. All functions may be called concurrently.
package spec

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

//go:generate go run ../internal/gen descriptions
//go:generate go run ../internal/gen

//go:embed *.schema.json
var files embed.FS

const suffix = ".schema.json"

// Names lists the embedded documents, sorted: errors, errors.v2,
// handoff, policy, tools.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // they are embedded
	}
	var list []string
	for _, e := range entries {
		list = append(list, strings.TrimSuffix(e.Name(), suffix))
	}
	return list
}

// Schema returns the document name.schema.json, one of [Names]. All but tools
// are JSON Schemas; tools is the list of tools with two schemas each.
func Schema(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("spec: there is no schema %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return files.ReadFile(name + suffix)
}

// Validate checks a JSON document against the schema name: errors, errors.v2,
// handoff or policy. An error that is no [*Invalid] says that there is no such schema.
func Validate(name string, doc []byte) error {
	return check(name, doc, func() ([]byte, error) {
		if name == "tools" {
			return nil, fmt.Errorf("spec: tools is a list; use ValidateArguments or ValidateReply")
		}
		return Schema(name)
	})
}

// ValidateEnvelope checks the envelope of a refusal: what a tool replies with
// ok false, and what an *Error of the library marshals to.
func ValidateEnvelope(doc []byte) error { return Validate("errors", doc) }

// ValidateHandoff checks the envelope of a handoff as JSON: the front matter
// of HANDOFF.md, and the argument envelope of rw_handoff_write. The tool also
// checks what a schema cannot say, such as cycles of dependency_graph.
func ValidateHandoff(doc []byte) error { return Validate("handoff", doc) }

// ValidatePolicy checks a policy file, YAML, as opening a store does: each
// mistake has a line and a column in its Path. Whether the rules that it names
// exist is known only to the store.
func ValidatePolicy(yaml []byte) error {
	_, problems := policyfile.Parse(yaml)
	if len(problems) == 0 {
		return nil
	}
	out := &Invalid{Document: "policy"}
	for _, p := range problems {
		text := p.Message
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		out.Problems = append(out.Problems, Problem{Path: fmt.Sprintf("line %d, column %d", p.Line, p.Column), Rule: p.Reason, Text: text})
	}
	return out
}

// Tools lists the tools whose arguments and replies can be checked, sorted, as
// they are called: rw_safe_write.
func Tools() []string {
	list := make([]string, 0, len(tools()))
	for name := range tools() {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// ValidateArguments checks the arguments of a call of a tool, which is named
// as in [Tools] or with a dot. A server is a little more lenient: it takes null
// for an argument that is not given, and ignores description.
func ValidateArguments(tool string, doc []byte) error {
	return check(toolName(tool)+" arguments", doc, func() ([]byte, error) {
		t, err := find(tool)
		return t.Input, err
	})
}

// ValidateReply checks what a tool replied, its structured content: the fields
// of the tool with ok true, or the envelope of a refusal, which is checked as
// [ValidateEnvelope] does.
func ValidateReply(tool string, doc []byte) error {
	t, err := find(tool)
	if err != nil {
		return err
	}
	var head struct {
		OK *bool `json:"ok"`
	}
	if json.Unmarshal(doc, &head) == nil && head.OK != nil && !*head.OK {
		return ValidateEnvelope(doc)
	}
	return check(toolName(tool)+" reply", doc, func() ([]byte, error) { return t.Output, nil })
}

// ValidateWith checks a document against a schema that is not embedded here. A
// schema with $ref is refused, so that nothing is ever fetched.
func ValidateWith(schema, doc []byte) error {
	c, err := Compile(schema)
	if err != nil {
		return err
	}
	return c.Validate(doc)
}

// Compiled is a schema that is ready to validate many documents.
type Compiled struct{ schema *gojsonschema.Schema }

// Compile prepares a schema that is not embedded here, under the same
// conditions as [ValidateWith].
func Compile(schema []byte) (*Compiled, error) {
	s, err := compile(schema)
	if err != nil {
		return nil, err
	}
	return &Compiled{s}, nil
}

// Validate checks a document. An error is an [*Invalid].
func (c *Compiled) Validate(doc []byte) error { return validate("document", c.schema, doc) }

// toolSchemas are the two schemas of a tool.
type toolSchemas struct {
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"inputSchema"`
	Output json.RawMessage `json:"outputSchema"`
}

var tools = sync.OnceValue(func() map[string]toolSchemas {
	data, err := Schema("tools")
	if err != nil {
		panic(err) // it is embedded
	}
	var doc struct{ Tools []toolSchemas }
	if err := json.Unmarshal(data, &doc); err != nil {
		panic(err)
	}
	byName := map[string]toolSchemas{}
	for _, t := range doc.Tools {
		byName[t.Name] = t
	}
	return byName
})

// toolName is the name of a tool as the list has it.
func toolName(tool string) string {
	if rest, ok := strings.CutPrefix(tool, "rw."); ok {
		return "rw_" + rest
	}
	return tool
}

func find(tool string) (toolSchemas, error) {
	t, ok := tools()[toolName(tool)]
	if !ok {
		return toolSchemas{}, fmt.Errorf("spec: there is no tool %s", quoted(tool))
	}
	return t, nil
}

var compiled sync.Map // what it is for, to *gojsonschema.Schema

// check validates against a schema that is compiled once.
func check(what string, doc []byte, schema func() ([]byte, error)) error {
	s, ok := compiled.Load(what)
	if !ok {
		data, err := schema()
		if err != nil {
			return err
		}
		if s, err = compile(data); err != nil {
			return err
		}
		compiled.Store(what, s)
	}
	return validate(what, s.(*gojsonschema.Schema), doc)
}

// compile prepares a schema. It is not trusted: a reference would be
// fetched, and a number that cannot be held would end the validator.
func compile(data []byte) (s *gojsonschema.Schema, err error) {
	defer func() {
		if v := recover(); v != nil {
			s, err = nil, errors.New("spec: the schema cannot be compiled")
		}
	}()
	value, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("spec: the schema: %w", err)
	}
	if refers(value) {
		return nil, errors.New("spec: a schema with $ref is not used")
	}
	loader := gojsonschema.NewSchemaLoader()
	loader.Draft, loader.AutoDetect, loader.Validate = gojsonschema.Draft7, false, true
	return loader.Compile(gojsonschema.NewRawLoader(value))
}

// refers reports whether a schema has a $ref anywhere.
func refers(v any) bool {
	switch v := v.(type) {
	case []any:
		if slices.ContainsFunc(v, refers) {
			return true
		}
	case map[string]any:
		for key, x := range v {
			if key == "$ref" || refers(x) {
				return true
			}
		}
	}
	return false
}

// validate checks a document. The validator has known ways to panic; one that
// is not known yet must not end the caller.
func validate(what string, s *gojsonschema.Schema, doc []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Invalid{Document: what, Problems: []Problem{{Rule: "unreadable", Text: "the document cannot be validated"}}}
		}
	}()
	value, err := decode(doc)
	if err != nil {
		return &Invalid{Document: what, Problems: []Problem{{Rule: "json", Text: err.Error()}}}
	}
	res, err := s.Validate(gojsonschema.NewRawLoader(value))
	if err != nil {
		return fmt.Errorf("spec: %s: %w", what, err)
	}
	if res.Valid() {
		return nil
	}
	return invalid(what, res.Errors())
}

// decode reads one JSON value strictly: nothing after it, no name twice, only
// Unicode, only numbers that the validator can hold.
func decode(doc []byte) (any, error) {
	if !utf8.Valid(doc) || schema.LoneSurrogate(doc) >= 0 {
		return nil, errors.New("not JSON: a text that is not Unicode")
	}
	if err := json.Unmarshal(doc, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset <= int64(len(doc)) && syntax.Offset > 0 {
			return nil, fmt.Errorf("not JSON: at byte %d", syntax.Offset)
		}
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return value(dec)
}

// value reads the next value of a document that is JSON, so that each token is there.
func value(dec *json.Decoder) (any, error) {
	tok, _ := dec.Token()
	switch tok {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := value(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		dec.Token()
		return list, nil
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			tok, _ := dec.Token()
			key, _ := tok.(string)
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("not JSON: the name %s is there twice", quoted(key))
			}
			v, err := value(dec)
			if err != nil {
				return nil, err
			}
			object[key] = v
		}
		dec.Token()
		return object, nil
	}
	if n, ok := tok.(json.Number); ok && !held(n) {
		return nil, errors.New("a number is out of range")
	}
	return tok, nil
}

// held reports whether the validator can hold a number: it computes with
// fractions, and an exponent of millions would end it.
func held(n json.Number) bool {
	_, exp, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return len(n) <= 1000 && len(strings.TrimLeft(exp, "+-0")) <= 3
}
