package policyfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// form is the form that a value must have.
type form int

const (
	object   form = iota // a mapping with the keys of the table
	families             // a mapping with names as keys
	listOf
	prose    // text for people
	word     // text on one line
	name     // the name of a rule or of a family
	nameStar // a name, or *
	pathGlob
	regex
	choice
	truth
	whole
	number
	bytesSize
	age
)

// textForms are the values of the tag form.
var textForms = map[string]form{"prose": prose, "word": word, "name": name, "nameStar": nameStar, "glob": pathGlob, "regex": regex}

// spec defines the valid form of a value, as the tags of its field say.
type spec struct {
	form     form
	tag      reflect.StructTag
	index    []int // of the field in its struct
	keys     []key // of an object
	item     *spec // of a list, and of each value of families
	atLeast  int   // items of a list
	choices  []string
	min, max float64
	above    bool   // min itself is not allowed
	reason   string // for a number out of range; bad_value when ""
	limit    *limit // counts in the whole file
	use      string // of a name, see nameUse
}

// node is a value of the file.
type node = strictyaml.Node

// key is one key of an object.
type key struct {
	name    string
	spec    *spec
	missing string // the hint when a required key is missing, "" when it may be
}

// limit bounds the total of all values of a kind.
type limit struct {
	most          int
	message, hint string
}

var (
	manyPatterns = &limit{MaxPatterns, "more than %d patterns", ""}
	manyKeywords = &limit{MaxKeywords, "more than %d keywords in all", "give the rules fewer keywords"}
	manyGlobs    = &limit{maxGlobs, "the file has more than %d globs, the choices in braces counted", "write globs that cover more"}
	largeRegexes = &limit{maxRegexCost, "the expressions up to this one have more than %d instructions together when their repeats are written out", smallerRepeats + ", or fewer patterns"}
)

// policy is the table of all keys of a policy file.
var policy = objectOf(reflect.TypeFor[File]())

// objectOf returns the spec of a struct.
func objectOf(t reflect.Type) *spec {
	s := &spec{form: object}
	if t == reflect.TypeFor[Pattern]() {
		s.limit = manyPatterns
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("key"); name != "" {
			value := specOf(f.Type, f.Tag)
			value.index = f.Index
			s.keys = append(s.keys, key{name, value, f.Tag.Get("missing")})
		}
	}
	return s
}

// specOf returns the spec of a field, or of an item of one.
func specOf(t reflect.Type, tag reflect.StructTag) *spec {
	s := &spec{tag: tag, use: tag.Get("use"), reason: tag.Get("reason"), max: bound(tag.Get("max"))}
	if above := tag.Get("above"); above != "" {
		s.min, s.above = bound(above), true
	} else {
		s.min = bound(tag.Get("min"))
	}
	switch {
	case t == reflect.TypeFor[[]Family]():
		s.form, s.item = families, &spec{form: listOf, atLeast: 1, item: objectOf(reflect.TypeFor[Pattern]())}
	case t.Kind() == reflect.Slice:
		s.form, s.item = listOf, specOf(t.Elem(), tag)
		if tag.Get("limit") == "keywords" {
			s.limit = manyKeywords
		}
	case t.Kind() == reflect.Struct:
		s = objectOf(t)
		s.tag = tag
	case tag.Get("choices") != "":
		s.form, s.choices = choice, strings.Split(tag.Get("choices"), ",")
	case t == reflect.TypeFor[time.Duration]():
		s.form = age
	default:
		s.form = map[reflect.Kind]form{
			reflect.Bool: truth, reflect.Int: whole, reflect.Float64: number, reflect.Int64: bytesSize, reflect.String: textForms[tag.Get("form")],
		}[t.Kind()]
		s.limit = map[form]*limit{pathGlob: manyGlobs, regex: largeRegexes}[s.form]
	}
	return s
}

func bound(tag string) float64 {
	f, _ := strconv.ParseFloat(tag, 64)
	return f
}

// setDefaults gives the fields of a struct their defaults.
func (s *spec) setDefaults(v reflect.Value) {
	for _, k := range s.keys {
		field, text := v.FieldByIndex(k.spec.index), k.spec.tag.Get("default")
		if k.spec.form == object {
			k.spec.setDefaults(field)
		} else if text != "" {
			store(field, bound(text))
		}
	}
}

// store sets a field to a value that was read.
func store(field reflect.Value, value any) {
	if f, ok := value.(float64); ok && field.CanInt() {
		value = int64(f)
	}
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
}

// grow adds an item to a list, and returns it.
func grow(list reflect.Value) reflect.Value {
	list.Set(reflect.Append(list, reflect.Zero(list.Type().Elem())))
	return list.Index(list.Len() - 1)
}

// nameUse is a name and its place in the file. kind is the tag use: what the name must be
// that of, or "added" for a rule that the file adds.
type nameUse struct {
	name, kind string
	at         *node
}

// CheckNames compares the names in the file with the built-in families and
// patterns. It reports names in disable_families, disable_patterns and allow
// that are neither built in nor added by the file itself, because a misspelt
// name would have no effect, and rules the file adds under the name of a
// built-in one. The problems are sorted and bounded as those of [Parse].
func (f *File) CheckNames(families, patterns []string) (problems []*Problem) {
	known := map[string][]string{"family": slices.Clone(families), "pattern": slices.Clone(patterns)}
	for _, family := range f.ExtendPatterns {
		known["family"] = append(known["family"], family.Name)
		for _, p := range family.Patterns {
			known["pattern"] = append(known["pattern"], p.Name)
		}
	}
	known["pattern or family"] = slices.Concat(known["pattern"], known["family"])
	for _, use := range f.names {
		p := &Problem{Line: use.at.Line, Column: use.at.Column, Reason: BadValue}
		switch {
		case use.kind == "added" && slices.Contains(patterns, use.name):
			p.Message, p.Hint = fmt.Sprintf("the name %q is that of a built-in pattern", use.name), "choose another name"
		case use.kind == "added" || slices.Contains(known[use.kind], use.name):
			continue
		case use.kind == "family" && slices.Contains(known["pattern"], use.name):
			p.Hint = "it is a pattern; name it under disable_patterns"
		case use.kind == "pattern" && slices.Contains(known["family"], use.name):
			p.Hint = "it is a family; name it under disable_families"
		}
		if p.Message == "" {
			p.Message = fmt.Sprintf("unknown %s %q", use.kind, use.name)
			p.Hint = didYouMean(use.name, known[use.kind], p.Hint)
		}
		problems = append(problems, p)
	}
	return sorted(problems)
}

// didYouMean returns a hint for a misspelt word: the nearest of the choices, otherwise
// one that the word begins or that begins the word, otherwise the given text.
func didYouMean(word string, choices []string, otherwise string) string {
	best, lower := schema.Closest(word, choices), strings.ToLower(word)
	for _, c := range choices {
		if best == "" && len(word) > 1 && (strings.HasPrefix(c, lower) || len(c) > 2 && strings.HasPrefix(lower, c)) {
			best = c
		}
	}
	if best == "" {
		return otherwise
	}
	return "did you mean " + best + "?"
}

// unknownKey returns a hint for a key that an object does not have: one of its
// keys, else the place in the policy where a key of this name belongs.
func unknownKey(word string, s *spec) string {
	var names []string
	for _, k := range s.keys {
		names = append(names, k.name)
	}
	elsewhere := keyPlace(strings.ToLower(word), policy, "")
	if elsewhere != "" {
		elsewhere = "did you mean " + elsewhere + "?"
	}
	return didYouMean(word, names, elsewhere)
}

// keyPlace finds a key of any object of the policy, such as gate.mode.
func keyPlace(word string, s *spec, path string) string {
	for _, k := range s.keys {
		if k.name == word {
			return path + k.name
		}
		if found := keyPlace(word, k.spec, path+k.name+"."); found != "" {
			return found
		}
	}
	return ""
}
