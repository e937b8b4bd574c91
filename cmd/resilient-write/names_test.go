package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// token is a made-up credential with a correct checksum; each seed gives
// another one.
func token(seed int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	body := base64.RawURLEncoding.EncodeToString([]byte(shaOf(fmt.Sprint("token", seed))))[:30]
	sum, tail := crc32.ChecksumIEEE([]byte(body)), make([]byte, 6)
	for i := range tail {
		tail[5-i] = digits[sum%62]
		sum /= 62
	}
	return "gh" + "p_" + body + string(tail)
}

// argument is the path to one argument of a tool: names of members, and 0 for
// the first item of a list.
type argument []any

func (a argument) String() string { return fmt.Sprint([]any(a)...) }

// textArguments returns the arguments of a schema that may be text, including
// nested ones.
func textArguments(t *testing.T, schema json.RawMessage) (list []argument) {
	t.Helper()
	var root map[string]any
	noErr(t, json.Unmarshal(schema, &root))
	var walk func(node map[string]any, at argument)
	walk = func(node map[string]any, at argument) {
		for _, kind := range []string{"anyOf", "oneOf", "allOf"} {
			branches, _ := node[kind].([]any)
			for _, b := range branches {
				walk(b.(map[string]any), at)
			}
		}
		kinds := fmt.Sprint(node["type"])
		if (strings.Contains(kinds, "string") || node["type"] == nil && len(at) > 0) && !slices.ContainsFunc(list, func(a argument) bool { return a.String() == at.String() }) {
			list = append(list, slices.Clone(at))
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(items, append(slices.Clone(at), 0))
		}
		members, _ := node["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			walk(members[name].(map[string]any), append(slices.Clone(at), name))
		}
	}
	walk(root, nil)
	return list
}

// set returns a copy of arguments with one of them replaced; missing parents
// are created.
func set(node any, at argument, value any) any {
	if len(at) == 0 {
		return value
	}
	if name, ok := at[0].(string); ok {
		members, _ := node.(args)
		members = maps.Clone(members)
		if members == nil {
			members = args{}
		}
		members[name] = set(members[name], at[1:], value)
		return members
	}
	items, _ := node.([]any)
	if items = slices.Clone(items); len(items) == 0 {
		items = []any{nil}
	}
	items[0] = set(items[0], at[1:], value)
	return items
}

// holding lists the files below a directory whose name or content contains one
// of the secrets, except those in the quarantine.
func holding(t *testing.T, dir string, secrets map[string]string) []string {
	t.Helper()
	var found []string
	noErr(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "quarantine" {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		data := []byte(path)
		if d.Type().IsRegular() {
			more, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data = append(data, more...)
		}
		found = append(found, tellers(data, path[len(dir):], secrets)...)
		return nil
	}))
	return found
}

func tellers(data []byte, where string, secrets map[string]string) (found []string) {
	for what, secret := range secrets {
		forms, known := formsOf[secret]
		if !known {
			for _, form := range testbed.Forms(secret) {
				forms = append(forms, []byte(form))
			}
			formsOf[secret] = forms
		}
		if slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(data, form) }) {
			found = append(found, what+" in "+where)
		}
	}
	return found
}

// formsOf caches the forms of secrets.
var formsOf = map[string][][]byte{}

// mayKeep are the arguments whose text is kept on purpose: the scratchpad is
// where raw material belongs.
var mayKeep = map[string]bool{"scratch_put content": true}

// TestNoArgumentLeavesACredential puts a different credential into every
// argument of every tool that accepts text, as the schemas list them, and calls
// the tool in the binary. Whatever the outcome of the call, neither its reply,
// nor the log, nor a file or its name contains the credential afterwards; only
// the quarantine may. A new argument is covered by its schema.
func TestNoArgumentLeavesACredential(t *testing.T) {
	s := openSurface(t)
	log, _ := client.GetStderr(s.c)
	logged := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(log)
		logged <- data
	}()
	secrets, calls := map[string]string{}, 0
	try := func(tool string, at argument, a any, what string) {
		calls++
		secret := token(calls)
		key := what + tool + " " + at.String()
		if !mayKeep[key] {
			secrets[key] = secret
		}
		times := 1
		if len(at) == 1 && at[0] == "path" {
			times = 4 // the last one is refused by the retry budget
		}
		for range times {
			out := call(t, s.c, "rw_"+tool, set(a, at, secret).(args))
			if out["ok"] == true && s.tools[tool].ReadOnly && tool != "validate" {
				continue // the caller's own text, stored nowhere
			}
			doc, _ := json.Marshal(out)
			for _, where := range tellers(doc, "its reply", map[string]string{key: secret}) {
				t.Errorf("%s: %s", where, doc)
			}
		}
	}
	for _, c := range surfaceCases {
		good := c.good(s)
		s.replies[c.tool] = call(t, s.c, "rw_"+c.tool, good)
		for _, at := range textArguments(t, s.tools[c.tool].Input) {
			try(c.tool, at, good, "")
			try(c.tool, at, c.bad, "refused ")
		}
		surplus := token(1_000_000 + calls) // as the name of an argument
		secrets["the name of an argument of "+c.tool] = surplus
		try(c.tool, argument{surplus}, good, "unknown ")
	}
	if calls < 300 {
		t.Errorf("only %d arguments were tried", calls)
	}
	for _, where := range holding(t, s.dir, secrets) {
		t.Error(where)
	}
	s.c.Close()
	for _, where := range tellers(<-logged, "the log", secrets) {
		t.Error(where)
	}
	for _, where := range holding(t, s.dir, secrets) {
		t.Error(where + " after the end of the server")
	}
}
