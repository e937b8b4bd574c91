package surface

import (
	"encoding/json"
	"math/big"
	"strings"
)

// keyword applies one keyword to the values that it speaks of. false says that
// the keyword, or what it is given, is not understood.
func (p *parser) keyword(s *shape, key string, value any) bool {
	switch key {
	case "minimum", "exclusiveMinimum":
		return s.kinds["number"].limit(false, "value", value, key != "minimum")
	case "maximum", "exclusiveMaximum":
		return s.kinds["number"].limit(true, "value", value, key != "maximum")
	case "minLength", "maxLength":
		return s.kinds["string"].limit(key[:3] == "max", "length", value, false)
	case "minItems", "maxItems":
		return s.kinds["array"].limit(key[:3] == "max", "items", value, false)
	case "minProperties", "maxProperties":
		return s.kinds["object"].limit(key[:3] == "max", "properties", value, false)
	case "pattern", "format":
		text, ok := value.(string)
		put(&s.kinds["string"].texts, key, text)
		return ok
	case "multipleOf":
		put(&s.kinds["number"].texts, key, canonical(value))
		return typeName(value) == "number"
	case "uniqueItems":
		unique, ok := value.(bool)
		s.kinds["array"].unique = unique
		return ok
	case "items":
		if _, tuple := value.([]any); tuple {
			return false
		}
		s.kinds["array"].items = p.shape(value)
		return true
	case "properties":
		return p.properties(s.kinds["object"], value)
	case "required":
		return s.kinds["object"].needs(value)
	case "additionalProperties":
		s.kinds["object"].rest = p.shape(value)
		if value == false {
			s.kinds["object"].rest = nil
		}
		return true
	}
	return false
}

func (p *parser) properties(k *values, value any) bool {
	m, ok := value.(map[string]any)
	for name, one := range m {
		put(&k.props, name, p.shape(one))
	}
	return ok
}

func (k *values) needs(value any) bool {
	list, ok := value.([]any)
	for _, v := range list {
		name, text := v.(string)
		if !text {
			return false
		}
		put(&k.required, name, true)
	}
	return ok
}

// limit sets a bound. Of two that say the same kind of thing the narrower one
// counts.
func (k *values) limit(upper bool, what string, value any, open bool) bool {
	at, ok := rational(value)
	if !ok {
		return false
	}
	side := &k.low
	if upper {
		side = &k.high
	}
	fresh := bound{at, open}
	if was, ok := (*side)[what]; !ok || !narrower(was, fresh, upper) {
		put(side, what, fresh)
	}
	return true
}

// narrower reports whether a admits less than b.
func narrower(a, b bound, upper bool) bool {
	c := a.at.Cmp(b.at)
	if upper {
		c = -c
	}
	return c > 0 || c == 0 && a.open && !b.open
}

// tidy leaves out what says nothing, so that what is equal looks equal.
func (s *shape) tidy() {
	if k := s.kinds["boolean"]; k != nil && len(k.enum) == 2 {
		k.enum = nil
	}
	if k := s.kinds["null"]; k != nil && len(k.enum) == 1 {
		k.enum = nil
	}
	for name, k := range s.kinds {
		for _, what := range []string{"length", "items", "properties"} {
			if b, ok := k.low[what]; ok && b.at.Sign() <= 0 {
				delete(k.low, what)
			}
		}
		if k.whole {
			k.integers()
		}
		if k.enum != nil && len(k.enum) == 0 {
			delete(s.kinds, name)
		}
	}
}

// integers makes bounds and choices of integers say what they mean: above 0 is
// from 1 on, and a fraction is no choice.
func (k *values) integers() {
	one := big.NewRat(1, 1)
	if b, ok := k.low["value"]; ok && b.open && b.at.IsInt() {
		k.low["value"] = bound{at: new(big.Rat).Add(b.at, one)}
	}
	if b, ok := k.high["value"]; ok && b.open && b.at.IsInt() {
		k.high["value"] = bound{at: new(big.Rat).Sub(b.at, one)}
	}
	if k.enum == nil {
		return
	}
	for text := range k.enum {
		if strings.Contains(text, "/") {
			delete(k.enum, text)
		}
	}
	k.whole = false
}

// rational reads a number. One whose exponent would fill the memory is not
// understood.
func rational(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 400 {
		return nil, false
	}
	if i := strings.IndexAny(n.String(), "eE"); i >= 0 && len(strings.TrimLeft(n.String()[i+1:], "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(n.String())
}

// canonical is a JSON value as text, the same for values that are equal: the
// members of objects are in order, and 1.0 is 1.
func canonical(v any) string {
	switch v := v.(type) {
	case json.Number:
		if r, ok := rational(v); ok {
			return r.RatString()
		}
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = canonical(one)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		for _, key := range sortedKeys(v) {
			parts = append(parts, canonical(key)+":"+canonical(v[key]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	b, err := json.Marshal(v) // null, a boolean or a string
	if err != nil {
		return "?"
	}
	return string(b)
}
