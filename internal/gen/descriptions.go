package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// descriptionsFile is made from the doc comments before anything else: the
// other files are made by a program that holds it.
const descriptionsFile = "internal/schema/descriptions.txt"

// described are the packages whose structs describe arguments or replies.
var described = []string{".", "admin", "analytics", "around", "call", "command", "handoff", "toolbox"}

// descriptions lists the doc comments of the fields that have a name in JSON,
// by type and field, sorted.
func descriptions(root string) ([]byte, error) {
	var lines []string
	for _, dir := range described {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			lines = append(lines, fieldComments(dir, file)...)
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "")), nil
}

func fieldComments(dir string, file *ast.File) (lines []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				if text == "" || f.Tag == nil || jsonName(f.Tag.Value) == "" {
					continue
				}
				for _, name := range f.Names {
					full := path.Join(dir, spec.Name.Name+"."+name.Name)
					if dir != "." {
						full = dir + "." + spec.Name.Name + "." + name.Name
					}
					lines = append(lines, full+"\t"+text+"\n")
				}
			}
		}
		return true
	})
	return lines
}

// jsonName is the name in JSON that a tag gives, "" for none.
func jsonName(tag string) string {
	text, err := strconv.Unquote(tag)
	if err != nil {
		return ""
	}
	keys := reflect.StructTag(text)
	name, _, _ := strings.Cut(cmp.Or(keys.Get("copy"), keys.Get("json"), keys.Get("wire")), ",")
	if name == "-" {
		return ""
	}
	return name
}
