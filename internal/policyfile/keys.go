package policyfile

import (
	"reflect"
	"strconv"
	"strings"
	"time"

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
	use      nameKind
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
	s := &spec{tag: tag, use: nameKinds[tag.Get("use")], reason: tag.Get("reason"), max: bound(tag.Get("max"))}
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
