package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// likeName reports whether a word may appear in an error. A word that is not a
// name may be content, or a secret, given in the wrong place.
func likeName(word string) bool {
	const signs = "-_.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return word != "" && len(word) <= 32 && strings.Trim(word, signs) == ""
}

// didYouMean returns the hint for a wrong name: the closest existing one, or
// where to look for it.
func didYouMean(word, prefix string, names []string, otherwise string) string {
	if near := schema.Closest(word, names); near != "" {
		return "did you mean " + prefix + near
	}
	return otherwise
}

// unknownCommand refuses a subcommand that does not exist.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	what := "unknown command"
	if likeName(args[0]) {
		what += " " + strconv.Quote(args[0])
	}
	return &misuse{what, didYouMean(args[0], "", names, "run "+cmd.CommandPath()+" --help")}
}

// helpTopic prints the help of a subcommand.
func helpTopic(cmd *cobra.Command, args []string) error {
	topic, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return &misuse{"there is no such help topic", "run " + cmd.Root().Name() + " help"}
	case len(rest) == 0:
		topic.InitDefaultHelpFlag() // so that it is listed
		return topic.Help()
	case !topic.HasSubCommands():
		return &misuse{topic.CommandPath() + " has no subcommands", "run " + cmd.Root().Name() + " help " + topic.Name()}
	}
	return unknownCommand(topic, rest)
}

// flagError refuses a flag that does not exist or has an invalid value.
func flagError(cmd *cobra.Command, err error) error {
	var names []string
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	return describeFlagError(err, names, "run "+cmd.CommandPath()+" --help")
}

// describeFlagError describes a flag that does not exist or has an invalid value. It
// names the flag and omits the value. names are those of the flags that may be meant.
func describeFlagError(err error, names []string, hint string) *misuse {
	u := &misuse{"a flag has an invalid value", hint}
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		u.what, u.hint = unknownFlag(unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames(), names, u.hint)
	case errors.As(err, &bare):
		u.what = "flag needs an argument: --" + bare.GetSpecifiedName()
	case errors.As(err, &wrong):
		u.what = "invalid argument for --" + wrong.GetFlag().Name
		var number *strconv.NumError
		if own := (*misuse)(nil); errors.As(err, &own) {
			u.what, u.hint = u.what+": "+own.what, own.hint
		} else if errors.As(err, &number) {
			u.what += ": " + number.Err.Error()
		}
	}
	return u
}

// unknownFlag describes a flag that does not exist. After a single hyphen, name
// is the first letter that is not a flag; all the letters may be the name of a
// flag that needs two hyphens.
func unknownFlag(name, letters string, names []string, otherwise string) (what, hint string) {
	if letters != "" {
		name, _, _ = strings.Cut(letters, "=")
	}
	names = slices.DeleteFunc(names, func(other string) bool { return other == name }) // of another subcommand
	what, hint = "unknown flag", didYouMean(name, "--", names, otherwise)
	if likeName(name) && (letters == "" || hint != otherwise) {
		what += ": --" + name
	}
	return what, hint
}
