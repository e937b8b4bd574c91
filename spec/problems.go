package spec

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/xeipuuv/gojsonschema"
)

// Problem is one thing that does not conform.
type Problem struct {
	Path string // where: ops[0].mode, "" for the document itself
	Rule string // the stable name of what it breaks: required, enum, invalid_type …
	Text string // a sentence; it never holds a value of the document
}

// String returns the problem with its place in front.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// Invalid is the error of a document that does not conform.
type Invalid struct {
	Document string    // what it was to be: errors, rw_tx arguments …
	Problems []Problem // by path, at least one, at most maxProblems
}

// maxProblems bounds the list: a document of a million mistakes needs no more
// to be known as wrong.
const maxProblems = 50

// Error returns the problems in one line, without a value of the document.
func (e *Invalid) Error() string {
	list := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = p.String()
	}
	return e.Document + ": " + strings.Join(list, "; ")
}

// invalid makes the error of what the validator found.
func invalid(what string, found []gojsonschema.ResultError) *Invalid {
	e := &Invalid{Document: what}
	specific := len(found) > 1
	for _, f := range found {
		if specific && (f.Type() == "number_any_of" || f.Type() == "number_one_of") {
			continue // what is wrong with the nearest alternative is reported too
		}
		e.Problems = append(e.Problems, Problem{Path: place(f), Rule: f.Type(), Text: sentence(f)})
	}
	if len(e.Problems) == 0 {
		e.Problems = []Problem{{Path: place(found[0]), Rule: found[0].Type(), Text: sentence(found[0])}}
	}
	slices.SortFunc(e.Problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Text, b.Text))
	})
	e.Problems = slices.Compact(e.Problems)
	e.Problems = e.Problems[:min(len(e.Problems), maxProblems)]
	return e
}

// place is where a problem is, as one writes it in code.
func place(f gojsonschema.ResultError) string {
	var b strings.Builder
	for i, step := range strings.Split(f.Context().String("\x00"), "\x00") {
		if i == 0 {
			continue // the document itself
		}
		switch _, err := strconv.ParseUint(step, 10, 31); {
		case err == nil:
			fmt.Fprintf(&b, "[%s]", step)
		case b.Len() > 0:
			b.WriteString("." + plain(step))
		default:
			b.WriteString(plain(step))
		}
	}
	return b.String()
}

// plain is a name, quoted and cut where it is not one that a schema has: it
// comes from the document then.
func plain(name string) string {
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return quoted(name)
		}
	}
	if len(name) > 40 || name == "" {
		return quoted(name)
	}
	return name
}

// quoted is a name from outside as it may appear in a message.
func quoted(name string) string {
	if r := []rune(name); len(r) > 40 {
		name = string(r[:40]) + "…"
	}
	return strconv.Quote(name)
}

// sentence says what is wrong, without the value.
func sentence(f gojsonschema.ResultError) string {
	d := f.Details()
	name, _ := d["property"].(string)
	switch f.Type() {
	case "required":
		return plain(name) + " is missing"
	case "additional_property_not_allowed":
		return "there is nothing named " + plain(name)
	case "invalid_type":
		return fmt.Sprintf("must be of type %v, is %v", d["expected"], d["given"])
	case "enum":
		return fmt.Sprintf("must be one of %v", d["allowed"])
	case "const":
		return fmt.Sprintf("must be %v", d["allowed"])
	case "number_any_of":
		return "fits none of the forms it may have"
	case "number_one_of":
		return "must fit exactly one of the forms it may have"
	case "invalid_property_name", "invalid_property_pattern":
		return "the name " + quoted(name) + " is not of the form that names have here"
	case "pattern":
		return fmt.Sprintf("must match %v", d["pattern"])
	case "format":
		return fmt.Sprintf("must be a %v", d["format"])
	case "string_gte", "array_min_items", "array_min_properties":
		return fmt.Sprintf("must have at least %v %s", d["min"], counted[f.Type()])
	case "string_lte", "array_max_items", "array_max_properties":
		return fmt.Sprintf("must have at most %v %s", d["max"], counted[f.Type()])
	case "number_gte":
		return "must be at least " + number(d["min"])
	case "number_gt":
		return "must be more than " + number(d["min"])
	case "number_lte":
		return "must be at most " + number(d["max"])
	case "number_lt":
		return "must be less than " + number(d["max"])
	case "unique":
		return "has an item twice"
	}
	return "breaks the rule " + f.Type()
}

var counted = map[string]string{
	"string_gte": "characters", "string_lte": "characters",
	"array_min_items": "items", "array_max_items": "items",
	"array_min_properties": "members", "array_max_properties": "members",
}

// number writes a limit as people do.
func number(v any) string {
	if f, ok := v.(*big.Float); ok {
		return f.Text('f', -1)
	}
	return fmt.Sprint(v)
}
