package toolbox

import (
	"encoding/json"
	"slices"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// EnvelopeSchema is the JSON Schema of the envelope of a refusal with its
// closed enums: that of full replies, version 1, of which
// spec/errors.schema.json is made.
func EnvelopeSchema() (json.RawMessage, error) {
	return envelopeSchema(rw.EnvelopeVersion, EnvelopeActions(), "reason", "code")
}

// BriefEnvelopeSchema is the same for brief replies, version 2. It has two
// actions more, and of the context only what repairs the call.
func BriefEnvelopeSchema() (json.RawMessage, error) {
	return envelopeSchema(briefVersion, rw.Actions(), "reason", "hint")
}

// EnvelopeActions lists the actions of version 1.
func EnvelopeActions() []rw.Action {
	return slices.DeleteFunc(rw.Actions(), func(a rw.Action) bool { return a == rw.ActionFixCall || a == rw.ActionReadAgain })
}

func envelopeSchema(version string, suggested []rw.Action, required ...string) (json.RawMessage, error) {
	text := schema.Object{{Key: "type", Value: "string"}}
	enum := func(list any) schema.Object {
		return append(append(schema.Object{}, text...), schema.Member{Key: "enum", Value: list})
	}
	count := func(limits ...schema.Member) schema.Object {
		return append(schema.Object{{Key: "type", Value: "integer"}, {Key: "minimum", Value: 0}}, limits...)
	}
	context := schema.Object{{Key: "type", Value: "object"}, {Key: "properties", Value: schema.Object{
		{Key: "reason", Value: enum(rw.Details())},
		{Key: "effect", Value: enum(rw.Effects())},
		{Key: "code", Value: count(schema.Member{Key: "maximum", Value: rw.CodePolicy})},
		{Key: "hint", Value: text}, {Key: "op", Value: text}, {Key: "path", Value: text}, {Key: "stage", Value: text},
		{Key: "tool", Value: text}, {Key: "invocation_id", Value: text},
	}}, {Key: "required", Value: required}, {Key: "additionalProperties", Value: true}}
	return schema.Encode(schema.Object{
		{Key: "$schema", Value: "http://json-schema.org/draft-07/schema#"},
		{Key: "title", Value: "resilientwrite error envelope"},
		{Key: "type", Value: "object"},
		{Key: "properties", Value: schema.Object{
			{Key: "ok", Value: schema.Object{{Key: "const", Value: false}}},
			{Key: "schema_version", Value: schema.Object{{Key: "const", Value: version}}},
			{Key: "error", Value: enum(rw.Kinds())},
			{Key: "reason_hint", Value: enum(rw.Reasons())},
			{Key: "detected_patterns", Value: schema.Object{{Key: "type", Value: "array"}, {Key: "items", Value: text}}},
			{Key: "suggested_action", Value: enum(suggested)},
			{Key: "retry_budget", Value: count()},
			{Key: "context", Value: context},
		}},
		{Key: "required", Value: schema.EnvelopeFields()},
		{Key: "additionalProperties", Value: false},
	})
}
