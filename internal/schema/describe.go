package schema

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"
)

// descriptions.txt holds the doc comments of the fields of arguments and
// replies, which a program cannot read at run time. The command internal/gen
// writes it from the Go source: a line for each field, its name and its text.
//
//go:embed descriptions.txt
var descriptionsText string

const module = "github.com/resilientwrite/resilientwrite"

// descriptions maps "Type.Field", of another package than the root
// "dir.Type.Field", to the doc comment of the field.
var descriptions = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(descriptionsText) {
		if name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			m[name] = text
		}
	}
	return m
})

// description returns the description of a field: its tag desc, or else its doc
// comment.
func description(t reflect.Type, f reflect.StructField) string {
	if text := f.Tag.Get("desc"); text != "" {
		return text
	}
	name := t.Name() + "." + f.Name
	if dir, ok := strings.CutPrefix(t.PkgPath(), module+"/"); ok {
		name = dir + "." + name
	}
	return descriptions()[name]
}
