package policyfile

import "encoding/json"

// Schema returns the JSON Schema (draft-07) of a policy file. It is made from
// the table that the parser uses. What a schema cannot say (expressions that
// compile, thresholds in order, unique names) only [Parse] checks.
func Schema() []byte {
	root := policy.schema()
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "resilientwrite policy"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // the schema holds only maps, lists, texts and numbers
	}
	return append(out, '\n')
}

// schema returns the schema of one value.
func (s *spec) schema() map[string]any {
	out := map[string]any{}
	if s.about != "" {
		out["description"] = s.about
	}
	if s.def != nil {
		out["default"] = s.def
	}
	switch s.form {
	case object:
		s.objectSchema(out)
	case families:
		out["type"] = "object"
		out["propertyNames"] = map[string]any{"pattern": namePattern}
		out["additionalProperties"] = s.item.schema()
	case listOf:
		out["type"], out["items"] = "array", s.item.schema()
		if s.atLeast > 0 {
			out["minItems"] = s.atLeast
		}
	case truth:
		out["type"] = "boolean"
	case whole, number:
		s.numberSchema(out)
	case bytesSize:
		out["anyOf"] = []any{
			map[string]any{"type": "integer", "minimum": 0},
			map[string]any{"type": "string", "pattern": sizePattern},
		}
	case choice:
		out["enum"] = s.choices
	default:
		s.textSchema(out)
	}
	return out
}

// objectSchema adds the keys of an object.
func (s *spec) objectSchema(out map[string]any) {
	properties := map[string]any{}
	var required []string
	for _, k := range s.keys {
		properties[k.name] = k.spec.schema()
		if k.missing != "" {
			required = append(required, k.name)
		}
	}
	out["type"], out["properties"], out["additionalProperties"] = "object", properties, false
	if required != nil {
		out["required"] = required
	}
	if s.anyOf == nil {
		return
	}
	var choices []any
	for _, name := range s.anyOf {
		choices = append(choices, map[string]any{"required": []string{name}})
	}
	out["anyOf"] = choices
}

// numberSchema adds the limits of a number.
func (s *spec) numberSchema(out map[string]any) {
	out["type"] = "number"
	if s.form == whole {
		out["type"] = "integer"
	}
	out["maximum"] = s.max
	if s.above {
		out["exclusiveMinimum"] = s.min
	} else {
		out["minimum"] = s.min
	}
}

// textSchema adds the form of a text.
func (s *spec) textSchema(out map[string]any) {
	out["type"] = "string"
	switch s.form {
	case name:
		out["pattern"] = namePattern
	case nameStar:
		out["pattern"] = `^\*$|` + namePattern
	case age:
		out["pattern"] = agePattern + "|" + isoPattern
	case prose:
		out["pattern"] = `\S`
	case word:
		out["minLength"], out["maxLength"] = 1, maxWord
	case regex:
		out["minLength"], out["maxLength"] = 1, MaxRegex
	case pathGlob:
		out["minLength"], out["maxLength"] = 1, maxGlob
	}
}
