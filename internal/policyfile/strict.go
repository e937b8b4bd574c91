package policyfile

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Strictness defines for one key what makes a policy stricter. The table of all keys
// decides what an untrusted policy file may do, and docs/policy.md shows it.
type Strictness struct {
	Key  string // as in the file, with dots
	Rule string // for readers
	Gate bool   // a setting of the content gate
	// Vouched: it holds only in a file that the user has named or recorded,
	// not in one that happens to be in the state directory.
	Vouched bool
	// Order has the values of a setting of the gate from the weakest to the strictest,
	// where they are words.
	Order []string

	field []int // in File
	// weaker reports whether a value is weaker than the least one that is required.
	weaker func(v, least reflect.Value) bool
}

// Strictnesses has a row for every key of the file. The tag stricter of its field is the
// rule; without one, every use of the key weakens the policy. The values of an ordered
// key that one of two files lacks are those of the tag absent, or are not compared.
var Strictnesses = policy.strictnesses("", nil, false)

// wholly is the rule of a mapping that is compared as a whole.
const wholly = "as a whole"

// strictnesses returns the rows of an object, which is the field of File, or File.
func (s *spec) strictnesses(prefix string, field []int, gate bool) (list []Strictness) {
	for _, k := range s.keys {
		tag, at := k.spec.tag, slices.Concat(field, k.spec.index)
		row := Strictness{Key: prefix + k.name, Rule: tag.Get("stricter"), Gate: gate || tag.Get("gate") == "true", Vouched: tag.Get("vouched") == "true", field: at}
		if k.spec.form == object && row.Rule != wholly {
			list = append(list, k.spec.strictnesses(row.Key+".", at, row.Gate)...)
			continue
		}
		row.compare(tag.Get("absent"))
		if row.Vouched {
			row.Rule += ", and needs a file that is named or trusted"
		}
		list = append(list, row)
	}
	return list
}

// compare sets how the values are compared.
func (s *Strictness) compare(absent string) {
	switch order := strings.Split(s.Rule, " < "); {
	case len(order) > 1:
		s.weaker = func(v, least reflect.Value) bool {
			a, b := cmp.Or(v.String(), absent), cmp.Or(least.String(), absent)
			return a != "" && b != "" && slices.Index(order, a) < slices.Index(order, b)
		}
		if absent == "" {
			s.Order = order
		}
	case s.Rule == "lower is stricter":
		s.weaker = func(v, least reflect.Value) bool { return v.Float() > least.Float() }
	case s.Rule == "" || s.Rule == wholly:
		s.Rule = "every use weakens"
		s.weaker = func(v, least reflect.Value) bool { return !reflect.DeepEqual(v.Interface(), least.Interface()) }
	default:
		s.weaker = func(_, _ reflect.Value) bool { return false }
	}
}

// Hold makes f at least as strict as base in the keys that only chooses (nil:
// in all of them) and returns those in which it was weaker.
func (f *File) Hold(base *File, only func(Strictness) bool) (changed []string) {
	file, than := reflect.ValueOf(f).Elem(), reflect.ValueOf(base).Elem()
	for _, s := range Strictnesses {
		if only != nil && !only(s) {
			continue
		}
		if v, least := file.FieldByIndex(s.field), than.FieldByIndex(s.field); s.weaker(v, least) {
			v.Set(least)
			changed = append(changed, s.Key)
		}
	}
	return changed
}

// Weaker returns the keys in which f is weaker than base.
func (f *File) Weaker(base *File) []string {
	probe := *f
	return probe.Hold(base, nil)
}
