package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// published validates a document against a schema as its authors publish it: a
// file of a Go module, next to those that it refers to.
func published(t *testing.T, module, schema string, text []byte) {
	t.Helper()
	if !full() {
		return // it needs the network
	}
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside our module, which does not need it
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	jsonErr := json.Unmarshal(out, &got)
	testbed.Require(t, err == nil && jsonErr == nil, "%s: %v %v %s", module, err, jsonErr, got.Error)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	files := testbed.Must(filepath.Glob(filepath.Join(got.Dir, filepath.Dir(schema), "*.json")))(t)
	var id string
	for _, name := range files {
		text := testbed.Must(os.ReadFile(name))(t)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		testbed.NoErr(t, err, name)
		own, _ := doc.(map[string]any)["$id"].(string)
		if own == "" || c.AddResource(own, doc) != nil {
			continue
		}
		if filepath.Base(name) == filepath.Base(schema) {
			id = own
		}
	}
	rules := testbed.Must(c.Compile(id))(t)
	doc := testbed.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	err = rules.Validate(doc)
	testbed.Expect(t, err == nil, "%v", err)
	// A schema that is not applied accepts everything.
	testbed.Expect(t, rules.Validate(map[string]any{}) != nil, "%s accepts an empty document", id)
}

// registrySchema validates a server.json against the schema of the registry.
func registrySchema(t *testing.T, text []byte) {
	t.Helper()
	published(t, "github.com/modelcontextprotocol/registry@v1.8.8", "internal/validators/schemas/2025-12-11.json", text)
}

// bomSchema validates a list of modules against the schema of the format.
func bomSchema(t *testing.T, text []byte) {
	t.Helper()
	published(t, "github.com/CycloneDX/cyclonedx-go@v0.12.0", "schema/bom-1.6.schema.json", text)
}
