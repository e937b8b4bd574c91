package fault

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// BadChoice refuses an argument that is none of the choices.
func BadChoice(argument string, choices ...string) *Fault {
	return New(InvalidArgument).With("argument", argument).With("choices", choices).
		Hintf("%s must be one of %s", argument, strings.Join(choices, ", "))
}

// CheckChoice refuses an argument that is given and none of the choices.
func CheckChoice[T ~string](argument string, value T, choices ...T) *Fault {
	if value == "" || slices.Contains(choices, value) {
		return nil
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return BadChoice(argument, names...)
}

// CheckText refuses an argument that is not UTF-8, or has too many characters.
func CheckText(argument, value string, max int) *Fault {
	if !utf8.ValidString(value) {
		return New(NotValidUTF8).With("argument", argument).Hintf("%s is not valid UTF-8", argument)
	}
	if utf8.RuneCountInString(value) > max {
		return New(InvalidArgument).With("argument", argument).Hintf("%s has at most %d characters", argument, max)
	}
	return nil
}
