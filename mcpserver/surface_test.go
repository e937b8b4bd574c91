package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

var update = flag.Bool("update", false, "write the golden of the surface that is in the making")

const (
	goldens   = "../testdata/surface"
	changelog = "../docs/mcp-schema-changelog.md"
)

// current is the surface as the code makes it.
func current(t testing.TB) surface.Document {
	t.Helper()
	data := must(mcpserver.Surface())(t)
	doc := must(surface.Decode(data))(t)
	return doc
}

// TestSurfaceMovesByItsRules compares the surface with the last released one:
// each difference is classified, has an entry in the changelog, and the version
// is far enough from the released one. docs/governance.md says what to do when
// this fails; -update writes the golden of the version in the making.
func TestSurfaceMovesByItsRules(t *testing.T) {
	log := must(os.ReadFile(changelog))(t)
	doc := current(t)
	if *update {
		writeGolden(t, doc, log)
	}
	kept := map[string][]byte{}
	names := must(filepath.Glob(filepath.Join(goldens, "*.json")))(t)
	for _, name := range names {
		data := must(os.ReadFile(name))(t)
		kept[strings.TrimSuffix(filepath.Base(name), ".json")] = data
	}
	for _, problem := range surface.Review(kept, log, doc) {
		t.Error(problem)
	}
}

// writeGolden refuses to write a version that was released.
func writeGolden(t *testing.T, doc surface.Document, log []byte) {
	t.Helper()
	sections, problems := surface.ParseChangelog(log)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, s := range sections {
		if s.Version.String() == doc.SchemaVersion && s.Released != "" {
			t.Fatalf("%s was released; give SchemaVersion the next number first", s.Version)
		}
	}
	data := must(doc.Encode())(t)
	noErr(t, os.MkdirAll(goldens, 0o755))
	noErr(t, os.WriteFile(filepath.Join(goldens, doc.SchemaVersion+".json"), data, 0o644))
}

// TestSurfaceIsAlwaysTheSameBytes: no map order, no time, no host shows in it.
func TestSurfaceIsAlwaysTheSameBytes(t *testing.T) {
	first := must(mcpserver.Surface())(t)
	for range 5 {
		if again, err := mcpserver.Surface(); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("another surface, %v", err)
		}
	}
	doc := current(t)
	sorted := func(what string, list []string) {
		if len(list) < 2 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%s are not in order, or there twice: %v", what, list)
		}
	}
	sorted("tools", allOf(doc.Tools, func(t surface.Tool) string { return t.Name }))
	sorted("details", allOf(doc.Details, func(d surface.Detail) string { return d.Name }))
	sorted("warnings", allOf(doc.Warnings, func(w surface.Warning) string { return w.Name }))
	sorted("variables", allOf(doc.Environment, func(v surface.Variable) string { return v.Name }))
	sorted("resources", allOf(doc.Resources, func(r surface.Resource) string { return r.Address }))
	sorted("prompts", allOf(doc.Prompts, func(p surface.Prompt) string { return p.Name }))
	for _, d := range doc.Details {
		if d.Hint == "" || d.Kind == "" || d.Action == "" || d.Reason == "" {
			t.Errorf("%+v says too little", d)
		}
	}
}

func allOf[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}

// ask sends one request and returns its result.
func ask(t testing.TB, s *server.MCPServer, method string) []byte {
	t.Helper()
	out := must(json.Marshal(mcpserver.Handle(ctx, s, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`))))(t)
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(out, &m); err != nil || m.Error != nil {
		t.Fatalf("%s: %s", method, out)
	}
	return m.Result
}

// TestSurfaceIsWhatClientsGet: what is kept as the surface is what a server
// lists, to the letter: tools, resources, prompts; and describe tells the same
// version, codes and tools.
func TestSurfaceIsWhatClientsGet(t *testing.T) {
	doc := current(t)
	store := openStore(t)
	for i, p := range mcpserver.Presets() {
		var want []string
		for _, tool := range doc.Presets[i].Tools {
			want = append(want, "rw_"+tool.Name)
		}
		if diff := cmp.Diff(want, names(list(t, mcpserver.New(store, &mcpserver.Options{Tier: p})))); diff != "" {
			t.Errorf("%s: %s", p, diff)
		}
	}
	s := mcpserver.New(store, &mcpserver.Options{Tier: mcpserver.Full})
	var tools struct {
		Tools []struct {
			Name, Title, Description  string
			InputSchema, OutputSchema json.RawMessage
			Annotations               struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool }
		}
	}
	noErr(t, json.Unmarshal(ask(t, s, "tools/list"), &tools))
	var got []surface.Tool
	for i, one := range tools.Tools {
		a := one.Annotations
		got = append(got, surface.Tool{
			Name: strings.TrimPrefix(one.Name, "rw_"), Title: one.Title, Tier: doc.Tools[i].Tier, Description: one.Description, Deprecated: doc.Tools[i].Deprecated,
			Annotations: surface.Annotations{ReadOnly: *a.ReadOnlyHint, Destructive: *a.DestructiveHint, Idempotent: *a.IdempotentHint, OpenWorld: *a.OpenWorldHint},
			Input:       squeezed(t, one.InputSchema), Output: squeezed(t, one.OutputSchema),
		})
	}
	want := slices.Clone(doc.Tools)
	for i := range want {
		want[i].Input, want[i].Output = squeezed(t, want[i].Input), squeezed(t, want[i].Output)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools: %s", diff)
	}
	compareListed(t, s, doc)
	result, _ := reply(t, s, "rw_describe", json.RawMessage(`{}`))
	var d struct {
		Codes   map[string]int
		Surface toolbox.SurfaceFacts
	}
	noErr(t, json.Unmarshal(result, &d))
	codes := map[string]int{}
	for _, c := range doc.Codes {
		codes[c.Name] = c.Number
	}
	if diff := cmp.Diff(codes, d.Codes); diff != "" {
		t.Errorf("codes: %s", diff)
	}
	if d.Surface.SchemaVersion != doc.SchemaVersion || len(d.Surface.Tools) != len(doc.Tools) {
		t.Errorf("describe tells of %s with %d tools", d.Surface.SchemaVersion, len(d.Surface.Tools))
	}
}

// squeezed is JSON without blanks.
func squeezed(t testing.TB, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	noErr(t, json.Compact(&b, raw))
	return b.Bytes()
}

// compareListed compares resources and prompts with what a server lists.
func compareListed(t *testing.T, s *server.MCPServer, doc surface.Document) {
	t.Helper()
	var fixed, templates struct {
		Resources, ResourceTemplates []struct{ URI, URITemplate, Name, Title, Description, MIMEType string }
	}
	var prompts struct{ Prompts []surface.Prompt }
	for method, into := range map[string]any{"resources/list": &fixed, "resources/templates/list": &templates, "prompts/list": &prompts} {
		noErr(t, json.Unmarshal(ask(t, s, method), into), method)
	}
	got := map[string]surface.Resource{}
	for _, r := range append(fixed.Resources, templates.ResourceTemplates...) {
		one := surface.Resource{Address: r.URI + r.URITemplate, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType, Template: r.URITemplate != ""}
		got[one.Address] = one
	}
	want := map[string]surface.Resource{}
	for _, r := range doc.Resources {
		r.Updates = false // a listing does not tell
		want[r.Address] = r
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources: %s", diff)
	}
	if diff := cmp.Diff(doc.Prompts, prompts.Prompts); diff != "" {
		t.Errorf("prompts: %s", diff)
	}
}

// TestSchemaFilesAreTheSurface: what spec/ embeds, what programs validate
// with, is what the code makes.
func TestSchemaFilesAreTheSurface(t *testing.T) {
	doc := current(t)
	data := must(spec.Schema("tools"))(t)
	var file struct {
		Tools []struct {
			Name, Title, Tier, Description string
			InputSchema, OutputSchema      json.RawMessage
		}
	}
	noErr(t, json.Unmarshal(data, &file))
	var want, got [][]string
	for _, one := range doc.Tools {
		want = append(want, []string{"rw_" + one.Name, one.Title, one.Tier, one.Description, string(squeezed(t, one.Input)), string(squeezed(t, one.Output))})
	}
	for _, one := range file.Tools {
		got = append(got, []string{one.Name, one.Title, one.Tier, one.Description, string(squeezed(t, one.InputSchema)), string(squeezed(t, one.OutputSchema))})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec/tools.schema.json is stale, run go generate ./...: %s", diff)
	}
	envelope := must(spec.Schema("errors"))(t)
	if diff := cmp.Diff(string(squeezed(t, doc.Envelope)), string(squeezed(t, envelope))); diff != "" {
		t.Errorf("spec/errors.schema.json is stale, run go generate ./...: %s", diff)
	}
}

// TestEnvironmentIsWhatTheCommandReads: the table and the source of the
// command name the same variables, and flags that exist.
func TestEnvironmentIsWhatTheCommandReads(t *testing.T) {
	files := must(filepath.Glob("../cmd/resilient-write/*.go"))(t)
	read, flags := map[string]bool{}, map[string]bool{}
	variable := regexp.MustCompile(`env\("(RW_[A-Z_]+)"\)|Getenv\("(RW_[A-Z_]+)"\)|LookupEnv\("(RW_[A-Z_]+)"\)`)
	option := regexp.MustCompile(`(?:Var|Func)\((?:&[\w.]+, )?"([a-z][a-z-]*)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := must(os.ReadFile(name))(t)
		for _, m := range variable.FindAllSubmatch(text, -1) {
			read[string(m[1])+string(m[2])+string(m[3])] = true
		}
		for _, m := range option.FindAllSubmatch(text, -1) {
			flags[string(m[1])] = true
		}
	}
	told := map[string]bool{}
	for _, v := range surface.Environment() {
		told[v.Name] = true
		if v.Flag != "" && !flags[v.Flag] {
			t.Errorf("%s: the command has no flag %s", v.Name, v.Flag)
		}
		if len(v.Meaning) < 10 || !strings.HasSuffix(v.Meaning, ".") {
			t.Errorf("%s: %q says too little", v.Name, v.Meaning)
		}
	}
	if diff := cmp.Diff(told, read); diff != "" || len(told) < 6 {
		t.Errorf("internal/surface/environment.go and the command differ: %s", diff)
	}
}

// TestEveryWarningIsInTheSurface: a reason that the code can give is told of.
func TestEveryWarningIsInTheSurface(t *testing.T) {
	text := must(os.ReadFile("../receipt.go"))(t)
	declared := regexp.MustCompile(`\n\tWarn\w+ += "([a-z_]+)"`).FindAllSubmatch(text, -1)
	known := map[string]bool{}
	for _, w := range current(t).Warnings {
		known[w.Name] = true
		if w.Hint == "" {
			t.Errorf("%s has no hint", w.Name)
		}
	}
	if len(declared) < 20 || len(declared) != len(known) {
		t.Errorf("%d warnings are declared, %d are told of", len(declared), len(known))
	}
	for _, m := range declared {
		if !known[string(m[1])] {
			t.Errorf("%s is not told of", m[1])
		}
	}
}
