package policyfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// problem is why a value is refused.
type problem struct{ reason, message, hint string }

// badValue returns a problem of the reason bad_value.
func badValue(hint, format string, a ...any) *problem {
	return &problem{BadValue, fmt.Sprintf(format, a...), hint}
}

var (
	nameForm    = regexp.MustCompile(namePattern)
	decimalForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)?(\.[0-9]+)?$`)
)

// namePattern is what a name of a rule or of a family looks like.
const namePattern = `^[a-z][a-z0-9_]{0,63}$`

// maxWord bounds a keyword, in bytes.
const maxWord = 200

// scalar checks a single value and keeps what it means.
func (c *checker) scalar(n *node, s *spec) {
	var want strictyaml.NodeKind
	switch s.form {
	case truth:
		want = boolean
	case whole, number, bytesSize:
		want = wholeNumber
	default:
		want = text
	}
	fits := n.Kind == want
	switch s.form {
	case number:
		fits = fits || n.Kind == decimal
	case bytesSize:
		fits = fits || n.Kind == text
	case choice: // a parser of YAML 1.1 reads a plain off as false
		fits = fits || n.Kind == boolean && strings.EqualFold(n.Text, "off")
	}
	if !fits {
		c.wrongKind(n, s, want)
		return
	}
	if n.Folded && s.form != prose {
		c.add(n, BadValue, "the value goes on over more than one line", "a dash or a key may be missing, or put it in quotes")
		return
	}
	value, p := s.read(n)
	if p != nil {
		c.add(n, p.reason, p.message, p.hint)
		return
	}
	if s.form == pathGlob && c.globs <= maxGlobs {
		if c.globs += alternatives(n.Text); c.globs > maxGlobs {
			c.add(n, TooLarge, fmt.Sprintf("the file has more than %d globs, the choices in braces counted", maxGlobs), "write globs that cover more")
		}
	}
	n.value = value
}

// wrongKind reports a scalar of the wrong kind and says how to write it.
func (c *checker) wrongKind(n *node, s *spec, want strictyaml.NodeKind) {
	hint := ""
	switch {
	case n.Kind == nothing:
		hint = "remove the key or give it a value"
	case s.form == truth:
		hint = "write true or false"
	case s.form == choice:
		hint = "use " + oneOf(s.choices)
	case s.form == age:
		hint = `write it with a unit, such as "30d"`
	case s.form == bytesSize:
		hint = "write bytes, or a size such as 512MiB"
	case s.form == whole && n.Kind == decimal:
		hint = "write a whole number"
	case want == text && (n.Kind != list && n.Kind != mapping || s.form == regex || s.form == pathGlob):
		hint = "put it in quotes"
	case want == wholeNumber && n.Kind == text:
		hint = "write a number without quotes"
	}
	found := kindName(n.Kind)
	if n.Kind == text {
		found += " " + clip(n.Text)
	}
	wanted := kindName(want)
	if s.form == whole {
		wanted = "a whole number"
	} else if s.form == bytesSize {
		wanted = "a number of bytes or a size"
	}
	c.add(n, BadType, fmt.Sprintf("expected %s, found %s", wanted, found), hint)
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
		return s.readNumber(n)
	case bytesSize:
		return readSize(n)
	case age:
		return readAge(n.Text)
	case choice:
		return s.readChoice(n)
	case name, nameStar:
		return s.readName(n)
	}
	trimmed := strings.TrimSpace(n.Text)
	if trimmed == "" {
		return nil, badValue("", "the text is empty")
	}
	if i := strings.IndexFunc(n.Text, control); i >= 0 && !(s.form == prose && strings.ContainsRune("\n\t", rune(n.Text[i]))) {
		return nil, badValue("", "the text holds the control character %U", []rune(n.Text[i:])[0])
	}
	switch s.form {
	case prose:
		return trimmed, nil
	case pathGlob:
		return readGlob(n.Text)
	case regex:
		return readRegex(n.Text)
	}
	if len(n.Text) > maxWord {
		return nil, badValue("", "the text is longer than %d bytes", maxWord)
	}
	return n.Text, nil
}

// readNumber reads a number as a plain decimal, int64 for whole numbers.
func (s *spec) readNumber(n *node) (any, *problem) {
	if !decimalForm.MatchString(n.Text) {
		return nil, badValue("write a plain decimal number", "the number %s is not in the decimal form", clip(n.Text))
	}
	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, badValue("write a plain decimal number", "the number %s cannot be read", clip(n.Text))
	}
	if f < s.min || f > s.max || s.above && f == s.min {
		reason := s.reason
		if reason == "" {
			reason = BadValue
		}
		if reason == UnsupportedVersion {
			return nil, &problem{reason, "the version " + n.Text + " of the policy format is not supported", "write version: 1"}
		}
		limits := fmt.Sprintf("from %s to %s", plain(s.min), plain(s.max))
		if s.above {
			limits = fmt.Sprintf("above %s and at most %s", plain(s.min), plain(s.max))
		}
		return nil, &problem{reason, fmt.Sprintf("%s is out of range", clip(n.Text)), "it must be " + limits}
	}
	if s.form == whole {
		return int64(f), nil
	}
	return f, nil
}

// plain writes a limit without an exponent.
func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// readChoice reads one of a few words.
func (s *spec) readChoice(n *node) (any, *problem) {
	if n.Kind == boolean {
		return "off", nil
	}
	if slices.Contains(s.choices, n.Text) {
		return n.Text, nil
	}
	hint := didYouMean(n.Text, s.choices, nil)
	if hint == "" {
		hint = "use " + oneOf(s.choices)
	}
	return nil, badValue(hint, "unknown value %s", clip(n.Text))
}

// readName reads the name of a rule or of a family.
func (s *spec) readName(n *node) (any, *problem) {
	if nameForm.MatchString(n.Text) || s.form == nameStar && n.Text == "*" {
		return n.Text, nil
	}
	return nil, badValue("use a to z, 0 to 9 and _, at most 64 of them, beginning with a letter", "%s is not a name", clip(n.Text))
}
