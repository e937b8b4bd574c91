package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// profile is the subset of YAML that a policy may use.
var profile = strictyaml.Profile{MaxDepth: MaxDepth}

// checker compares a document with the table of keys, puts the values in the
// file and collects the problems.
type checker struct {
	file     *File
	problems []*Problem
	used     map[*limit]int
	names    map[string]int // the rules that the file adds, with their lines
}

// maxCollected bounds what is collected before it is sorted and truncated.
const maxCollected = 1000

// add reports a problem at a node.
func (c *checker) add(n *node, reason, message, hint string) {
	if len(c.problems) < maxCollected {
		c.problems = append(c.problems, &Problem{n.Line, n.Column, reason, message, hint})
	}
}

// read makes the tree of the file, nil when there is no document and when there
// are problems.
func (c *checker) read(data []byte) *node {
	if len(data) > MaxBytes {
		c.add(&node{Line: 1, Column: 1}, TooLarge, fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes), "")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	root, problems := strictyaml.Parse(string(data), profile)
	for _, p := range problems {
		reason := BadYAML
		switch p.Kind {
		case strictyaml.Duplicate:
			reason = DuplicateKey
		case strictyaml.Unread:
			reason = TooLarge
		}
		c.problems = append(c.problems, &Problem{p.Line, p.Column, reason, p.Message, p.Hint})
	}
	return root
}

// check compares one value with its spec, and puts it in its field.
func (c *checker) check(n *node, s *spec, v reflect.Value) {
	if !c.kind(n, s) {
		return
	}
	switch s.form {
	case object:
		c.object(n, s, v)
	case families:
		for _, f := range n.Fields {
			family := grow(v).Addr().Interface().(*Family)
			c.check(f.Key, &spec{form: name}, reflect.ValueOf(&family.Name).Elem())
			c.check(f.Value, s.item, reflect.ValueOf(&family.Patterns).Elem())
		}
	case listOf:
		c.list(n, s, v)
	default:
		c.scalar(n, s, v)
	}
}

// kindNames names the kinds of a value for a message.
var kindNames = [...]string{
	strictyaml.Null: "nothing", strictyaml.Text: "text", strictyaml.Integer: "a number", strictyaml.Decimal: "a number with a fraction",
	strictyaml.Bool: "true or false", strictyaml.Special: "a special number", strictyaml.List: "a list", strictyaml.Map: "a mapping",
}

// kind reports a value that is of another kind than its form is written in.
func (c *checker) kind(n *node, s *spec) bool {
	w, special := writing[s.form]
	if !special {
		w = anyText
	}
	if slices.Contains(w.kinds, n.Kind) {
		return true
	}
	found, hint := kindNames[n.Kind], w.hint
	switch {
	case n.Kind == strictyaml.Null:
		hint = "remove the key or give it a value"
	case s.form == choice:
		hint = "use " + oneOf(s.choices)
	case n.Kind == strictyaml.Text && (s.form == whole || s.form == number):
		hint = "write a number without quotes"
	}
	if n.Kind == strictyaml.Text {
		found += " " + clip(n.Text)
	}
	c.add(n, BadType, fmt.Sprintf("expected %s, found %s", w.wanted, found), hint)
	return false
}

// at returns the value of a key, nil when it is not given.
func at(n *node, key string) *node {
	for _, f := range n.Fields {
		if f.Key.Text == key {
			return f.Value
		}
	}
	return nil
}

// object checks the keys of a mapping against the table.
func (c *checker) object(n *node, s *spec, v reflect.Value) {
	s.setDefaults(v)
	if line := v.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	c.count(n, s.limit, 1)
	before := len(c.problems)
	for _, f := range n.Fields {
		i := slices.IndexFunc(s.keys, func(k key) bool { return k.name == f.Key.Text })
		if i < 0 {
			c.add(f.Key, UnknownKey, "unknown key "+clip(f.Key.Text), unknownKey(f.Key.Text, s))
			continue
		}
		next := s.keys[i].spec
		c.check(f.Value, next, v.FieldByIndex(next.index))
	}
	for _, k := range s.keys {
		if k.missing != "" && at(n, k.name) == nil {
			c.add(n, BadValue, fmt.Sprintf("the key %q is missing", k.name), k.missing)
		}
	}
	switch t := v.Interface().(type) {
	case Allow:
		if at(n, "path") == nil && at(n, "pattern") == nil {
			c.add(n, BadValue, "one of the keys path and pattern is missing", "say what the exception is for")
		}
	case Thresholds:
		if len(c.problems) == before {
			c.inOrder("low", "medium", at(n, "low"), at(n, "medium"), t.Low, t.Medium)
			c.inOrder("medium", "high", at(n, "medium"), at(n, "high"), t.Medium, t.High)
		}
	}
}

// list checks every item of a list.
func (c *checker) list(n *node, s *spec, v reflect.Value) {
	c.count(n, s.limit, len(n.Items))
	if len(n.Items) < s.atLeast {
		c.add(n, BadValue, "the list is empty", "remove the key or give it an item")
	}
	if s.tag.Get("empty") != "" {
		v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Items)))
	}
	for i, item := range n.Items {
		if i == MaxItems {
			c.add(item, TooLarge, fmt.Sprintf("the list has more than %d items", MaxItems), "write globs that cover more")
			return
		}
		c.check(item, s.item, grow(v))
	}
}

// count adds to a limit of the whole file, and reports the value that exceeds it.
func (c *checker) count(n *node, l *limit, by int) {
	if l == nil || c.used[l] > l.most {
		return
	}
	if c.used[l] += by; c.used[l] > l.most {
		c.add(n, TooLarge, fmt.Sprintf(l.message, l.most), l.hint)
	}
}

// inOrder compares two thresholds; a missing one has its default. The problem is at the
// later one of the two in the file.
func (c *checker) inOrder(low, high string, small, large *node, a, b float64) {
	if small == nil && large == nil || a < b {
		return
	}
	place, hint := large, "low < medium < high"
	switch {
	case small == nil:
		hint = fmt.Sprintf("%s is %g by default", low, a)
	case large == nil:
		place, hint = small, fmt.Sprintf("%s is %g by default", high, b)
	case small.Line > large.Line || small.Line == large.Line && small.Column > large.Column:
		place = small
	}
	c.add(place, BadThresholds, fmt.Sprintf("%s (%g) must be below %s (%g)", low, a, high, b), hint)
}

// clip shortens a text of the file for a message, and quotes it.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// The forms of texts, for the parser and for the schema.
const (
	namePattern    = `^[a-z][a-z0-9_]{0,63}$`
	sizePattern    = `^([0-9]{1,19})(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`
	agePattern     = `^([0-9]{1,19})(s|m|h|d|w)$`
	decimalPattern = `^-?(0|[1-9][0-9]*)?(\.[0-9]+)?$`

	maxWord = 200 // bytes of a keyword
)

var (
	nameForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(namePattern) })
	sizeForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(sizePattern) })
	ageForm     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(agePattern) })
	decimalForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(decimalPattern) })

	units = map[string]int64{
		"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"s": int64(time.Second), "m": int64(time.Minute), "h": int64(time.Hour), "d": int64(24 * time.Hour), "w": int64(7 * 24 * time.Hour),
	}
)

// problem is why a value is refused.
type problem struct{ reason, message, hint string }

// badValue returns a problem of the reason bad_value.
func badValue(hint, format string, a ...any) *problem {
	return &problem{BadValue, fmt.Sprintf(format, a...), hint}
}

const sizeHint = "write bytes, or a size such as 512MiB"

// written lists the forms in which a value may be written, and how to correct a value
// of another form.
type written struct {
	kinds  []strictyaml.NodeKind
	wanted string
	hint   string
}

var (
	texts    = []strictyaml.NodeKind{strictyaml.Text}
	numbers  = []strictyaml.NodeKind{strictyaml.Integer, strictyaml.Decimal}
	mappings = []strictyaml.NodeKind{strictyaml.Map}

	// anyText is how the forms of texts may be written that are not in writing.
	anyText = written{texts, "text", "put it in quotes"}

	writing = map[form]written{
		object:    {mappings, "a mapping", ""},
		families:  {mappings, "a mapping", ""},
		listOf:    {[]strictyaml.NodeKind{strictyaml.List}, "a list", "write it as a list, with a dash before each item"},
		choice:    {texts, "text", ""},
		age:       {texts, "text", `write it with a unit, such as "30d"`},
		truth:     {[]strictyaml.NodeKind{strictyaml.Bool}, "true or false", "write true or false"},
		whole:     {numbers[:1], "a whole number", "write a whole number"},
		number:    {numbers, "a number", ""},
		bytesSize: {[]strictyaml.NodeKind{strictyaml.Integer, strictyaml.Text}, "a number of bytes or a size", sizeHint},
	}
)

// scalar checks a single value and puts it in its field.
func (c *checker) scalar(n *node, s *spec, v reflect.Value) {
	if n.Folded && s.form != prose {
		c.add(n, BadValue, "the value goes on over more than one line", "a dash or a key may be missing, or put it in quotes")
		return
	}
	value, p := s.read(n)
	if p != nil {
		c.add(n, p.reason, p.message, p.hint)
		return
	}
	switch s.form {
	case pathGlob:
		c.count(n, s.limit, alternatives(n.Text))
	case regex:
		tree, _ := syntax.Parse(n.Text, syntax.Perl) // read has accepted it
		c.count(n, s.limit, cost(tree))
	}
	if s.use != "" && n.Text != "*" {
		c.named(n, s.use)
	}
	store(v, value)
}

// named remembers the place of a name and reports a rule of the same name as
// another one.
func (c *checker) named(n *node, use string) {
	c.file.names = append(c.file.names, nameUse{n.Text, use, n})
	if use != "added" {
		return
	}
	if line, again := c.names[n.Text]; again {
		c.add(n, BadValue, fmt.Sprintf("the name %q is given twice", n.Text), fmt.Sprintf("first given on line %d", line))
		return
	}
	c.names[n.Text] = n.Line
}

// oneOf lists choices in words.
func oneOf(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// read reads a value that is of the right kind.
func (s *spec) read(n *node) (any, *problem) {
	switch s.form {
	case truth:
		return strings.EqualFold(n.Text, "true"), nil
	case whole, number:
		return s.readNumber(n.Text)
	case bytesSize:
		return readSize(n)
	case age:
		return readAge(n.Text)
	case choice:
		if !slices.Contains(s.choices, n.Text) {
			return nil, badValue(didYouMean(n.Text, s.choices, "use "+oneOf(s.choices)), "unknown value %s", clip(n.Text))
		}
		return n.Text, nil
	case name, nameStar:
		if !nameForm().MatchString(n.Text) && !(s.form == nameStar && n.Text == "*") {
			return nil, badValue("use a to z, 0 to 9 and _, at most 64 of them, beginning with a letter", "%s is not a name", clip(n.Text))
		}
		return n.Text, nil
	}
	trimmed := strings.TrimSpace(n.Text)
	if trimmed == "" {
		return nil, badValue("", "the text is empty")
	}
	for _, r := range n.Text {
		if unicode.IsControl(r) && !(s.form == prose && (r == '\n' || r == '\t')) {
			return nil, badValue("", "the text holds the control character %U", r)
		}
	}
	switch {
	case s.form == prose:
		return trimmed, nil
	case s.form == pathGlob:
		if message, hint := badGlob(n.Text); message != "" {
			return nil, &problem{BadGlob, message, hint}
		}
	case s.form == regex:
		return n.Text, checkRegex(n.Text)
	case len(n.Text) > maxWord:
		return nil, badValue("", "the text is longer than %d bytes", maxWord)
	}
	return n.Text, nil
}

// readNumber reads a number as a plain decimal.
func (s *spec) readNumber(text string) (any, *problem) {
	f, err := strconv.ParseFloat(text, 64)
	if !decimalForm().MatchString(text) || err != nil && !math.IsInf(f, 0) {
		return nil, badValue("write a plain decimal number", "the number %s is not in the decimal form", clip(text))
	}
	if f >= s.min && f <= s.max && !(s.above && f == s.min) {
		return f, nil
	}
	if s.reason == UnsupportedVersion {
		return nil, &problem{s.reason, "the version " + text + " of the policy format is not supported", "write version: 1"}
	}
	plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	p := badValue(fmt.Sprintf("it must be from %s to %s", plain(s.min), plain(s.max)), "%s is out of range", clip(text))
	if s.above {
		p.hint = fmt.Sprintf("it must be above %s and at most %s", plain(s.min), plain(s.max))
	}
	if s.reason != "" {
		p.reason = s.reason
	}
	return nil, p
}

// readSize reads bytes, as a number or with a unit.
func readSize(n *node) (any, *problem) {
	m := sizeForm().FindStringSubmatch(n.Text)
	switch {
	case n.Kind == strictyaml.Text && m == nil:
		return nil, badValue(sizeHint, "%s is not a size", clip(n.Text))
	case m == nil && !decimalForm().MatchString(n.Text):
		return nil, badValue(sizeHint, "the number %s is not in the decimal form", clip(n.Text))
	case strings.HasPrefix(n.Text, "-"):
		return nil, badValue("leave the key out for the default", "a size cannot be negative")
	case m == nil:
		m = []string{"", n.Text, "B"}
	}
	size, ok := amount(m)
	if !ok {
		return nil, badValue("leave the key out for the default", "the size %s is too large", clip(n.Text))
	}
	return size, nil
}

// readAge reads a duration with one unit, or in ISO 8601.
func readAge(s string) (any, *problem) {
	tooLong := badValue(fmt.Sprintf("it is at most %dd; leave the key out for no limit", isoduration.Max/(24*time.Hour)), "the duration %s is too long", clip(s))
	if m := ageForm().FindStringSubmatch(s); m != nil {
		ns, ok := amount(m)
		if !ok || time.Duration(ns) > isoduration.Max {
			return nil, tooLong
		}
		return time.Duration(ns), nil
	}
	d, err := isoduration.Parse(s)
	if errors.Is(err, isoduration.ErrTooLong) {
		return nil, tooLong
	}
	if err != nil {
		return nil, badValue("write it such as 30d, 12h, 90m or P30D", "%s is not a duration", clip(s))
	}
	if d.Years != 0 || d.Months != 0 {
		return nil, badValue("write it in days", "years and months have no fixed length")
	}
	return time.Duration(d.Weeks*7+d.Days)*24*time.Hour + d.Clock, nil
}

// amount multiplies the digits of a match with its unit, and reports whether
// the result fits.
func amount(m []string) (int64, bool) {
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := units[m[2]]
	return n * unit, err == nil && n <= math.MaxInt64/unit
}
